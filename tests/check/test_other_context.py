"""What the context of a real llama-server explains of the rows that differ."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from kvlab.core.check import compare
from kvlab.core.model import Origin
from kvlab.core.plan import Ask, EngineId, Expected, Flag, KvCost, Launch, Plan, Verdict
from kvlab.core.units import MIB
from kvlab.observe import read_log
from kvlab.reasons.context import OtherContext, other_context

SERVED = Path(__file__).parents[1] / "golden" / "llamacpp" / "f16_8192_np4.log"
"""llama-server -c 8192 -np 4, Gemma 3 270M."""


def expected(name: str, value: float, unit: str = "tokens", tolerance: float = 0) -> Expected:
    return Expected(name=name, value=value, unit=unit, kind="computed", tolerance=tolerance, because="of -c")


def planned(*rows: Expected, context: int) -> Plan:
    return Plan(
        source=Origin("gemma.gguf", "gguf"),
        engine=EngineId("llamacpp", "b11549"),
        layout=(),
        kv=KvCost("f16", 1, None, None),
        ledger=(),
        capacity=None,
        alternatives=(),
        contexts=(),
        verdict=Verdict("unknown", ""),
        launch=Launch((), flags=(Flag("--ctx-size", str(context), "the context"),)),
        expects=rows,
        doubts=(),
        ask=Ask(engine="llamacpp"),
    )


def with_half_the_context() -> Plan:
    """What -c 4096 -np 4 makes of the same model."""
    rows = (
        expected("n_ctx", 4096),
        expected("n_ctx_seq", 1024),
        expected("slots", 4, "slots"),
        expected("n_ctx_slot", 1024),
        expected("kv_window_cells", 1024, "cells"),
        expected("kv_full_cells", 1024, "cells"),
        expected("kv_full_k_bytes", 6 * MIB, "bytes", 5250),
        expected("kv_full_v_bytes", 6 * MIB, "bytes", 5250),
        expected("kv_full_bytes", 12 * MIB, "bytes", 5250),
    )
    return planned(*rows, context=4096)


def found(plan: Plan) -> tuple[OtherContext, dict[str, str | None]]:
    """What the log's context explains, and the rows that differ with what was planned of them."""
    rows = compare(plan, read_log(str(SERVED))).rows
    context = other_context(plan, rows)
    assert context is not None
    return context, {row.name: row.likely_because for row in rows if row.verdict == "differs"}


def test_one_flag_explains_all_rows_that_differ() -> None:
    context, differing = found(with_half_the_context())
    assert len(differing) == 7
    assert context.explains == differing.keys()
    assert context.reason == "the server runs with --ctx-size 8192, not 4096"
    assert "that one setting explains all 7 rows that differ" in context.remark
    assert context.remark.endswith("start it with 4096, or plan with --context 8192")


def test_what_the_context_does_not_explain_keeps_its_own_reason() -> None:
    before = with_half_the_context()
    wrong = (*before.expects[:-1], expected("kv_full_bytes", 6 * MIB, "bytes", 5250), expected("slots", 2, "slots"))
    context, differing = found(replace(before, expects=wrong))
    assert "kv_full_bytes" not in context.explains
    assert differing["kv_full_bytes"] == "planned because of -c"
    assert "explains 6 of the 8 rows" in context.remark
