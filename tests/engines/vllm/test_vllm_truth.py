"""Every uniform, sliding-window, chunked and latent row of vLLM 0.32.0's own answers, to the block."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from kvlab import engines
from kvlab.core.engine import Deployment
from kvlab.core.units import GIB


@pytest.mark.parametrize("table", ["truth.jsonl.gz", "truth_layouts.jsonl.gz"])
def test_blocks_tokens_and_refusals_are_those_of_vllm(
    table: str, deploy: Callable[[dict[str, Any]], Deployment], rows: Callable[[str], list[dict[str, Any]]]
) -> None:
    carve = engines.planner("vllm").carve
    wrong, table_rows = [], rows(table)
    for row in table_rows:
        carved = carve(deploy(row))
        capacity = carved.capacity
        assert capacity is not None
        if "needed_gib" in row:
            # vLLM prints the need of one request with two decimals and its own binary search for the longest one.
            needed = (carved.kv.bytes_per_sequence or 0) / GIB
            right = abs(needed - row["needed_gib"]) <= 0.0051 and capacity.longest_request_tokens == row["longest"]
        else:
            right = (
                capacity.num_blocks == row["blocks"]
                and capacity.tokens == row["tokens"]
                and capacity.block_size == row["block_size"]
                and abs(capacity.max_concurrency - row["concurrency"]) < 1e-6
                and capacity.longest_request_tokens == row["context"]
            )
        if not right:
            wrong.append((row, capacity))
    sys.stdout.write(f"{table}: {len(table_rows) - len(wrong):,} of {len(table_rows):,} rows exact\n")
    assert not wrong, wrong[:3]
