"""What is refused before an engine starts: the folder stays as it was, and nothing runs."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from kvlab import api
from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.plan import Ask
from kvlab.core.record import Load
from kvlab.lab import Lab
from kvlab.load.datasets import PromptsFile, RandomTokens
from kvlab.preflight import check_settings
from kvlab.settings import Settings

QWEN3_8B = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B.json"


def settings(model: Path, **changes: object) -> Settings:
    arm = Ask(engine="llamacpp", context=1024, parallel=2, engine_args=(("embedded", "true"),))
    base = Settings(
        title="test",
        source=str(model),
        a=msgspec.structs.replace(arm, kv_dtype="f16"),
        b=msgspec.structs.replace(arm, kv_dtype="q4_0"),
        load=Load(dataset="random", prompts=4, input_tokens=16, output_tokens=4, concurrency=2, rate=None, seed=3),
        dataset=RandomTokens(input_tokens=16, output_tokens=4),
        warm_up=1,
    )
    return msgspec.structs.replace(base, **changes)


def test_two_engines_are_no_ab(gemma: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not llamacpp and vllm"):
        api.ab(settings(gemma, b=Ask(engine="vllm", pool_gib=1.0)), tmp_path / "lab")
    assert not (tmp_path / "lab").exists()


def test_a_config_alone_cannot_be_served(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(QWEN3_8B.read_text())))
    with pytest.raises(BadInput, match="holds no weights, so nothing can be served"):
        api.ab(settings(config), tmp_path / "lab")
    assert not (tmp_path / "lab").exists()


def test_an_engine_that_is_not_here(gemma: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    arms = {"a": Ask(engine="vllm", pool_gib=1.0), "b": Ask(engine="vllm", pool_gib=2.0)}
    with pytest.raises(EngineFailed, match="no vllm on PATH"):
        api.ab(settings(gemma, **arms), tmp_path / "lab")
    assert not (tmp_path / "lab").exists()


def test_requests_longer_than_an_arm_allows(gemma: Path, tmp_path: Path) -> None:
    # two slots share 1,024 tokens
    too_long = settings(gemma, dataset=RandomTokens(input_tokens=500, output_tokens=64), prefix_rounds=None)
    with pytest.raises(BadInput, match=r"requests of 564 tokens .* do not fit the 512 that an arm allows"):
        api.ab(too_long, tmp_path / "lab")


def test_no_room_for_a_prefix(gemma: Path) -> None:
    asked = settings(gemma)
    plan = api.plan_ask(gemma, asked.a)
    short = msgspec.structs.replace(plan, kv=msgspec.structs.replace(plan.kv, context=200))
    with pytest.raises(BadInput, match="200 tokens a request leave no room for a prefix"):
        check_settings(asked, [plan, short])
    check_settings(asked, [plan, plan])


@pytest.mark.parametrize(
    "changes",
    [
        {"quality_prompts": "none.txt", "prefix_rounds": None},
        {"dataset": PromptsFile(path="none.txt", output_tokens=4), "prefix_rounds": None},
    ],
)
def test_prompts_that_are_not_there(gemma: Path, tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=r"none\.txt"):
        api.ab(settings(gemma, **changes), tmp_path / "lab")
    assert not (tmp_path / "lab").exists()


def test_a_lab_takes_up_a_change_that_no_finished_step_rests_on(gemma: Path, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    first = settings(gemma)
    free = frozenset({"prefix_rounds"})
    with lab.claimed(first):
        pass
    changed = msgspec.structs.replace(first, prefix_rounds=None)
    with lab.claimed(changed, may_change=free):
        assert lab.load("lab.json", Settings) == changed
    load = msgspec.structs.replace(first.load, concurrency=4)
    other = msgspec.structs.replace(first, load=load)
    with pytest.raises(BadInput, match=r"load\.concurrency was 2 and is 4"), lab.claimed(other, may_change=free):
        pass
    assert lab.load("lab.json", Settings) == changed


def test_a_damaged_step_says_how_to_go_on(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.path("sittings.json").write_text('["2026-')
    with pytest.raises(BadInput, match=r"sittings\.json.*; delete that file, and the same command does its step again"):
        lab.load("sittings.json", tuple[str, ...])


def test_a_quality_gate_needs_two_configurations(gemma: Path) -> None:
    plan = api.plan_ask(gemma, settings(gemma).a)
    with pytest.raises(BadInput, match="same configuration"):
        api.quality(plan, plan)
