"""The JSON keys that programs rely on: they may grow in number, and never change their meaning or disappear."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kvlab
from kvlab.cli import main
from kvlab.core.record import Ab

GOLDEN = Path(__file__).parents[1] / "golden"
PLAN: dict[str, Any] = {
    "schema": "kvlab/plan@1",
    "source": {"name", "kind", "revision"},
    "engine": {"name", "version"},
    "layout": [{"kind", "layers", "bytes_per_token", "bytes_per_sequence", "window"}],
    "kv": {"dtype", "bytes_per_token", "bytes_per_sequence", "context"},
    "ledger": [{"name", "bytes", "kind", "low", "high", "because"}],
    "capacity": {"pool_bytes", "block_size", "num_blocks", "tokens", "max_concurrency", "longest_request_tokens"},
    "alternatives": [{"kv_dtype", "tokens", "max_concurrency", "fits"}],
    "verdict": {"code": str, "text": str, "moves": [{"text", "gain_tokens"}]},
    "launch": {"argv": list, "env": dict, "files": dict, "flags": [{"flag", "value", "because"}]},
    "doubts": [{"key", "text"}],
}
CHECK_ROW = {"name", "planned", "seen", "verdict", "difference", "tolerance", "line", "likely_because"}
CHECK: dict[str, Any] = {"schema": "kvlab/check@1", "engine": {"name", "version"}, "rows": [CHECK_ROW]}
COMPARE_ROW = {"metric", "unit", "a", "b", "change", "low", "high", "verdict"}
COMPARE: dict[str, Any] = {
    "schema": "kvlab/compare@1",
    "a": {"file", "format"},
    "b": {"file", "format"},
    "rows": [COMPARE_ROW],
    "left_out": [{"metric", "reason"}],
}


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """`main` takes SIGTERM for itself."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def answer(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    """The one JSON document of a command."""
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def holds(document: Any, shape: Any, where: str = "") -> None:
    """`document` has every key of `shape`: a set of keys, a dict of further shapes, a list whose items all have one."""
    if isinstance(shape, str):
        assert document == shape, where
    elif isinstance(shape, type):
        assert isinstance(document, shape), where
    elif isinstance(shape, set):
        assert shape <= document.keys(), where
    elif isinstance(shape, list):
        assert isinstance(document, list), where
        for item in document:
            holds(item, shape[0], f"{where}[]")
    else:
        for key, inner in shape.items():
            assert key in document, f"{where}.{key}"
            holds(document[key], inner, f"{where}.{key}")


@pytest.fixture
def config(write_qwen: Callable[..., Path]) -> Path:
    """Qwen3-8B with a key that nothing reads: a doubt."""
    return write_qwen(kv_cache_quux=3)


def test_plan(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "plan", config, "--gpu", "l40s-48gb")
    holds(document, PLAN)
    for filled in ("layout", "ledger", "alternatives", "doubts"):
        assert document[filled], filled
    assert document["verdict"]["moves"]
    assert document["launch"]["flags"]
    codes = {"fits", "fits_with_smaller_dtype", "does_not_fit", "unknown"}
    assert document["verdict"]["code"] in codes
    kinds = {"computed", "read", "measured", "estimated"}
    assert {line["kind"] for line in document["ledger"]} <= kinds
    assert isinstance(document["capacity"]["tokens"], int)
    assert sum(line["bytes"] for line in document["ledger"][:-1]) == document["ledger"][-1]["bytes"]


def test_plan_of_costs_alone(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "plan", config)
    holds({**document, "capacity": PLAN_CAPACITY}, PLAN)
    assert document["capacity"] is None
    assert document["verdict"]["code"] == "unknown"


PLAN_CAPACITY = dict.fromkeys(PLAN["capacity"])


def test_check_with_a_plan_and_without(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    assert main(["plan", str(config), "--pool-gib", "1", "--json", "-o", str(plan)]) == 0
    capsys.readouterr()
    log = GOLDEN / "vllm" / "logs" / "0.32.0_cpu_fp8.log"
    document = answer(capsys, "check", log, "--plan", plan)
    holds(document, CHECK)
    assert {row["verdict"] for row in document["rows"]} <= {"agrees", "differs", "not seen"}
    holds(answer(capsys, "check", log), CHECK)


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    folder = GOLDEN / "results"
    document = answer(capsys, "compare", folder / "vllm_0.32.json", folder / "vllm_0.32-detailed.json")
    holds(document, COMPARE)
    assert "mean_ttft_ms" in {row["metric"] for row in document["rows"]}


def test_diagnose(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "diagnose", GOLDEN / "diagnose" / "vllm_log_scale2000.csv")
    shape = {
        "schema": "kvlab/diagnose@1",
        "engine": "vllm",
        "replicas": int,
        "verdict": "scheduler_limit_bound",
        "evidence": [{"metric", "value", "line"}],
        "missing": list,
        "interventions": [{"rank", "do", "why", "expect", "verify"}],
        "alerts": [{"name", "state"}],
    }
    holds(document, shape)


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "explain", GOLDEN / "vllm" / "logs" / "0.32.0_cpu_pool_too_small.log")
    holds(document, {"schema": "kvlab/explain@1", "findings": [{"code", "title", "line", "why", "do"}]})


def test_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    lengths = {"mean", "p50", "p90", "p95", "p99", "p999", "max"}
    trace = next(iter(sorted((GOLDEN / "traces").glob("*mooncake*"))))
    document = answer(capsys, "traffic", trace, "--capacity", "10,100")
    shape = {
        **dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), lengths),
        "schema": "kvlab/traffic@1",
        "context": {"recommended", "truncated_share", "because"},
        "reuse": {
            "block_size": int,
            "ideal": {"block_weighted", "token_weighted"},
            "curve": [{"capacity_blocks", "capacity_tokens", "capacity_bytes", "hit_rate", "hit_blocks"}],
        },
        "paging": [{"scheme", "waste"}],
        "moves": list,
    }
    holds(document, shape)
    assert {"format", "requests", "span_seconds"} <= document.keys()
    assert {10, 100} <= {point["capacity_blocks"] for point in document["reuse"]["curve"]}


def test_ab() -> None:
    """The keys of the type that is printed: an experiment takes minutes."""
    assert {"schema", "arms", "performance", "quality", "prefix", "pool", "verdict"} <= set(Ab.__struct_fields__)
    schema = msgspec.json.schema(Ab)["$defs"]
    assert {"a_peak_usage", "b_peak_usage", "filled"} <= schema["PoolPeak"]["properties"].keys()
    assert {"code", "text", "because"} <= schema["AbVerdict"]["properties"].keys()
    assert schema["ComparisonRow"]["properties"].keys() >= COMPARE_ROW
    codes = set(schema["AbVerdict"]["properties"]["code"]["enum"])
    assert codes == {"better", "worse", "no_difference_seen", "inconclusive"}


def test_o_writes_what_json_prints(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "p.json"
    assert main(["plan", str(config), "--pool-gib", "1", "-o", str(plan)]) == 0
    capsys.readouterr()
    log, results = GOLDEN / "vllm" / "logs" / "0.32.0_cpu_fp8.log", GOLDEN / "results" / "vllm_0.32.json"
    commands: list[list[str | Path]] = [["check", log, "--plan", plan], ["compare", results, results]]
    commands += [["gpus"], ["gpus", "cpu"], ["engines"]]
    for number, words in enumerate(commands):
        out = tmp_path / f"{number}.json"
        document = answer(capsys, *words, "-o", out)
        assert json.loads(out.read_bytes()) == document


def test_a_plan_written_before_estimates_had_ends_is_still_read(config: Path, tmp_path: Path) -> None:
    """Fields that were added since have defaults."""
    document = json.loads(msgspec.json.encode(kvlab.plan(config, gpu="l40s-48gb")))
    for row in document["expects"]:
        for added in ("low", "high", "also"):
            del row[added]
    del document["launch"]["lacks"]
    old = tmp_path / "old.json"
    old.write_text(json.dumps(document))
    log = GOLDEN / "vllm" / "logs" / "0.32.0_cpu_fp8.log"
    assert {row.name for row in kvlab.check(log, plan=old).rows} >= {"kv_tokens", "kv_pool_bytes"}
