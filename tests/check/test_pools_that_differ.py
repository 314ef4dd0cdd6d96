"""Pools that differ: which line of the ledger, and what a start of something else may not teach."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from kvlab import api
from kvlab.cli import main
from kvlab.core.check import Check, Reason
from kvlab.core.errors import BadInput
from kvlab.core.plan import Plan
from kvlab.core.units import GIB
from kvlab.observe import read_log
from kvlab.reporting import terminal

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"
QWEN = CONFIGS / "Qwen__Qwen3-8B.json"


def planned(**options: object) -> Plan:
    return api.plan(QWEN, **{"gpu": "h100-80gb", **options})  # type: ignore[arg-type]


def line(plan: Plan, name: str) -> float:
    return next(abs(item.bytes) for item in plan.ledger if item.name == name) / GIB


def log(folder: Path, pool: float, *more: str, args: str | None = None, version: str = "0.32.0") -> Path:
    """Lines as vLLM writes them (tests/golden/vllm/lines.jsonl)."""
    head = "INFO 11-30 10:00:0"
    lines = [f"{head}0 [core.py:100] Initializing a V1 LLM engine (v{version}) with config: model='m'"]
    lines += [f"{head}0 [utils.py:1] non-default args: {args}"] if args else []
    lines += [f"{head}1 [gpu_worker.py:1] {text}" for text in more]
    lines.append(f"{head}2 [gpu_worker.py:1] Available KV cache memory: {pool:.2f} GiB")
    path = folder / "engine.log"
    path.write_text("\n".join(lines))
    return path


def reasons(check: Check) -> dict[str, Reason]:
    return {reason.code: reason for reason in check.causes}


def follows(check: Check) -> tuple[str, ...]:
    return next(row.follows_from for row in check.rows if row.name == "kv_pool_bytes")


def test_weights_that_took_more_explain_the_pool_to_the_byte(tmp_path: Path) -> None:
    plan = planned()
    more = 6.0
    weights = f"Model loading took {line(plan, 'weights') + more:.2f} GiB memory and 3.1 seconds"
    found = api.check(log(tmp_path, line(plan, "pool") - more, weights), plan=plan, source=QWEN)
    reason = reasons(found)["weights"]
    assert (reason.certainty, reason.explains) == ("exact", ("kv_pool_bytes",))
    assert "6.00 GiB more than planned" in reason.text
    assert follows(found) == ("pool", "weights")
    assert "overhead_estimate" not in reasons(found)


def test_graphs_that_the_plan_does_not_count_explain_the_pool(tmp_path: Path) -> None:
    plan = planned(engine_version="0.19.0")
    assert "cuda_graphs" not in {item.name for item in plan.ledger}
    graphs = 5.5
    text = f"Estimated CUDA graph memory: {graphs:.2f} GiB total"
    found = api.check(log(tmp_path, line(plan, "pool") - graphs, text, version="0.19.0"), plan=plan)
    reason = reasons(found)["graphs_counted"]
    assert (reason.certainty, reason.explains) == ("exact", ("kv_pool_bytes",))
    assert "none planned" in reason.text
    assert follows(found) == ("pool", "cuda_graphs")


def test_another_share_is_named_and_planned_again(tmp_path: Path) -> None:
    plan = planned()
    other = planned(util=0.8)
    found = api.check(
        log(tmp_path, line(other, "pool"), args="{'gpu_memory_utilization': 0.8}"), plan=plan, source=QWEN
    )
    (reason,) = found.causes
    # an estimate agrees within its range, which is no exact match
    assert (reason.code, reason.certainty, reason.explains) == ("memory_share", "stated", ("kv_pool_bytes",))
    assert follows(found) == ("pool", "left_free")
    assert "plan with --util 0.8" in found.remarks[0]


def test_what_no_line_states_is_only_possible(tmp_path: Path) -> None:
    plan = planned()
    weights = f"Model loading took {line(plan, 'weights'):.2f} GiB memory and 3.1 seconds"
    found = api.check(log(tmp_path, line(plan, "pool") - 8, weights), plan=plan, source=QWEN)
    (reason,) = found.causes
    assert (reason.code, reason.certainty) == ("overhead_estimate", "possible")
    assert "activations" in reason.text
    assert "8.0" in reason.text
    assert "weights" not in follows(found)
    assert found.rows[0].causes == (reason,)


def test_adapters_and_drafts_are_named_where_no_plan_counts_them(tmp_path: Path) -> None:
    plan = planned()
    draft = "{'method': 'eagle3', 'model': 'org/draft', 'num_speculative_tokens': 3}"
    args = f"{{'enable_lora': True, 'speculative_config': {draft}}}"
    found = api.check(log(tmp_path, line(plan, "pool") - 8, args=args), plan=plan, source=QWEN)
    assert {"adapters", "draft_model"} <= set(reasons(found))
    assert all(reasons(found)[code].certainty == "possible" for code in ("adapters", "draft_model"))


@pytest.mark.parametrize(
    ("pool", "args", "more", "words"),
    [
        (
            lambda: line(planned(util=0.8), "pool"),
            "{'gpu_memory_utilization': 0.8}",
            (),
            "the log's --gpu-memory-utilization is 0.8",
        ),
        (lambda: 4.0, "{'kv_cache_memory_bytes': 4294967296}", (), "--kv-cache-memory-bytes"),
        (
            lambda: line(planned(), "pool") - 39,
            None,
            ("Initial free memory: 40.00 GiB",),
            "another process held",
        ),
    ],
)
def test_a_start_of_something_else_teaches_nothing(
    tmp_path: Path, kept: Path, pool: Callable[[], float], args: str | None, more: tuple[str, ...], words: str
) -> None:
    with pytest.raises(BadInput, match=r"not learned, since the log is not of a start of this plan: ") as refusal:
        api.check(log(tmp_path, pool(), *more, args=args), plan=planned(), learn=True, source=QWEN)
    assert words in str(refusal.value)
    assert not kept.exists()


def test_a_setting_that_differs_teaches_nothing_where_the_model_is_not_found(tmp_path: Path, kept: Path) -> None:
    with pytest.raises(BadInput, match="the log's --gpu-memory-utilization is"):
        api.check(log(tmp_path, 46.0, args="{'gpu_memory_utilization': 0.8}"), plan=planned(), learn=True)
    assert not kept.exists()


def test_an_overhead_that_was_larger_is_learned(tmp_path: Path, kept: Path) -> None:
    plan = planned()
    found = api.check(log(tmp_path, line(plan, "pool") - 8), plan=plan, learn=True, source=QWEN)
    assert found.learned is not None
    assert kept.exists()


def test_a_plan_from_before_a_start_was_learned_is_still_planned_again(tmp_path: Path) -> None:
    plan = planned()
    api.check(log(tmp_path, line(plan, "pool") - 8), plan=plan, learn=True, source=QWEN)
    args = "{'gpu_memory_utilization': 0.8}"
    found = api.check(
        log(tmp_path, line(planned(calibration=False, util=0.8), "pool"), args=args), plan=plan, source=QWEN
    )
    assert reasons(found)["memory_share"].explains == ("kv_pool_bytes",)


def test_the_terminal_shows_causes_first_and_what_each_row_follows_from(tmp_path: Path) -> None:
    plan = planned()
    more = f"Model loading took {line(plan, 'weights') + 6:.2f} GiB memory and 3.1 seconds"
    found = api.check(log(tmp_path, line(plan, "pool") - 6, more), plan=plan, source=QWEN)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(terminal.check(found))
    text = " ".join(capture.get().split())
    assert text.index("Likely because - explains it exactly: the log's weights take") < text.index(
        "Read from these lines"
    )
    assert "kv pool bytes: follows from pool, and that from weights; likely because the log's weights take" in text


def test_the_command_takes_the_models_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    assert main(["plan", str(QWEN), "--gpu", "h100-80gb", "--json", "-o", str(file)]) == 0
    capsys.readouterr()
    args = "{'gpu_memory_utilization': 0.8}"
    path = str(log(tmp_path, line(planned(util=0.8), "pool"), args=args))
    assert main(["check", path, "--plan", str(file), "--source", str(QWEN), "--json", "--strict"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["causes"][0]["code"] == "memory_share"
    (row,) = [row for row in found["rows"] if row["name"] == "kv_pool_bytes"]
    assert row["follows_from"] == ["pool", "left_free"]
    assert row["causes"] == found["causes"]
    assert row["likely_because"] == found["causes"][0]["text"]
    assert main(["check", path, "--source", str(QWEN)]) == 2
    assert main(["check", path, "--plan", str(file), "--source", str(tmp_path / "none.json")]) == 2


def test_every_line_of_the_log_is_read_where_it_stands(tmp_path: Path) -> None:
    seen = read_log(str(log(tmp_path, 50, args="{'max_model_len': 8192}")))
    assert [(item.name, item.line_number) for item in seen.settings] == [("context", 2)]
