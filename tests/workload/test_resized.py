"""Blocks in another size, against prompts that are written out token by token."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvlab
from kvlab.core.errors import BadInput
from kvlab.core.trace import Blocks, LeftOutRows, Trace
from kvlab.traces import blocks_of
from kvlab.workload.resized import resized

GOLDEN = Path(__file__).parents[1] / "golden" / "traces"
SYNTHETIC = GOLDEN / "mooncake_synthetic_trace.jsonl.gz"


def blocks_in(prompts: list[list[int]], size: int) -> list[list[object]]:
    """Whole blocks, each named by all tokens up to its end."""
    return [[tuple(prompt[:end]) for end in range(size, len(prompt) + 1, size)] for prompt in prompts]


def renamed(requests: list[list[object]]) -> list[list[int]]:
    """Each name as the number of names before it."""
    known: dict[object, int] = {}
    return [[known.setdefault(name, len(known)) for name in request] for request in requests]


def runs(blocks: Blocks) -> list[list[object]]:
    return [list(blocks.ids[low:high].tolist()) for low, high in zip(blocks.offsets, blocks.offsets[1:], strict=False)]


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 1), max_size=4), min_size=1, max_size=8),
    st.sampled_from([(4, 4), (4, 2), (4, 1), (2, 4), (1, 4), (2, 6)]),
    st.integers(0, 3),
)
def test_as_if_the_prompts_had_been_cut_so(shapes: list[list[int]], sizes: tuple[int, int], rest: int) -> None:
    """Prompts of pieces of 12 tokens that are the same or differ from their first token, and a rest of their own."""
    old, new = sizes
    prompts = [
        [100 * piece + token for piece in shape for token in range(12)] + [10**6 + 10 * at + one for one in range(rest)]
        for at, shape in enumerate(shapes)
    ]
    held = renamed(blocks_in(prompts, old))
    inputs = np.array([len(prompt) for prompt in prompts])
    flat, counts = [one for request in held for one in request], [len(request) for request in held]
    trace = Trace("mooncake", inputs, None, None, blocks_of(flat, counts, old, inputs), LeftOutRows())
    found = resized(trace, new).blocks
    assert found is not None
    expected = blocks_in([prompt[: len(prompt) // old * old] for prompt in prompts], new)
    assert renamed(runs(found)) == renamed(expected)
    assert found.size == new
    assert all(one < found.bound for one in found.ids.tolist())


def test_in_tokens_every_token_that_was_seen_before_hits() -> None:
    """0.6512 of the tokens, as counted in blocks whose last one is partial."""
    found = kvlab.traffic(SYNTHETIC, block_size=64)
    assert found.reuse is not None
    assert found.reuse.block_size == 64
    assert found.reuse.ideal.token_weighted == pytest.approx(0.6512, abs=0.0003)
    assert "only whole blocks are cached" in found.reuse.definition
    assert any(doubt.key == "block size" and "split into 64" in doubt.text for doubt in found.doubts)


def test_sizes_that_a_trace_cannot_have(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="must divide the 512 tokens"):
        kvlab.traffic(SYNTHETIC, block_size=384)
    with pytest.raises(BadInput, match="no --sample"):
        kvlab.traffic(SYNTHETIC, block_size=16, sample="10%")
    assert kvlab.traffic(SYNTHETIC, block_size=512) == kvlab.traffic(SYNTHETIC)
    path = tmp_path / "a.jsonl"
    row = {"timestamp": 0, "input_length": 1 << 30, "output_length": 1, "hash_ids": list(range(1 << 20))}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(BadInput, match="give a larger one"):
        kvlab.traffic(path, block_size=1)
