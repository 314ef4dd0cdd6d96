"""vLLM 0.32.0's own answers for 128 published models: blocks, tokens, concurrency and refusals, to the block."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kvlab import engines
from kvlab.core.engine import Deployment
from kvlab.core.units import GIB


def test_blocks_tokens_and_refusals_are_those_of_vllm(
    deploy: Callable[[dict[str, Any]], Deployment], rows: Callable[[str], list[dict[str, Any]]]
) -> None:
    carve = engines.planner("vllm").carve
    wrong, table_rows = [], rows("truth.jsonl.gz")
    for row in table_rows:
        carved = carve(deploy(row))
        capacity = carved.capacity
        assert capacity is not None
        if "needed_gib" in row:
            # vLLM prints the need of one request with two decimals and its own binary search for the longest one.
            stated = {item.name: item.value for item in carved.expects if not isinstance(item.value, str)}
            right = (
                abs(stated["request_bytes"] / GIB - row["needed_gib"]) <= 0.0051
                and stated["longest_request_tokens"] == row["longest"]
                and capacity.longest_request_tokens <= row["longest"]
            )
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
    sys.stdout.write(f"vLLM 0.32.0: {len(table_rows) - len(wrong):,} of {len(table_rows):,} rows exact\n")
    assert not wrong, wrong[:3]
