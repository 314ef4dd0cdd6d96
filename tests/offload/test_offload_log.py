"""What the engines' logs say of their tiers, and that a plan agrees with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api, engines
from kvlab.core.check import compare
from kvlab.core.observation import Observation
from kvlab.core.units import GIB, MIB
from kvlab.launch import Server

GOLDEN = Path(__file__).parents[1] / "golden" / "offload"


def read(engine: str, lines: list[str]) -> Observation:
    return engines.log_reader(engine).read([line if line.endswith("\n") else f"{line}\n" for line in lines])


def of_file(engine: str, name: str) -> Observation:
    return read(engine, (GOLDEN / name).read_text().splitlines())


def seen(found: Observation, name: str) -> float | str | None:
    item = found.get(name)
    return None if item is None else item.value


def test_llama_server_states_its_limit_and_what_it_holds() -> None:
    found = of_file("llamacpp", "llamacpp_cache_ram.log")
    assert seen(found, "offload_size_bytes") == 64 * MIB
    assert seen(found, "offload_prompts") == 3
    assert seen(found, "offload_used_bytes") == pytest.approx(48.118 * MIB)
    assert sum(item.name == "offload_used_bytes" for item in found.seen) == 1  # said with every request, kept once


@pytest.mark.parametrize(("mebibytes", "verdict"), [(64, "agrees"), (128, "differs")])
def test_a_plan_agrees_with_a_real_llama_server(mebibytes: int, verdict: str) -> None:
    config = GOLDEN.parent / "configs" / "google__gemma-3-1b-it.json"
    plan = api.plan(
        config, engine="llamacpp", context=2048, parallel=2, offload="cache-ram", offload_gib=mebibytes / 1024
    )
    rows = {row.name: row.verdict for row in compare(plan, of_file("llamacpp", "llamacpp_cache_ram.log")).rows}
    assert rows["offload_size_bytes"] == verdict


def test_vllm_states_the_size_that_it_was_given() -> None:
    found = of_file("vllm", "vllm_0.32_cpu_native.log")
    assert seen(found, "offload_size_bytes") == GIB


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (
            "INFO 06-01 10:00:00 [x.py:1] Created mmap file /dev/shm/vllm_offload_a.mmap (8.59 GB)",
            "region_bytes",
            8.59e9,
        ),
        (
            "Created TieringOffloadingManager with primary tier (lru, 4096 chunks) and 1 secondary tier(s)",
            "blocks",
            4096,
        ),
        (
            "SimpleCPUOffloadScheduler: Allocating 4096 offload blocks (8.00 GB, mode=eager, backend=cpu)",
            "blocks",
            4096,
        ),
        (
            "SimpleCPUOffloadConnector: role=WORKER, per_rank=8.00 GB, world_size=2, mode=eager, backend=cpu",
            "rank_bytes",
            8 * GIB,
        ),
        (
            "Mooncake mode=embedded (global_segment_size=4294967296, local_buffer_size=4294967296, ",
            "rank_bytes",
            4 * GIB,
        ),
    ],
)
def test_the_words_of_vllms_connectors(line: str, name: str, value: float) -> None:
    assert seen(read("vllm", [line]), f"offload_{name}") == value


def test_lmcache_states_gibibytes_of_a_rank_whatever_it_calls_them() -> None:
    first, second, adjusted = (GOLDEN / "lmcache.log").read_text().splitlines()
    assert seen(read("vllm", [first]), "offload_rank_bytes") == 8 * GIB
    both = read("vllm", [second])
    assert seen(both, "offload_rank_bytes") == 48 * GIB
    assert seen(both, "offload_disk_rank_bytes") == 200 * GIB
    assert seen(both, "offload_chunk") == 256
    assert seen(read("sglang", [second, adjusted]), "offload_rank_bytes") == 40 * GIB
    assert seen(read("vllm", [second, adjusted]), "offload_rank_bytes") == 40 * GIB


def test_hicache_states_powers_of_ten() -> None:
    old, *new = (GOLDEN / "sglang_hicache.log").read_text().splitlines()
    assert seen(read("sglang", [old]), "offload_rank_bytes") == 354.94e9
    found = read("sglang", new)
    assert seen(found, "offload_tokens") == 3_423_488
    assert seen(found, "offload_rank_bytes") == 153.81e9
    assert seen(found, "offload_index_bytes") == 35.25e9


def test_a_running_llama_server_takes_the_default_that_its_plan_counts(llama_server: Server, gemma: Path) -> None:
    plan = api.plan(gemma, engine="llamacpp", context=8192, parallel=4)
    found = read("llamacpp", llama_server.log.read_text("utf-8", "replace").splitlines())
    assert seen(found, "offload_size_bytes") == plan.tiers[0].bytes == 8 * GIB
