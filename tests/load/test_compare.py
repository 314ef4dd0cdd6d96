from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kvlab.core.comparison import Compare, ComparisonRow
from kvlab.core.measure import PoolUse, RequestRow
from kvlab.load.bench import BenchResult, save
from kvlab.load.compare import compare

GOLDEN = Path(__file__).parent.parent / "golden" / "results"


def of(found: Compare, metric: str) -> ComparisonRow:
    return next(row for row in found.rows if row.metric == metric)


def changed(tmp_path: Path, name: str, source: str, **values: object) -> Path:
    document = json.loads((GOLDEN / source).read_text()) | values
    file = tmp_path / name
    file.write_text(json.dumps(document))
    return file


def scaled(tmp_path: Path, name: str, factor: float, repeat: int = 1) -> Path:
    """vLLM's detailed file with every latency `factor` times as long, `repeat` times over with a spread of 10 %."""
    document: dict[str, Any] = json.loads((GOLDEN / "vllm_0.32-detailed.json").read_text())
    source = random.Random(name)
    ttfts, itls, starts = document["ttfts"], document["itls"], document["start_times"]
    spread = [factor * source.gauss(1, 0.1) for _ in range(len(ttfts) * repeat)]
    count = len(ttfts)
    document |= {
        "ttfts": [ttfts[i % count] * f for i, f in enumerate(spread)],
        "itls": [[gap * f for gap in itls[i % count]] for i, f in enumerate(spread)],
        "start_times": [starts[i % count] + i // count * 0.98 * factor for i in range(len(spread))],
    } | {key: document[key] * repeat for key in ("input_lens", "output_lens")}
    for key, value in document.items():
        if key.endswith("_ms"):
            document[key] = value * factor
        if key.endswith("_throughput"):
            document[key] = value / factor
    document["completed"] = document["num_prompts"] = len(spread)
    document["total_input_tokens"] *= repeat
    file = tmp_path / name
    file.write_text(json.dumps(document))
    return file


def test_one_number_a_side_gives_no_interval(tmp_path: Path) -> None:
    a = GOLDEN / "vllm_0.32.json"
    ttft = json.loads(a.read_text())["mean_ttft_ms"]
    found = compare(a, changed(tmp_path, "b.json", a.name, mean_ttft_ms=ttft * 1.5))
    assert (found.a.format, found.b.format) == ("vllm", "vllm")
    row = of(found, "mean_ttft_ms")
    assert row.change == pytest.approx(0.5)
    assert (row.low, row.high, row.verdict, row.because) == (
        None, None, "inconclusive", "one number a side: no interval",
    )  # fmt: skip
    assert (row.unit, of(found, "output_throughput").unit) == ("ms", "tokens/s")


def test_a_change_of_every_request_is_seen_with_its_direction(tmp_path: Path) -> None:
    a, b = scaled(tmp_path, "a.json", 1.0, 8), scaled(tmp_path, "b.json", 1.3, 8)
    found = compare(a, b)
    for metric in ("mean_ttft_ms", "median_tpot_ms", "mean_e2el_ms"):
        row = of(found, metric)
        assert row.verdict == "worse", row
        assert row.low is not None
        assert row.high is not None
        assert 0 < row.low < 0.3 < row.high
    assert of(found, "output_throughput").verdict == "worse"
    assert of(found, "request_throughput").verdict == "worse"
    back = compare(b, a)
    assert of(back, "mean_ttft_ms").verdict == "better"
    assert of(back, "output_throughput").verdict == "better"
    assert of(found, "mean_itl_ms").because == "no interval for single gaps between tokens; see tpot"
    assert of(found, "p90_ttft_ms").because == "no interval for this statistic, only for mean, median, p99"
    assert of(found, "p99_ttft_ms").because == "an interval needs 368 requests a side, there are 192"


def test_the_same_again_shows_no_difference(tmp_path: Path) -> None:
    found = compare(scaled(tmp_path, "a.json", 1.0, 8), scaled(tmp_path, "b.json", 1.0, 8))
    assert of(found, "mean_ttft_ms").verdict == "no difference seen"
    assert of(found, "mean_ttft_ms").because.endswith("(one run a side, so the noise between runs is not in it)")


def test_other_loads_are_no_comparison(tmp_path: Path) -> None:
    a = GOLDEN / "vllm_0.32.json"
    for values, reason in (
        ({"max_concurrency": 8}, "the loads differ: max_concurrency 4 and 8"),
        ({"request_rate": 5.0}, "the loads differ: request_rate inf and 5.0"),
        ({"total_input_tokens": 480}, "the loads differ: 10 and 20 input tokens a request"),
    ):
        found = compare(a, changed(tmp_path, "b.json", a.name, **values))
        assert {(row.verdict, row.because) for row in found.rows} == {("inconclusive", reason)}


def test_what_is_left_out_says_why() -> None:
    found = compare(GOLDEN / "vllm_0.8.json", GOLDEN / "vllm_0.32.json")
    reasons = {left.metric: left.reason for left in found.left_out}
    assert reasons["failed"] == "only b has it"
    assert reasons["p90_ttft_ms"] == "only b has it"
    assert reasons["duration"].startswith("describes the run")
    assert not reasons.keys() & {row.metric for row in found.rows}


def test_more_failures_than_chance(tmp_path: Path) -> None:
    a = GOLDEN / "vllm_0.32.json"
    assert of(compare(a, a), "failed").verdict == "no difference seen"
    few = of(
        compare(a, changed(tmp_path, "few.json", a.name, failed=1, completed=23, total_input_tokens=231)), "failed"
    )
    assert (few.verdict, few.change, few.unit) == ("no difference seen", None, "requests")
    many = changed(tmp_path, "many.json", a.name, failed=12, completed=12, total_input_tokens=120)
    assert of(compare(a, many), "failed").verdict == "worse"
    assert of(compare(many, a), "failed").verdict == "better"
    uncounted = of(compare(a, changed(tmp_path, "null.json", a.name, failed=12, completed=None)), "failed")
    assert (uncounted.verdict, uncounted.change) == ("inconclusive", None)


def ours(path: Path, factor: float, latency_from: str, sent: str = "hash", cached: float | None = None) -> Path:
    source = random.Random(7)
    rows, start = [], 0.0
    for index in range(40):
        # What a prompt costs differs much between prompts, and is the same in both runs.
        ttft = source.uniform(0.05, 0.5) * factor
        e2e = ttft + 0.5
        rows.append(
            RequestRow(
                index=index, prompt_id=str(index), scheduled=start, sent=start, first=start + ttft, done=start + e2e,
                ttft=ttft, e2e=e2e, tpot=0.05, prompt_tokens=9, output_tokens=11,
            )
        )  # fmt: skip
        start += e2e
    document = json.loads((GOLDEN / "vllm_0.32.json").read_text())
    document |= {"mean_ttft_ms": sum(row.ttft or 0 for row in rows) / 40 * 1000}
    own: dict[str, object] = {"schema": "kvlab/bench@1", "latency_from": latency_from, "prompts_sha256": sent}
    own["pool"] = {"prefix_hit_rate": cached}
    save(BenchResult(metrics=document | {"kvlab": own}, rows=tuple(rows), pool=PoolUse(), samples=()), path)
    return path


def test_the_same_prompts_are_compared_pair_by_pair(tmp_path: Path) -> None:
    a = ours(tmp_path / "a.json", 1.0, "sent")
    same = of(compare(a, ours(tmp_path / "b.json", 1.1, "sent")), "mean_ttft_ms")
    other = of(compare(a, ours(tmp_path / "c.json", 1.1, "sent", "another")), "mean_ttft_ms")
    assert same.verdict == "worse"
    assert same.change == pytest.approx(0.1)
    assert same.low == pytest.approx(0.1)
    assert other.verdict != "worse"


def test_a_warm_prefix_cache_is_no_improvement(tmp_path: Path) -> None:
    """The second of two benches of one server finds its prompts cached: sooner, and no better."""
    cold = ours(tmp_path / "a.json", 1.0, "sent", cached=0.02)
    warm = of(compare(cold, ours(tmp_path / "b.json", 0.2, "sent", cached=0.98)), "mean_ttft_ms")
    assert warm.verdict == "inconclusive"
    assert "2.0 % of a's prompt tokens and 98 % of b's" in warm.because
    both = of(compare(ours(tmp_path / "c.json", 1.0, "sent", cached=0.97), tmp_path / "b.json"), "mean_ttft_ms")
    assert both.verdict == "better"


def test_latencies_from_another_start_are_left_out(tmp_path: Path) -> None:
    found = compare(ours(tmp_path / "a.json", 1.0, "scheduled"), GOLDEN / "vllm_0.32.json")
    reasons = {left.metric: left.reason for left in found.left_out}
    wanted = "a counts from the scheduled start of a request, b from the moment that it was sent"
    assert reasons["mean_ttft_ms"] == reasons["p99_e2el_ms"] == wanted
    assert of(found, "mean_tpot_ms").change == 0


def test_a_file_against_itself_is_said_in_one_line(tmp_path: Path) -> None:
    a = GOLDEN / "vllm_0.32.json"
    assert compare(a, a).remarks == ("A and B are the same file: there is nothing to compare",)
    copy = tmp_path / "copy.json"
    copy.write_bytes(a.read_bytes())
    assert compare(a, copy).remarks[0].startswith("A and B hold the same bytes")
    assert compare(a, changed(tmp_path, "b.json", a.name, mean_ttft_ms=1.0)).remarks == ()
