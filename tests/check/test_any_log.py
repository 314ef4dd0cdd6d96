"""Whatever a log states, a comparison answers: settings and numbers of any size, for every engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvlab import api, engines
from kvlab.core.observation import Observation, Seen, Setting
from kvlab.core.plan import Plan
from kvlab.core.stated import ABSENT, Arguments
from kvlab.reasons import checked

QWEN = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B.json"
PLANS: dict[str, Plan] = {}
WORDS = st.sampled_from(
    ["None", "True", "False", "0", "1", "-1", "3", "16", "8192", "10" * 12, "0.5", "1e9", "'fp8'", "'x y'", "{'a': 1}"]
)


def planned(engine: str) -> Plan:
    if engine not in PLANS:
        PLANS[engine] = api.plan(QWEN, engine=engine, gpu="h100-80gb", context=8192)
    return PLANS[engine]


def lists(engine: str) -> tuple[Arguments, ...]:
    return engines.stated_args(engine).lists


@pytest.mark.parametrize("engine", engines.names())
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_no_log_stops_it(engine: str, data: st.DataObject) -> None:
    plan = planned(engine)
    stated = []
    for item in lists(engine):
        for key in data.draw(st.lists(st.sampled_from(sorted(item.names)), max_size=3, unique=True)):
            named = item.names[key]
            value = named.turn(data.draw(WORDS))
            if value != ABSENT:
                stated.append(Setting(name=named.name, flag=key, value=value, line="..."))
    seen = []
    for row in plan.expects:
        if isinstance(row.value, str):
            value = data.draw(st.sampled_from([row.value, "fp8", "other"]))
            seen.append(Seen(name=row.name, value=value, unit="word", line="a line"))
        elif data.draw(st.booleans()):
            factor = data.draw(st.sampled_from([0.0, 1.0, 0.5, 2.0, 1e-9, 1e9, -1.0]))
            seen.append(Seen(name=row.name, value=row.value * factor, unit=row.unit, line="a line"))
    version = data.draw(st.sampled_from([None, plan.engine.version, "0.6.3", "b0-unknown", "nonsense"]))
    observation = Observation(
        engine=engine, version=version, seen=tuple(seen), settings=tuple(stated), all_settings=data.draw(st.booleans())
    )
    found = checked(plan, observation, source=str(QWEN))
    for seen_row in found.rows:
        assert (seen_row.verdict == "differs") or not seen_row.causes
        assert all(not reason.explains or seen_row.name in reason.explains for reason in seen_row.causes)
    differing = {row.name for row in found.rows if row.verdict == "differs"}
    assert all(differing.issuperset(reason.explains) for reason in found.causes)
    if not differing:
        assert not found.causes
