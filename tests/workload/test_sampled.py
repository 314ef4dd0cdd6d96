"""Sampled curves against the exact ones, over many samples of published traces."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import kvlab
from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.core.trace import Blocks, Reading, Sampling, Trace
from kvlab.core.traffic import Reuse
from kvlab.traces._sample import sampled
from kvlab.workload.merge import merged
from kvlab.workload.reuse import Window, reuse

GOLDEN = Path(__file__).parents[1] / "golden" / "traces"
CONVERSATION = GOLDEN / "mooncake_conversation_trace.jsonl.gz"
# of 288,500: hit blocks of an LRU, by a separate program (test_reuse holds more of them)
HITS = {1_000: 12_847, 5_000: 32_260, 10_000: 61_046, 30_000: 93_978, 50_000: 102_290}
SAMPLES = 40


def known(path: Path, reading: Reading) -> tuple[Trace, Blocks]:
    found = traces.read(path, None, reading)
    assert found.blocks is not None
    return found, found.blocks


def curve(trace: Trace, blocks: Blocks) -> Reuse:
    return reuse(blocks, Window(0, trace.inputs), tuple(HITS), None)


def test_samples_scatter_around_the_exact_curve_as_widely_as_they_say() -> None:
    trace, blocks = known(CONVERSATION, Reading())
    off, within = [], []
    for part in range(SAMPLES):
        found = curve(trace, sampled(blocks._replace(own=True), Sampling(0.05, part)))
        rates = {point.capacity_blocks: point for point in found.curve}
        errors = [rates[at].hit_rate - hits / 288_500 for at, hits in HITS.items()]
        off.append(errors)
        within += [abs(error) <= (rates[at].error or 0) for at, error in zip(HITS, errors, strict=True)]
        assert found.blocks == 288_500  # counted, not estimated
    assert np.mean(within) > 0.93  # 95 % is meant, and the points of one sample err together
    assert np.abs(np.mean(off, axis=0)).max() < 0.001
    assert np.quantile(np.abs(off).max(axis=1), 0.9) < 0.008  # a quarter of what SHARDS alone is off by


def test_the_second_half_is_off_by_no_more_than_it_says() -> None:
    path = GOLDEN / "agent_sessions_100.ranges.jsonl.gz"
    trace, blocks = known(path, Reading())
    half, asked = Window(len(trace.inputs) // 2, trace.inputs), (1_000, 10_000, 60_000, 200_000)
    exact = {point.capacity_blocks: point.hit_rate for point in reuse(blocks, half, asked, None).curve}
    within = []
    for part in range(8):
        found = reuse(sampled(blocks, Sampling(0.02, part)), half, asked, None).curve
        points = [point for point in found if point.capacity_blocks in asked]
        within += [abs(point.hit_rate - exact[point.capacity_blocks]) <= (point.error or 0) for point in points]
    assert len(within) == 32
    assert np.mean(within) > 0.88


def test_an_endless_cache_is_known_exactly_where_blocks_were_counted() -> None:
    trace, blocks = known(CONVERSATION, Reading(sampling=Sampling(0.02)))
    ideal = curve(trace, blocks).ideal
    assert (ideal.hit_blocks, ideal.unique_blocks) == (105_710, 182_790)
    assert ideal.token_weighted == pytest.approx(0.3736, abs=0.01)
    assert ideal.request_weighted == pytest.approx(0.3843, abs=0.02)


@pytest.mark.parametrize("name", ["mooncake_conversation_trace.jsonl.gz"])
def test_all_references_of_a_block_are_kept_or_none(name: str) -> None:
    _, every = known(GOLDEN / name, Reading())
    _, some = known(GOLDEN / name, Reading(sampling=Sampling(0.03)))
    chosen = np.unique(some.ids)
    assert np.array_equal(some.ids, every.ids[np.isin(every.ids, chosen)])
    assert len(chosen) == pytest.approx(0.03 * 182_790, rel=0.1)
    assert some.sample is not None
    assert int(some.sample.counts.sum()) == 288_500


def test_ranges_are_sampled_as_their_ids_are(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"trace": 1, "header": 1, "block_size": 64}]
    rows += [{"trace": 1, "t": at, "in": 64_000, "out": 1, "r": [[0, 99 + at], [500, 799]]} for at in range(50)]
    path = tmp_path / "sessions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, every = known(path, Reading())
    _, some = known(path, Reading(sampling=Sampling(0.2, 3)))
    expected = sampled(every, Sampling(0.2, 3))
    assert np.array_equal(some.ids, expected.ids)
    assert np.array_equal(some.offsets, expected.offsets)
    assert some.sample is not None
    assert np.array_equal(some.sample.counts, np.diff(every.offsets))


def test_a_sample_of_consecutive_files_is_that_of_the_whole(tmp_path: Path) -> None:
    import gzip

    with gzip.open(CONVERSATION, "rt") as rows:
        lines = rows.readlines()
    parts = [tmp_path / "0.jsonl", tmp_path / "1.jsonl"]
    parts[0].write_text("".join(lines[:4_000]))
    parts[1].write_text("".join(lines[4_000:]))
    pieces = [traces.read(path, None, Reading(sampling=Sampling(0.1, at))) for at, path in enumerate(parts)]
    joined = merged(pieces)
    assert joined.blocks is not None
    trace, blocks = known(CONVERSATION, Reading(sampling=Sampling(0.1)))
    assert blocks.sample is not None
    apart = blocks._replace(sample=blocks.sample._replace(occurring=None))  # they share blocks: nobody counted them all
    assert curve(joined, joined.blocks) == curve(trace, apart)


def test_files_of_their_own_blocks_are_counted_together(tmp_path: Path) -> None:
    import gzip

    path = GOLDEN / "agent_sessions_100.ranges.jsonl.gz"
    with gzip.open(path, "rt") as rows:
        lines = rows.readlines()
    sessions = [json.loads(line)["trace"] for line in lines]
    parts = [tmp_path / "0.jsonl", tmp_path / "1.jsonl"]
    for odd, part in enumerate(parts):
        part.write_text("".join(line for line, one in zip(lines, sessions, strict=True) if one % 2 == odd))
    joined = merged([traces.read(part, None, Reading(sampling=Sampling(0.01, at))) for at, part in enumerate(parts)])
    assert joined.blocks is not None
    _, whole = known(path, Reading(sampling=Sampling(0.01)))
    for blocks in (joined.blocks, whole):
        assert blocks.sample is not None
        times = blocks.sample.occurring
        assert times is not None
        # as a separate program counted them (test_figures): different blocks, and references to them
        assert (int(times.sum()), int(times @ np.arange(len(times)))) == (561_634, 11_484_654)


def test_what_is_said_of_a_sample() -> None:
    found = kvlab.traffic(CONVERSATION, sample="1%")
    assert found.reuse is not None
    assert found.reuse.sampled is not None
    assert found.reuse.sampled.rate == 0.01
    assert found.reuse.sampled.references < 0.02 * 288_500
    (doubt,) = (doubt for doubt in found.doubts if doubt.key == "sample")
    # 1 % of so small a trace is off by points, and one that is not by less
    enough = re.search(r"a larger --sample says more, about ([\d.]+%) for one point", doubt.text)
    assert enough
    larger = kvlab.traffic(CONVERSATION, sample=enough[1])
    assert larger.reuse is not None
    assert larger.reuse.sampled is not None
    assert larger.reuse.sampled.error == pytest.approx(0.01, rel=0.3)
    exact = kvlab.traffic(CONVERSATION, sample="100 %")
    assert exact.reuse is not None
    assert exact.reuse.sampled is None
    assert exact.reuse.ideal.hit_blocks == 105_710


@pytest.mark.parametrize("share", ["0", "0%", "101%", "2", "-1%", "one", "nan", "", "inf"])
def test_shares_that_are_none(share: str) -> None:
    with pytest.raises(BadInput, match="--sample"):
        kvlab.traffic(CONVERSATION, sample=share)


def test_a_sample_without_a_block() -> None:
    with pytest.raises(BadInput, match="a larger --sample"):
        kvlab.traffic(CONVERSATION, sample="1e-9")


def test_what_a_sample_cannot_answer() -> None:
    with pytest.raises(BadInput, match="--policy needs every block; leave out --sample 1%"):
        kvlab.traffic(CONVERSATION, sample="1%", policies=("fifo",), capacities=(100,))
