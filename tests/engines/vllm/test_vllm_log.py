from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import engines
from kvlab.core.observation import Observation

Rows = Callable[[str], list[dict[str, Any]]]


def read(*lines: str) -> Observation:
    return engines.log_reader("vllm").read(lines)


def test_every_wording_since_v0_is_read(rows: Rows) -> None:
    """Real lines of 2024 to 2026; lines.jsonl names the thread of each."""
    for row in rows("lines.jsonl"):
        seen = read(row["line"])
        says = {item.name: item.value for item in seen.seen}
        if seen.version is not None:
            says["version"] = seen.version
        assert says == pytest.approx(row["says"]), row["line"]


def test_colours_and_rank_prefixes_do_not_matter() -> None:
    prefix = "\x1b[36m(EngineCore_DP0 pid=387)\x1b[0;0m INFO 03-08 16:44:29 [kv_cache_utils.py:1314] "
    line = prefix + "\x1b[1mGPU KV cache size: 188,640 tokens\x1b[0m"
    found = read(line).get("kv_tokens")
    assert found is not None
    assert found.value == 188640
    assert "\x1b" not in found.line


def test_of_several_ranks_the_smallest_pool_and_the_largest_weights_count() -> None:
    """The pool that limits the blocks is the smallest; a restart in the same log starts anew."""
    start = (
        "(Worker_TP0 pid=1) INFO [gpu_model_runner.py:1] Model loading took 10.64 GiB memory and 3.0 seconds",
        "(Worker_TP1 pid=2) INFO [gpu_model_runner.py:1] Model loading took 10.66 GiB memory and 3.0 seconds",
        "(Worker_TP0 pid=1) INFO 08-14 14:07:22 [gpu_worker.py:563] Available KV cache memory: 6.87 GiB",
        "(Worker_TP1 pid=2) INFO 08-14 14:07:22 [gpu_worker.py:563] Available KV cache memory: 6.91 GiB",
        "(EngineCore pid=3) INFO 08-14 14:07:22 [kv_cache_utils.py:1] GPU KV cache size: 1,000 tokens",
    )
    again = "(Worker_TP0 pid=9) INFO 08-14 15:07:22 [gpu_worker.py:563] Available KV cache memory: 7.00 GiB"
    seen = read(*start)
    pools = [item for item in seen.seen if item.name == "kv_pool_bytes"]
    assert [(item.value, item.line_number) for item in pools] == [(6.87 * 2**30, 3)]
    weights = seen.get("weights_bytes")
    assert weights is not None
    assert weights.value == 10.66 * 2**30
    restarted = read(*start, again).get("kv_pool_bytes")
    assert restarted is not None
    assert restarted.value == 7 * 2**30


def test_the_profile_that_v1_prints_at_debug_is_read() -> None:
    """The message of 0.9 to 0.13; numbers of a public test of another reader."""
    line = (
        "Total non KV cache memory: 20.19GiB; torch peak memory increase: 1.42GiB; non-torch forward increase memory:"
        " 0.51GiB; weights memory: 18.26GiB."
    )
    says = {item.name: item.value for item in read(line).seen}
    assert says == {"weights_bytes": 18.26 * 2**30, "activation_bytes": 1.42 * 2**30, "non_torch_bytes": 0.51 * 2**30}


def test_of_ranks_that_each_state_a_capacity_the_smallest_counts(golden: Path) -> None:
    """vLLM 0.8 prints it for every rank, in no order; a second start in the same log has its own."""
    lines = (golden / "logs" / "0.8.4_deepseek_r1_tp16.log").read_text().splitlines()
    for order in (lines, lines[::-1]):
        tokens = read(*order).get("kv_tokens")
        assert tokens is not None
        assert tokens.value == 335_168
    memory = "INFO 04-27 03:51:57 [gpu_model_runner.py:1347] Model loading took 7.1217 GiB and 170.700889 seconds"
    again = read(*lines, memory, lines[0]).get("kv_tokens")
    assert again is not None
    assert again.value == 335_360


def test_the_capacity_line_of_a_real_log_is_found_with_its_number(golden: Path) -> None:
    lines = (golden / "logs" / "0.32.0_cpu_auto.log").read_text().splitlines()
    seen = read(*lines)
    assert seen.version == "0.32.0"
    tokens = seen.get("kv_tokens")
    assert tokens is not None
    assert tokens.line_number is not None
    assert tokens.line in lines[tokens.line_number - 1]
    block = seen.get("block_size")
    assert block is not None
    assert block.value == 128
    assert seen.get("weights_bytes") is None  # a CPU server never states it: absent, not zero


def test_lines_are_recognised_as_vllms(golden: Path, rows: Rows) -> None:
    recognises = engines.log_reader("vllm").recognises
    lines = (golden / "logs" / "0.32.0_cpu_auto.log").read_text().splitlines()
    assert sum(map(recognises, lines)) > len(lines) / 3
    assert not recognises("llama_kv_cache: size =   12.75 MiB (  2048 cells,   3 layers,  4/4 seqs)")
    assert not recognises("[2025-09-01 10:00:00 TP0] KV Cache is allocated. #tokens: 367404, K size: 8.23 GB")


@given(st.lists(st.text(max_size=60), max_size=10))
def test_any_text_is_read(lines: list[str]) -> None:
    assert read(*lines).engine == "vllm"
