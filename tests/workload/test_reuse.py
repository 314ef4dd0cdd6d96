"""Hit counts of published traces, as separate programs computed them, and the curve against a plain LRU."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvlab
from kvlab import traces
from kvlab.core.trace import Blocks, Trace
from kvlab.workload import stack
from kvlab.workload.reuse import Window, reuse
from kvlab.workload.stack import depths, distances

if TYPE_CHECKING:
    from kvlab.core.trace import Ints

GOLDEN = Path(__file__).parents[1] / "golden" / "traces"

# references up to which a trace is sorted, not walked: all, or none
both_ways = pytest.mark.parametrize("short", [1 << 40, 0], ids=["sorted", "walked"])

# capacity in blocks of 512 tokens -> hit blocks of an LRU that evicts tails first, equal to a radix tree's
CONVERSATION = {
    500: 12_168,
    1_000: 12_847,
    2_500: 16_974,
    5_000: 32_260,
    5_859: 39_258,
    10_000: 61_046,
    20_000: 83_035,
    30_000: 93_978,
    50_000: 102_290,
    97_656: 104_870,
}
SYNTHETIC = {
    500: 5_501,
    1_000: 10_252,
    2_500: 20_817,
    5_000: 34_043,
    5_859: 37_703,
    10_000: 51_669,
    20_000: 69_686,
    30_000: 76_077,
    50_000: 77_953,
}
# hit tokens of the second half, by kvcache-simulator 0.1.3
CONVERSATION_HALF = {
    19: 3_080_192,
    305: 3_082_824,
    1_222: 3_292_606,
    2_444: 3_996_896,
    4_888: 7_506_714,
    9_776: 14_633_669,
    19_553: 20_364_364,
    39_107: 25_288_184,
    78_215: 26_301_812,
}
SYNTHETIC_HALF = {
    152: 600_888,
    611: 3_244_589,
    1_222: 5_541_391,
    2_444: 9_368_701,
    4_888: 15_212_284,
    9_776: 21_884_945,
    19_553: 28_147_572,
}


@cache
def trace(name: str) -> tuple[Trace, Blocks]:
    found = traces.read(GOLDEN / f"mooncake_{name}_trace.jsonl.gz")
    assert found.blocks is not None
    return found, found.blocks


@both_ways
@pytest.mark.parametrize(("name", "expected"), [("conversation", CONVERSATION), ("synthetic", SYNTHETIC)])
def test_hits_at_every_published_capacity(name: str, expected: dict[int, int], short: int) -> None:
    found, blocks = trace(name)
    with patch.object(stack, "SHORT", short):
        curve = reuse(blocks, Window(0, found.inputs), tuple(expected), None).curve
    hits = {point.capacity_blocks: point.hit_blocks for point in curve}
    assert {at: hits[at] for at in expected} == expected


@both_ways
@pytest.mark.parametrize(
    ("name", "expected", "ideal", "of"),
    [
        ("conversation", CONVERSATION_HALF, 27_038_068, 67_915_607),
        ("synthetic", SYNTHETIC_HALF, 31_535_563, 36_552_394),
    ],
)
def test_tokens_hit_in_the_second_half(name: str, expected: dict[int, int], ideal: int, of: int, short: int) -> None:
    found, blocks = trace(name)
    with patch.object(stack, "SHORT", short):
        measured = reuse(blocks, Window(len(found.inputs) // 2, found.inputs), tuple(expected), None)
    hits = {point.capacity_blocks: point.hit_tokens for point in measured.curve}
    assert {at: hits[at] for at in expected} == expected
    assert (measured.ideal.hit_tokens, measured.tokens) == (ideal, of)


@pytest.mark.parametrize(
    ("name", "counts", "rates"),
    [
        ("conversation", (288_500, 182_790, 105_710), (0.366412, 0.3736, 0.3843)),
        ("synthetic", (121_877, 43_924, 77_953), (0.639604, 0.6512, 0.4232)),
    ],
)
def test_what_an_endless_cache_hits(name: str, counts: tuple[int, int, int], rates: tuple[float, float, float]) -> None:
    found, columns = trace(name)
    measured = reuse(columns, Window(0, found.inputs), (), None)
    ideal = measured.ideal
    assert (measured.blocks, ideal.unique_blocks, ideal.hit_blocks) == counts
    assert (ideal.block_weighted, ideal.token_weighted, ideal.request_weighted) == pytest.approx(rates, abs=5e-5)


def test_blocks_of_16_tokens() -> None:
    """The conversation in full blocks of 16 tokens: 9,044,013 references, 5,662,916 of them to new blocks."""
    asked = (62_500, 187_500, 625_000, 1_875_000)
    path = GOLDEN / "mooncake_conversation_trace.jsonl.gz"
    found = kvlab.traffic(path, block_size=16, capacities=asked).reuse
    assert found is not None
    assert (found.blocks, found.ideal.unique_blocks, found.ideal.hit_blocks) == (9_044_013, 5_662_916, 3_381_097)
    hits = {point.capacity_blocks: point.hit_blocks for point in found.curve}
    assert [hits[at] for at in asked] == [499_466, 1_284_011, 2_657_267, 3_312_393]


@st.composite
def requests(draw: st.DrawFn) -> list[list[int]]:
    """Requests of a prefix tree: an id stands for a path, so it always has the same block before it."""
    names: dict[tuple[int, ...], int] = {}
    found = []
    for _ in range(draw(st.integers(1, 30))):
        path = tuple(draw(st.lists(st.integers(0, 2), min_size=0, max_size=6)))
        found.append([names.setdefault(path[:length], len(names)) for length in range(1, len(path) + 1)])
    return found


def plain_lru(found: list[list[int]], capacity: int) -> int:
    """Leading runs that hit, one request after another, by an ordinary LRU."""
    kept: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for blocks in found:
        for block in blocks:
            if block not in kept:
                break
            hits += 1
        for block in reversed(blocks):
            kept[block] = None
            kept.move_to_end(block)
        while len(kept) > capacity:
            kept.popitem(last=False)
    return hits


any_blocks = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), min_size=1, max_size=30)
"""Requests of blocks in any order: what stood before another one may stand behind it the next time."""


def columns_of(found: list[list[int]]) -> tuple[Ints, Ints, int]:
    ids = np.array([block for blocks in found for block in blocks], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(blocks) for blocks in found])])
    return ids, offsets, int(ids.max()) + 1 if len(ids) else 0


@both_ways
@given(found=requests() | any_blocks)
def test_the_curve_is_a_plain_lru_at_every_capacity(found: list[list[int]], short: int) -> None:
    ids, offsets, bound = columns_of(found)
    counts = np.diff(offsets)
    with patch.object(stack, "SHORT", short):
        hits = np.cumsum(distances(ids, offsets, bound, last_short=np.zeros_like(counts), most=counts).hits)
    for capacity in range(1, bound + 1):
        assert int(hits[capacity]) == plain_lru(found, capacity)


@given(requests() | any_blocks, st.integers(0, 30), st.integers(0, 8))
def test_sorting_a_trace_and_walking_it_agree(found: list[list[int]], first: int, most: int) -> None:
    ids, offsets, bound = columns_of(found)
    short = np.arange(len(found)) % 5
    limits = np.minimum(most, np.diff(offsets))
    seen = []
    for references in (1 << 40, 0):
        with patch.object(stack, "SHORT", references):
            one = distances(ids, offsets, bound, last_short=short, most=limits, first=min(first, len(found)))
            seen.append([*(column.tolist() for column in one), depths(ids, offsets, bound).tolist()])
    assert seen[0] == seen[1]


def test_a_short_trace_is_not_made_to_wait_for_a_compiler() -> None:
    code = "import kvlab, sys; print(kvlab.traffic(sys.argv[1]).reuse.ideal.hit_blocks, 'numba' in sys.modules)"
    path = GOLDEN / "mooncake_conversation_trace.jsonl.gz"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["105710", "False"]


@both_ways
def test_the_engine_itself_hits_as_much(short: int) -> None:
    """120 requests to a real vLLM 0.32 (blocks of 32, 101 of them, one is the null block): its own cached tokens.

    A request's last token is computed again, and its partial last block takes a block of the pool.
    """
    import json

    rows = json.loads((GOLDEN / "vllm_prefix_phase.json").read_text())
    names: dict[tuple[object, ...], int] = {}
    ids, counts, most = [], [], []
    for row in rows:
        full = row["prompt_tokens"] // 32
        for j in range(full):
            shared = (j + 1) * 32 <= row["prefix_len"]
            key = ("prefix", row["prefix"], j) if shared else ("own", row["k"], j)
            ids.append(names.setdefault(key, len(names)))
        counts.append(full)
        most.append(min(full, (row["prompt_tokens"] - 1) // 32))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    columns = (np.array(ids), offsets, len(names))

    def hits_from(first: int) -> int:
        """Of the requests from `first` on, in a pool of 100 usable blocks of which one holds the partial block."""
        full_ones = np.zeros(len(rows), dtype=np.int64)
        with patch.object(stack, "SHORT", short):
            return int(distances(*columns, last_short=full_ones, most=np.array(most), first=first).hits[:100].sum())

    assert hits_from(0) * 32 == sum(row["cached_tokens"] for row in rows) == 22_080
    for at, row in enumerate(rows):
        assert (hits_from(at) - hits_from(at + 1)) * 32 == row["cached_tokens"], row
