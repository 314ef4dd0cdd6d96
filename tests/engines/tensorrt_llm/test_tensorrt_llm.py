"""TensorRT-LLM's cache against allocations that public logs state, its lines, its command and its metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import engines, source
from kvlab.core.engine import Carved, Deployment, Gpu
from kvlab.core.errors import BadInput
from kvlab.core.observation import Observation
from kvlab.core.plan import Ask
from kvlab.core.units import GIB

GOLDEN = Path(__file__).parents[2] / "golden"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / "tensorrt_llm" / name).read_text().splitlines()]


def carve(config: str, pool: int | None = None, gpu: Gpu | None = None, **asked: Any) -> Carved:
    loaded = source.load(str(GOLDEN / "configs" / f"{config}.json"))
    ask = Ask(engine="tensorrt-llm", pool_gib=pool / GIB if pool else None, **asked)
    deployment = Deployment(model=loaded.model, layout=loaded.layout, ask=ask, gpu=gpu, pool_bytes=pool)
    return engines.planner("tensorrt-llm").carve(deployment)


def expected(carved: Carved, name: str) -> float:
    value = next(row.value for row in carved.expects if row.name == name)
    assert not isinstance(value, str)
    return value


def read(*lines: str) -> Observation:
    return engines.log_reader("tensorrt-llm").read(lines)


def stated(seen: Observation, name: str) -> float | str | None:
    found = seen.get(name)
    return found.value if found else None


@pytest.mark.parametrize("logged", rows("caches.jsonl"), ids=lambda row: f"{row['config']}-{row['tokens']}")
def test_allocations_are_those_of_public_logs(logged: dict[str, Any]) -> None:
    asked = {"block_size": logged["block"], "engine_args": (("backend", logged["backend"]),)}
    carved = carve(logged["config"], kv_dtype=logged["kv_dtype"], **asked)
    size = logged["tokens"] * carved.kv.bytes_per_token
    assert f"{size / GIB:.2f}" == logged["allocated_gib"]
    # the same memory again gives the same tokens, in whole blocks
    again = carve(logged["config"], pool=size, kv_dtype=logged["kv_dtype"], **asked)
    assert again.capacity is not None
    assert again.capacity.tokens == logged["tokens"]
    assert f"{expected(again, 'kv_allocated_bytes') / GIB:.2f}" == logged["allocated_gib"]


@pytest.mark.parametrize(
    "logged", [row for row in rows("caches.jsonl") if row["pool_gib"]], ids=lambda row: row["config"]
)
def test_blocks_follow_from_the_free_memory_that_the_log_states(logged: dict[str, Any]) -> None:
    """Free memory is printed with two decimals, so the blocks are known to a few."""
    printed = 0.005 * 0.9 * GIB
    ends = []
    for pool in (logged["pool_gib"] * GIB - printed, logged["pool_gib"] * GIB + printed):
        args = (("backend", logged["backend"]),)
        carved = carve(
            logged["config"],
            pool=round(pool),
            kv_dtype=logged["kv_dtype"],
            block_size=logged["block"],
            engine_args=args,
        )
        assert carved.capacity is not None
        ends.append(carved.capacity.tokens)
    assert ends[0] <= logged["tokens"] <= ends[1]


@pytest.mark.parametrize(
    ("config", "asked", "per_token"),
    [
        ("meta-llama__Llama-3.1-8B", {}, 131_072),
        ("meta-llama__Llama-3.1-8B", {"kv_dtype": "fp8"}, 65_536),
        ("meta-llama__Llama-3.1-8B", {"tp": 2}, 65_536),
        ("meta-llama__Llama-3.1-8B", {"tp": 16}, 16_384),  # one copy of a head on each rank
        ("Qwen__Qwen3-8B", {"kv_dtype": "fp8"}, 73_728),  # "kv size is 73728"
        ("deepseek-ai__DeepSeek-R1", {"kv_dtype": "fp8", "tp": 8}, 35_136),  # "kv size is 35136": latents are not split
    ],
)
def test_bytes_of_a_token_are_those_that_are_published(config: str, asked: dict[str, Any], per_token: int) -> None:
    carved = carve(config, **asked)
    assert carved.kv.bytes_per_token == per_token
    assert expected(carved, "kv_token_bytes") == per_token


def test_blocks_of_a_sequence_are_rounded_up() -> None:
    # "Max KV cache blocks per sequence: 65 [window size=2051], tokens per block=32"
    carved = carve("TinyLlama__TinyLlama-1.1B-Chat-v1.0", pool=GIB, context=2051)
    assert expected(carved, "blocks_per_sequence") == 65


def test_a_context_above_the_pool_is_lowered_to_it() -> None:
    """ "Attention window size 131072 exceeds upper bound 8224 for available blocks. Reducing to 8224." """
    carved = carve("meta-llama__Llama-3.1-8B", pool=8230 * 131_072)
    assert carved.capacity is not None
    assert carved.capacity.longest_request_tokens == 8224
    assert expected(carved, "longest_request_tokens") == 8224


def test_every_line_is_read_as_a_person_reads_it() -> None:
    for row in rows("lines.jsonl"):
        says = {item.name: item.value for item in read(row["line"]).seen}
        assert says == pytest.approx(row["says"]), row["line"]
        assert engines.log_reader("tensorrt-llm").recognises(row["line"])


def test_the_last_allocation_counts() -> None:
    """The dry run makes a small cache first."""
    allocated = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated {} GiB for max tokens in paged KV cache ({})."
    seen = read(allocated.format("0.54", 8320), allocated.format("68.69", 643136))
    assert stated(seen, "kv_tokens") == 643136
    assert stated(seen, "kv_allocated_bytes") == 68.69 * GIB


@pytest.mark.parametrize("prefix", ["[1,{}]<stdout>:", "{}: ", "[10/21/2025-23:24:41] [TRT-LLM] [RANK {}] [I] "])
def test_of_ranks_that_differ_the_smallest_pool_counts(prefix: str) -> None:
    line = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated {} GiB for max tokens in paged KV cache ({})."
    sizes = (("0.54", 8320), ("0.54", 8320), ("38.69", 643136), ("39.02", 648992))
    for order in (sizes, (*sizes[:2], *sizes[:1:-1])):
        seen = read(*(prefix.format(at % 2) + line.format(*size) for at, size in enumerate(order)))
        assert (stated(seen, "kv_tokens"), stated(seen, "kv_allocated_bytes")) == (643136, 38.69 * GIB)
        unnamed = read("[TensorRT-LLM][INFO] MPI size: 2, rank: 0", *(line.format(*size) for size in order))
        assert stated(unnamed, "kv_tokens") == 643136


def test_a_pool_for_each_window_keeps_its_own_blocks() -> None:
    line = "[TensorRT-LLM][INFO] Max KV cache blocks per sequence: {} [window size={}], tokens per block=32, primary"
    seen = read(
        line.format(16, 512) + " blocks=1000, secondary blocks=0",
        line.format(1024, 32768) + " blocks=7000, secondary blocks=0",
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 1.00 GiB for max tokens in paged KV cache (256000).",
    )
    assert stated(seen, "num_gpu_blocks") is None
    assert stated(seen, "num_gpu_blocks_window_512") == 1000
    assert stated(seen, "num_gpu_blocks_window_32768") == 7000


@given(st.lists(st.text(max_size=200) | st.sampled_from([row["line"] for row in rows("lines.jsonl")])))
def test_no_line_breaks_the_reader(lines: list[str]) -> None:
    known = {name for row in rows("lines.jsonl") for name in row["says"]}
    for item in read(*lines).seen:
        assert item.name.split("_window_")[0] in known
        assert item.line_number is not None


def test_failures_are_named() -> None:
    rules = engines.failures("tensorrt-llm").rules
    for row in rows("failures.jsonl"):
        assert next((rule.code for rule in rules if rule.pattern.search(row["line"])), None) == row["code"]
    healthy = [row["line"] for row in rows("lines.jsonl")]
    assert not [line for line in healthy for rule in rules if rule.pattern.search(line)]


def test_the_yaml_file_says_what_the_plan_says() -> None:
    yaml = pytest.importorskip("yaml")
    loaded = source.load(str(GOLDEN / "configs" / "meta-llama__Llama-3.1-8B.json"))
    args = (("kv_cache_config.host_cache_size", "1073741824"), ("log_level", "info"), ("trust_remote_code", "true"))
    ask = Ask(engine="tensorrt-llm", pool_gib=4.0, kv_dtype="fp8", tp=2, max_num_seqs=64, engine_args=args)
    deployment = Deployment(model=loaded.model, layout=loaded.layout, ask=ask, gpu=None, pool_bytes=4 * GIB)
    carved = engines.planner("tensorrt-llm").carve(deployment)
    launch = engines.launcher("tensorrt-llm").command(deployment, carved, "some/model")
    assert launch.argv[:2] == ("trtllm-serve", "some/model")
    words = " ".join(launch.argv)
    assert "--tp_size 2" in words
    assert "--max_batch_size 64" in words
    assert "--trust_remote_code --extra_llm_api_options trtllm_config.yaml" in words
    (text,) = launch.files.values()
    assert yaml.safe_load(text) == {
        "kv_cache_config": {
            "free_gpu_memory_fraction": 0.9,
            "dtype": "fp8",
            "enable_block_reuse": True,
            "max_tokens": 4 * GIB // 32_768,
            "host_cache_size": 1073741824,
        },
        "return_perf_metrics": True,
        "enable_iter_perf_stats": True,
    }
    assert all(flag.because for flag in launch.flags)


@pytest.mark.parametrize(
    ("config", "asked", "says"),
    [
        ("Qwen__Qwen3-8B", {"kv_dtype": "int8"}, "no int8 cache"),
        ("Qwen__Qwen3-8B", {"kv_dtype": "fp9"}, "no cache dtype 'fp9'"),
        ("Qwen__Qwen3-8B", {"kv_dtype": "float16"}, "caches .* in bfloat16"),
        ("Qwen__Qwen3-8B", {"block_size": 48}, "power of two"),
        ("Qwen__Qwen3-8B", {"tp": 5}, "cannot split"),
        ("Qwen__Qwen3-8B", {"engine_version": "0.9"}, "1.0 or later"),
        ("Qwen__Qwen3-8B", {"engine_args": (("max_seq_len", "4096"),)}, "use --context"),
        ("Qwen__Qwen3-8B", {"engine_args": (("config", "x.yaml"),)}, "kvlab writes that file"),
        ("Qwen__Qwen3-Next-80B-A3B-Instruct", {}, "state cache of qwen3_next is not known"),
        ("deepseek-ai__DeepSeek-V3.2", {}, "indexer cache"),
    ],
)
def test_what_is_not_known_is_refused_by_name(config: str, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        carve(config, **asked)


def card(vendor: str, capability: tuple[int, int] | None) -> Gpu:
    return Gpu(
        name="c",
        title="a card",
        usable_bytes=80 * GIB,
        bandwidth=None,
        compute_capability=capability,
        source="a test",
        vendor=vendor,
    )


@pytest.mark.parametrize(
    ("gpu", "dtype", "says"),
    [
        (card("amd", None), None, "on NVIDIA GPUs only"),
        (card("nvidia", (7, 5)), None, r"compute capability 8\.0 or more; a card has 7\.5"),
        (card("nvidia", (8, 6)), "fp8", r"its fp8 cache needs compute capability 8\.9"),
        (card("nvidia", (10, 0)), "nvfp4", "a checkpoint that ModelOpt made for it"),
    ],
)
def test_what_a_gpu_or_a_checkpoint_cannot_have_is_refused(gpu: Gpu, dtype: str | None, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        carve("Qwen__Qwen3-8B", gpu=gpu, kv_dtype=dtype)


def test_an_nvfp4_cache_has_a_scale_for_every_16_values() -> None:
    """36,864 bytes a token for Llama-3.1-8B, on a GPU that computes in fp4."""
    loaded = source.load(str(GOLDEN / "configs" / "meta-llama__Llama-3.1-8B.json"))
    made = msgspec.structs.replace(loaded.model, kv_cache_format="nvfp4")
    ask, planner = Ask(engine="tensorrt-llm"), engines.planner("tensorrt-llm")
    hopper, blackwell = (
        Deployment(model=made, layout=loaded.layout, ask=ask, gpu=card("nvidia", capability), pool_bytes=None)
        for capability in ((9, 0), (10, 0))
    )
    assert planner.carve(blackwell).kv.bytes_per_token == 36_864
    with pytest.raises(BadInput, match="compute capability 10"):
        planner.carve(hopper)


def test_windows_are_a_doubt() -> None:
    assert [doubt.key for doubt in carve("google__gemma-3-27b-it").doubts] == ["sliding_window"]


def test_prometheus_names_are_read() -> None:
    page = """
