"""What tiers hold, against numbers that the engines printed, or that their own code computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import api
from kvlab.core.plan import Plan
from kvlab.core.tiers import held, number
from kvlab.core.units import GIB, MIB

GOLDEN = Path(__file__).parents[1] / "golden"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / "offload" / name).read_text().splitlines()]


def planned(config: str, **options: Any) -> Plan:
    return api.plan(GOLDEN / "configs" / f"{config}.json", **options)


def expected(plan: Plan, name: str) -> float:
    return next(row.value for row in plan.expects if row.name == name)  # type: ignore[return-value]


@pytest.mark.parametrize("row", rows("vllm_chunks.jsonl"), ids=lambda row: f"{row['config']}-{row['tp']}-{row['gib']}")
def test_blocks_of_host_memory_are_those_of_vllms_own_code(row: dict[str, Any]) -> None:
    mamba = {"mamba_cache_mode": row["mamba"]} if row["mamba"] != "none" else {}
    plan = planned(
        row["config"],
        gpu="h100-80gb",
        pool_gib=row["pool"] / GIB,
        tp=row["tp"],
        kv_dtype=row["dtype"],
        context=row["context"],
        max_num_batched_tokens=row["batched"],
        max_num_seqs=row["seqs"],
        offload="native",
        offload_gib=row["gib"],
        **mamba,
    )
    (tier,) = plan.tiers
    assert expected(plan, "offload_blocks") == row["chunks"]
    assert tier.bytes == row["chunks"] * row["chunk_bytes"]
    assert tier.granularity is not None
    assert tier.tokens == row["chunks"] // row["groups"] * tier.granularity


@pytest.mark.parametrize("row", rows("vllm_blocks.jsonl"), ids=lambda row: row["id"])
def test_blocks_of_host_memory_are_those_of_public_runs(row: dict[str, Any]) -> None:
    plan = planned(
        row["config"],
        engine_version="0.15.0",
        gpu="h100-80gb",
        tp=row["tp"],
        context=4096,
        offload="native",
        offload_gib=8 * row["tp"],
    )
    exact = row["cpu_blocks"] + (row["id"] == "v061")  # see SOURCE.md
    assert expected(plan, "offload_blocks") == exact
    assert plan.tiers[0].bytes_per_rank == pytest.approx(8 * GIB, rel=1e-3)


@pytest.mark.parametrize("row", rows("hicache.jsonl"), ids=lambda row: row["config"])
def test_hicache_counts_in_powers_of_ten_and_takes_a_page_more(row: dict[str, Any]) -> None:
    plan = planned(
        row["config"],
        engine="sglang",
        gpu="h100-80gb",
        kv_dtype=row["dtype"],
        block_size=row["page"],
        offload="hicache",
        offload_gib=row["size_gb"] * 1e9 / GIB + 0.001,
    )
    assert plan.tiers[0].flag == f"--hicache-size {row['size_gb']}"
    assert plan.tiers[0].tokens == row["tokens"]
    assert f"{plan.tiers[0].bytes / 1e9:.2f} GB" in row["line"]


def test_latents_on_every_rank_of_sglang_are_copies_and_the_index_comes_on_top() -> None:
    # Of a public log of four ranks: 3,423,488 tokens in 153.81 GB, and 35.25 GB for the index.
    plan = planned(
        "deepseek-ai__DeepSeek-V3.2", engine="sglang", gpu="b200-180gb", tp=8, offload="hicache", offload_gib=1000
    )
    (tier,) = plan.tiers
    assert tier.tokens is not None
    assert tier.bytes == 8 * tier.bytes_per_rank
    size, index = expected(plan, "offload_rank_bytes"), expected(plan, "offload_index_bytes")
    assert size / tier.tokens == 61 * 576
    assert index / size == pytest.approx(35.25 / 153.81, rel=1e-3)


def test_the_first_rank_alone_stores_latents_in_lmcache() -> None:
    plan = planned("deepseek-ai__DeepSeek-V3", gpu="h200-141gb", tp=8, offload="lmcache", offload_gib=400)
    assert "max_local_cpu_size: 400" in plan.launch.files["lmcache.yaml"]
    assert plan.tiers[0].bytes == plan.tiers[0].bytes_per_rank == 400 * GIB


def test_latents_in_mooncake_are_doubted() -> None:
    plan = planned("deepseek-ai__DeepSeek-V3", gpu="h200-141gb", tp=8, offload="mooncake", offload_gib=400)
    assert any("the same latents once" in doubt.text for doubt in plan.doubts)


def test_a_chunk_of_lmcache_is_what_its_pages_say() -> None:
    # "Chunk bytes = 256 x bytes per token": Llama-3.1-8B 32 MiB, Qwen3-8B 36 MiB
    for config, mebibytes in (("meta-llama__Llama-3.1-8B", 32), ("Qwen__Qwen3-8B", 36)):
        plan = planned(config, gpu="h100-80gb", offload="lmcache", offload_gib=64)
        assert plan.tiers[0].tokens == 64 * GIB // (mebibytes * MIB) * 256
        assert plan.tiers[0].granularity == 256


def test_tensorrt_llm_takes_bytes_of_each_rank() -> None:
    plan = planned("Qwen__Qwen3-8B", engine="tensorrt-llm", gpu="h100-80gb", tp=2, offload="host", offload_gib=36)
    assert "host_cache_size: 19327352832\n" in plan.launch.files["trtllm_config.yaml"]  # 18 GiB
    assert expected(plan, "host_blocks") == 8192  # of 2.25 MiB: 32 tokens of 72 KiB
    given = planned(
        "Qwen__Qwen3-8B",
        engine="tensorrt-llm",
        gpu="h100-80gb",
        tp=2,
        engine_args={"kv_cache_config.host_cache_size": "19327352832"},
    )
    assert given.tiers == plan.tiers


def test_llama_servers_default_is_counted_and_an_older_build_has_none() -> None:
    options: dict[str, Any] = {"engine": "llamacpp", "context": 8192}
    assert planned("Qwen__Qwen3-8B", **options).tiers[0].bytes == 8 * GIB
    assert planned("Qwen__Qwen3-8B", **options, engine_version="b6000").tiers == ()
    assert planned("Qwen__Qwen3-8B", **options, engine_args={"cache-ram": "0"}).tiers == ()
    unlimited = planned("Qwen__Qwen3-8B", **options, engine_args={"cache-ram": "-1"})
    assert unlimited.tiers == ()
    assert any(doubt.key == "cache-ram" for doubt in unlimited.doubts)
    asked = planned("Qwen__Qwen3-8B", **options, offload="cache-ram", offload_gib=18)
    assert asked.tiers[0].tokens == 18 * GIB // (144 * 1024)
    assert "--cache-ram 18432" in " ".join(asked.launch.argv)


def test_a_connector_that_turns_the_hybrid_manager_off_costs_the_gpu_its_windows() -> None:
    options: dict[str, Any] = {"gpu": "h100-80gb", "context": 32768, "offload_gib": 100}
    plain = planned("google__gemma-3-27b-it", gpu="h100-80gb", context=32768)
    native = planned("google__gemma-3-27b-it", offload="native", **options)
    lmcache = planned("google__gemma-3-27b-it", offload="lmcache", **options)
    off = planned(
        "google__gemma-3-27b-it",
        gpu="h100-80gb",
        context=32768,
        engine_args={"disable-hybrid-kv-cache-manager": True},
    )
    assert native.capacity == plain.capacity
    assert lmcache.capacity == off.capacity != plain.capacity
    assert any("LMCacheConnectorV1 turns" in doubt.text for doubt in lmcache.doubts)
    older = planned("google__gemma-3-27b-it", offload="native", engine_version="0.19.1", **options)
    assert any("OffloadingConnector turns" in doubt.text for doubt in older.doubts)
    named = '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}'
    stated = planned(
        "google__gemma-3-27b-it", gpu="h100-80gb", context=32768, engine_args={"kv-transfer-config": named}
    )
    assert stated.capacity == off.capacity


def test_the_machine_must_have_what_the_tier_takes() -> None:
    options: dict[str, Any] = {"gpu": "h100-80gb", "offload": "native", "offload_gib": 64}
    small = planned("Qwen__Qwen3-8B", **options, host_gib=60)
    assert any(doubt.key == "host-gib" for doubt in small.doubts)
    large = planned("Qwen__Qwen3-8B", **options, host_gib=128)
    assert not any(doubt.key == "host-gib" for doubt in large.doubts)
    lines = {line.name: line.bytes for line in large.host}
    # a block of 2.25 MiB, less than which is lost of the 64 GiB
    assert 64 * GIB <= lines["host_left"] < 64 * GIB + 9 * MIB // 4
    hicache = planned("Qwen__Qwen3-8B", engine="sglang", gpu="h100-80gb", offload="hicache", offload_gib=64)
    assert {line.name: line.bytes for line in hicache.host}["reserve"] == 10 * GIB


def test_what_a_pool_lacks_is_not_taken_of_the_machine() -> None:
    plan = planned("Qwen__Qwen3-8B", gpu="cpu", weights_gib=10_000, offload="lmcache", offload_gib=64, context=4096)
    lines = [(line.name, line.bytes) for line in plan.host]
    assert [size for name, size in lines if name == "pool"] == [0]
    # 10,000 GiB of weights and 64 of the tier; the engine's own processes take less than 100
    assert 10_064 * GIB <= dict(lines)["host_needed"] < 10_164 * GIB


@given(st.floats(1e-3, 1e6), st.integers(1, 4096))
def test_a_size_survives_being_written_as_a_flag(gibibytes: float, ranks: int) -> None:
    share = gibibytes / ranks
    text = number(share)
    assert "e" not in text
    assert share - 1e-6 <= float(text) <= share + 1e-9


@given(st.integers(0, 1 << 50), st.integers(1, 1 << 30), st.integers(1, 4096))
def test_pieces_never_take_more_than_there_is(size: int, piece: int, tokens: int) -> None:
    found = held(size, piece, tokens)
    assert found % tokens == 0
    assert found // tokens * piece <= size < (found // tokens + 1) * piece


@settings(deadline=None, max_examples=50)
@given(gib=st.floats(0.5, 2000, allow_nan=False), tp=st.sampled_from([1, 2, 4, 8]))
def test_ranks_never_get_more_than_the_server_was_given(gib: float, tp: int) -> None:
    for engine, kind in (("vllm", "native"), ("vllm", "lmcache"), ("tensorrt-llm", "host")):
        plan = planned("Qwen__Qwen3-8B", engine=engine, tp=tp, offload=kind, offload_gib=gib)
        (tier,) = plan.tiers
        assert tier.bytes_per_rank * tp <= tier.bytes <= gib * GIB + 8 * tp
