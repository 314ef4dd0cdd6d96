"""Reference policies on Mooncake's traces, as separate programs computed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import traces
from kvlab.core.trace import Blocks
from kvlab.workload.policies import belady_hits, fifo_hits, lfu_hits
from kvlab.workload.tiers import exclusive_hits

GOLDEN = Path(__file__).parents[1] / "golden" / "traces"


@pytest.fixture(scope="module")
def synthetic() -> Blocks:
    blocks = traces.read(GOLDEN / "mooncake_synthetic_trace.jsonl.gz").blocks
    assert blocks is not None
    return blocks


@pytest.mark.parametrize(
    ("capacity", "fifo", "lfu", "belady"),
    [(500, 4_969, 1_663, 24_251), (5_000, 32_381, 24_049, 64_135), (30_000, 72_411, 76_290, 77_953)],
)
def test_hits_at_a_capacity(synthetic: Blocks, capacity: int, fifo: int, lfu: int, belady: int) -> None:
    found = (fifo_hits(synthetic, capacity), lfu_hits(synthetic, capacity), belady_hits(synthetic, capacity))
    assert found == (fifo, lfu, belady)


@pytest.mark.parametrize(("tiers", "hits"), [((1_000, 9_000), (10_050, 41_564)), ((5_000, 25_000), (34_018, 42_059))])
def test_two_exclusive_tiers(synthetic: Blocks, tiers: tuple[int, int], hits: tuple[int, int]) -> None:
    assert tuple(exclusive_hits(synthetic, tiers)) == hits


def test_two_exclusive_tiers_on_the_conversation() -> None:
    blocks = traces.read(GOLDEN / "mooncake_conversation_trace.jsonl.gz").blocks
    assert blocks is not None
    assert exclusive_hits(blocks, (5_859, 44_141)) == [39_076, 63_214]