# TYPE trtllm_kv_cache_utilization gauge
trtllm_kv_cache_utilization{model_name="m",engine_type="trtllm"} 0.62
trtllm_num_requests_running{model_name="m"} 7
trtllm_num_requests_waiting{model_name="m"} 3
trtllm_kv_cache_max_blocks{model_name="m"} 1000
trtllm_kv_cache_used_blocks{model_name="m"} 620
trtllm_kv_cache_tokens_per_block{model_name="m"} 32
trtllm_prompt_tokens_total{model_name="m"} 900
trtllm_prompt_cached_tokens_total{model_name="m"} 300
trtllm_generation_tokens_total{model_name="m"} 100
"""
    assert engines.metric_map("tensorrt-llm").read({"/prometheus/metrics": page}) == {
        "kv_used_ratio": 0.62,
        "running": 7,
        "waiting": 3,
        "num_gpu_blocks": 1000,
        "block_size": 32,
        "kv_tokens": 32_000,
        "kv_used_tokens": 620 * 32,
        "prompt_tokens_total": 900,
        "prefix_hits_tokens_total": 300,
        "prefix_queries_tokens_total": 900,
        "generation_tokens_total": 100,
    }


def test_what_a_first_release_does_not_export_is_absent() -> None:
    page = 'trtllm_kv_cache_utilization{model_name="m"} 0.5\n'
    assert engines.metric_map("tensorrt-llm").read({"/prometheus/metrics": page}) == {"kv_used_ratio": 0.5}


def test_a_saved_page_of_iterations_is_read_from_its_end() -> None:
    stats = '{"maxNumBlocks": 100, "freeNumBlocks": 75, "usedNumBlocks": 25, "tokensPerBlock": 32}'
    page = f'[{{"numActiveRequests": 99}}, {{"numActiveRequests": 2, "numQueuedRequests": 3, "kvCacheStats": {stats}}}]'
    found = engines.metric_map("tensorrt-llm").read({"/metrics": page})
    assert found["running"] == 2
    assert found["waiting"] == 3
    assert found["kv_used_ratio"] == 0.25
    assert engines.metric_map("tensorrt-llm").read({"/metrics": "[]"}) == {}


def test_it_says_that_it_serves_no_tokenizer() -> None:
    with pytest.raises(BadInput, match=r"TensorRT-LLM serves no endpoint .* --prompts"):
        engines.token_api("tensorrt-llm")
