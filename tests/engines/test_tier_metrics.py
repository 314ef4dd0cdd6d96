"""Tiers below the GPU's cache in an engine's metrics, on pages that the engines' own metric classes wrote."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kvlab import api, engines
from kvlab.core.check import compare
from kvlab.core.observation import Observation, Seen
from kvlab.core.plan import Plan
from kvlab.core.scrape import Reading, window

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics"


def read(engine: str, *pages: str) -> Reading:
    return engines.reading(engine, {engines.metric_map(engine).paths[0]: "".join(pages)})


def recorded(name: str) -> str:
    return (GOLDEN / f"{name}.prom").read_text(encoding="utf-8")


def test_vllm_counts_what_its_offloading_moves() -> None:
    """Two engines, the second with twice the first's numbers. What starts each series (_created) is no byte."""
    found = read("vllm", recorded("vllm_0.32_offloading_connector"))
    assert found.values == {
        "host_tier_used_ratio": 1 / 64,
        "offload_loaded_bytes_total": 3 * 768 * 2**20,
        "offload_stored_bytes_total": 3 * 3 * 2**30,
        "offload_loading_seconds_total": 3 / 16,
        "offload_storing_seconds_total": 3 / 4,
        "offload_refused_total": 9,
    }
    assert [pool["offload_refused_total"] for pool in found.pools.values()] == [3, 6]
    assert "load_bytes_total" in found.lines["offload_loaded_bytes_total"]


def test_vllm_0_16_to_0_23_have_the_transfers_alone() -> None:
    page = recorded("vllm_0.32_offloading_connector")
    old = "".join(line for line in page.splitlines(keepends=True) if "kv_offload_total_" in line)
    assert read("vllm", old).values == {
        "offload_loaded_bytes_total": 3 * 768 * 2**20,
        "offload_stored_bytes_total": 3 * 3 * 2**30,
        "offload_loading_seconds_total": 3 / 16,
        "offload_storing_seconds_total": 3 / 4,
    }


def test_vllm_s_simple_offloading_states_its_blocks() -> None:
    page = recorded("vllm_0.32_simple_cpu_offload")
    assert read("vllm", page).values == {"host_tier_used_ratio": 128 / 4096}
    assert read("vllm", page.replace('backend="cpu"', 'backend="disk"')).values == {}
    assert read("vllm", page.replace("4096", "0")).values == {}


def test_vllm_tells_which_tier_held_the_tokens() -> None:
    """The page of a real server without a tier has the counters, at zero; here numbers stand in their place."""
    page = gzip.decompress((GOLDEN / "vllm_0.32_cpu_one_request.prom.gz").read_bytes()).decode()
    words = ("external_hits", "host_hits", "storage_hits", "peer_hits")
    found = read("vllm", page)
    assert [found.values[f"{word}_tokens_total"] for word in words] == [0, 0, 0, 0]
    assert "offload_size_bytes" not in found.values
    for source, tokens in (("host", 4096), ("disk", 1024), ("p2p", 512), ("external_unspecified", 256)):
        page = page.replace(f'source="{source}"}} 0.0', f'source="{source}"}} {tokens}')
    page = page.replace('kv_offloading_size="None"', 'kv_offloading_size="8.0"')
    found = read("vllm", page)
    assert [found.values[f"{word}_tokens_total"] for word in words] == [0, 4096, 1024, 512]
    assert found.values["offload_size_bytes"] == 8 * 2**30


def test_lmcache_s_ranks_hold_their_own_bytes_and_load_the_same_tokens() -> None:
    page = recorded("lmcache_0.5.6_two_ranks")
    bytes_held = {"host_tier_used_bytes": 2 * 576 * 2**20, "storage_tier_used_bytes": 2 * 1152 * 2**20}
    assert read("vllm", page).values == {**bytes_held, "external_hits_tokens_total": 4096}
    own = 'vllm:external_prefix_cache_hits_total{engine="0"} 3840\n'
    assert read("vllm", page, own).values["external_hits_tokens_total"] == 3840
    # two engines: which rank is whose is not told
    engines_of = "".join(f'vllm:num_requests_running{{model_name="m",engine="{engine}"}} 1\n' for engine in (0, 1))
    assert read("vllm", page, engines_of).values == {**bytes_held, "running": 2}


