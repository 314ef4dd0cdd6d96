"""Sampled curves against the exact ones, over many samples of published traces."""

from __future__ import annotations

import json
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
    assert np.mean(within) > 0.88  # 95 % is meant, and the points of one sample err together
    assert np.abs(np.mean(off, axis=0)).max() < 0.005


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
    assert curve(joined, joined.blocks) == curve(*known(CONVERSATION, Reading(sampling=Sampling(0.1))))


def test_what_is_said_of_a_sample() -> None:
    found = kvlab.traffic(CONVERSATION, sample="1%")
    assert found.reuse is not None
    assert found.reuse.sampled is not None
    assert found.reuse.sampled.rate == 0.01
    assert found.reuse.sampled.references < 0.02 * 288_500
    (doubt,) = (doubt for doubt in found.doubts if doubt.key == "sample")
    assert "a larger --sample" in doubt.text  # 1 % of so small a trace is off by points
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
    with pytest.raises(BadInput, match="--policy need every block; leave out --sample 1%"):
        kvlab.traffic(CONVERSATION, sample="1%", policies=("fifo",), capacities=(100,))
