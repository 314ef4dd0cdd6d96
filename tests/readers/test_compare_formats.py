"""`kvlab compare` over files of different tools: what is defined alike is compared, all else left out with reasons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab.core.errors import BadInput
from kvlab.load.compare import compare

GOLDEN = Path(__file__).parent.parent / "golden" / "results"
GUIDELLM = GOLDEN / "guidellm_0.8.1-concurrent_4.json"


def test_four_tools_on_one_server_with_known_delays() -> None:
    """All four measured the same server: first token after 50 ms, one every 10 ms after that."""
    vllm = GOLDEN / "vllm_0.32-detailed.json"
    for other in (GUIDELLM, GOLDEN / "aiperf_0.13_aiperf.json", Path(f"{GOLDEN / 'sglang_0.5.23.jsonl'}#1")):
        rows = {row.metric: row for row in compare(vllm, other).rows}
        for metric in ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"):
            assert rows[metric].change == pytest.approx(0, abs=0.06)
            assert rows[metric].low is not None
        assert rows["output_throughput"].unit == "tokens/s"


def test_guidellms_tpot_is_left_out_with_the_reason() -> None:
    found = compare(GOLDEN / "vllm_0.32-detailed.json", GUIDELLM)
    reasons = {item.metric: item.reason for item in found.left_out}
    assert reasons["time_per_output_token_ms.mean"].startswith("b: guidellm's time to the last token / output tokens")
    assert "a request counted once for each of its tokens" in reasons["inter_token_latency_ms.p99"]
    assert reasons["mean_itl_ms"] == "only a has it"
    assert not [row for row in found.rows if row.metric.startswith("time_per_output_token")]


def test_one_tools_own_numbers_are_compared_with_each_other() -> None:
    file = GOLDEN / "guidellm_0.8.1-two_runs.json"
    found = compare(Path(f"{file}#1"), Path(f"{file}#2"))
    assert found.remarks == ()
    row = next(row for row in found.rows if row.metric == "time_per_output_token_ms.mean")
    assert (row.unit, row.verdict) == ("ms", "inconclusive")
    assert row.because == "the loads differ: max_concurrency 1.0 and 3.0"


def test_tests_of_llama_bench() -> None:
    file = GOLDEN / "llama-bench_b11434.json"
    deep = compare(Path(f"{file}#2"), Path(f"{file}#5"))
    assert [row.metric for row in deep.rows] == ["tg_avg_ts"]
    assert deep.rows[0].because == "the loads differ: n_depth 0.0 and 256.0"
    # Reading a prompt and generating are two measurements, whatever their key.
    assert not compare(Path(f"{file}#1"), Path(f"{file}#2")).rows
    quantised = compare(Path(f"{file}#2"), Path(f"{GOLDEN / 'llama-bench_b11434.jsonl'}#2"))
    assert quantised.rows[0].because == "an interval needs 5 repetitions a side, there are 3"
    assert quantised.rows[0].change == pytest.approx(7.17 / 3.70 - 1, abs=0.01)


def test_repetitions_of_llama_bench_give_an_interval(tmp_path: Path) -> None:
    row = json.loads((GOLDEN / "llama-bench_b11434.jsonl").read_text().splitlines()[0])
    files = []
    for scale in (1.0, 2.0):
        samples = [value * scale for value in (35.4, 36.3, 37.0, 36.1, 35.8, 36.4)]
        files.append(tmp_path / f"{scale}.json")
        files[-1].write_text(json.dumps([row | {"samples_ts": samples, "avg_ts": sum(samples) / 6}]))
    found = compare(files[0], files[1]).rows[0]
    assert found.verdict == "better"
    assert found.change == pytest.approx(1.0)
    assert found.low is not None
    assert found.low > 0.9


def test_one_run_twice() -> None:
    file = GOLDEN / "guidellm_0.8.1-two_runs.json"
    assert "the same file" in compare(Path(f"{file}#1"), Path(f"{file}#1")).remarks[0]
    with pytest.raises(BadInput, match="choose one"):
        compare(file, file)