@pytest.mark.parametrize("release", ["0.5.17", "0.5.23"])
def test_hicache_s_tiers_are_part_of_the_hits(release: str) -> None:
    found = read("sglang", recorded(f"sglang_{release}_hicache"))
    moved = {"offload_loaded_bytes_total": 2 * 288 * 2**20, "offload_stored_bytes_total": 2 * 1152 * 2**20}
    assert found.values == {
        "host_tier_used_tokens": 61440,
        "offload_tokens": 131072,
        "prompt_tokens_total": 30000,
        "prefix_queries_tokens_total": 30000,
        "prefix_hits_tokens_total": 8192 + 4096 + 2048,
        "host_hits_tokens_total": 4096,
        "storage_hits_tokens_total": 2048,
        **(moved if release == "0.5.23" else {}),
    }


def test_hicache_without_storage_states_none() -> None:
    page = recorded("sglang_0.5.23_hicache")
    page = "".join(line for line in page.splitlines(keepends=True) if '"storage"' not in line)
    found = read("sglang", page)
    assert "storage_hits_tokens_total" not in found.values
    assert found.values["host_hits_tokens_total"] == 4096


def test_tensorrt_llm_states_its_host_pool() -> None:
    page = "trtllm_kv_cache_host_utilization 0.4\ntrtllm_kv_cache_onboard_bytes_total 4096\n"
    assert read("tensorrt-llm", page).values == {"host_tier_used_ratio": 0.4, "offload_loaded_bytes_total": 4096}


def test_rates_of_a_tier() -> None:
    """288 MiB on each of two ranks in ten seconds."""
    page = recorded("sglang_0.5.23_hicache")
    early = read("sglang", page.replace("3.01989888e+08", "0.0"))
    found = window(early, read("sglang", page), 10.0)
    assert found.rate("offload_loaded_bytes_total") == 2 * 288 * 2**20 / 10


def test_a_running_server_is_compared_with_the_tier_of_its_plan() -> None:
    """The sizes have the names that the plan's rows have: 8 GiB of all ranks, 10 GB of 147,456-byte tokens of one."""
    config = GOLDEN.parent / "configs" / "Qwen__Qwen3-8B.json"
    asked = {"gpu": "h100-80gb", "context": 8192}
    native = api.plan(config, engine="vllm", offload="native", offload_gib=8, **asked)  # type: ignore[arg-type]
    found = read("vllm", 'vllm:cache_config_info{engine="0",kv_offloading_size="8.0"} 1.0\n')
    assert verdicts(native, found) == {"offload_size_bytes": "agrees"}
    found = read("vllm", 'vllm:cache_config_info{engine="0",kv_offloading_size="16.0"} 1.0\n')
    assert verdicts(native, found) == {"offload_size_bytes": "differs"}
    hicache = api.plan(config, engine="sglang", offload="hicache", offload_gib=9.32, **asked)  # type: ignore[arg-type]
    found = read("sglang", f'sglang:hicache_host_total_tokens{{tp_rank="0"}} {10**10 // 147_456}\n')
    assert verdicts(hicache, found) == {"offload_tokens": "agrees"}


def verdicts(plan: Plan, found: Reading) -> dict[str, str]:
    seen = tuple(Seen(name=name, value=value, unit="", line="") for name, value in found.values.items())
    rows = compare(plan, Observation(engine=found.engine, seen=seen)).rows
    return {row.name: row.verdict for row in rows if row.name.startswith("offload") and row.verdict != "not seen"}
