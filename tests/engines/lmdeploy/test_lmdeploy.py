"""LMDeploy's cache against its own sizing code and published sizes, its lines, its command and its metrics."""

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
from kvlab.core.layout import Layout, Row
from kvlab.core.model import Model
from kvlab.core.observation import Observation
from kvlab.core.plan import Ask
from kvlab.core.units import GIB, MIB

GOLDEN = Path(__file__).parents[2] / "golden"
PLANNER = engines.planner("lmdeploy")
WORDS = {0: None, 4: "int4", 8: "int8", 16: "fp8", 17: "fp8_e5m2", 42: "turbo_quant"}
PYTORCH = (("backend", "pytorch"),)


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / "lmdeploy" / name).read_text().splitlines()]


def load(config: str, pool: int | None = None, **asked: Any) -> Deployment:
    loaded = source.load(str(GOLDEN / "configs" / f"{config}.json"))
    ask = Ask(engine="lmdeploy", pool_gib=pool / GIB if pool else None, **asked)
    return Deployment(model=loaded.model, layout=loaded.layout, ask=ask, gpu=None, pool_bytes=pool)


def carve(config: str, pool: int | None = None, **asked: Any) -> Carved:
    return PLANNER.carve(load(config, pool, **asked))


def of_truth(row: dict[str, Any]) -> Deployment:
    shape = Row(
        kind="full" if row["v"] else "latent",
        layers=tuple(range(row["layers"])),
        heads=row["heads"],
        k_dim=row["k"],
        v_dim=row["v"],
    )
    ask = Ask(
        engine="lmdeploy",
        tp=row["tp"],
        kv_dtype=WORDS[row["quant_policy"]],
        util=row["ratio"],
        max_num_seqs=row["max_batch_size"],
        max_num_batched_tokens=row["max_prefill_token_num"],
        context=4096,
        engine_args=PYTORCH,
    )
    model = Model(name="shape", model_type="any", dtype="bfloat16", context=4096, vocab=row["vocab"])
    return Deployment(model=model, layout=Layout((shape,)), ask=ask, gpu=None, pool_bytes=None)


def expected(carved: Carved, name: str) -> float:
    value = next(row.value for row in carved.expects if row.name == name)
    assert not isinstance(value, str)
    return value


def read(*lines: str) -> Observation:
    return engines.log_reader("lmdeploy").read(lines)


def stated(seen: Observation, name: str) -> float | str | None:
    found = seen.get(name)
    return found.value if found else None


def test_blocks_are_those_of_its_own_sizing_code() -> None:
    """Free memory less the runtime buffers, times the ratio, over the bytes of a block: to the block."""

    compared = 0
    for row in rows("truth.jsonl"):
        deployment = of_truth(row)
        assert PLANNER.overhead is not None
        (runtime,) = [taken.bytes for taken in PLANNER.overhead(deployment) if taken.name == "runtime_buffers"]
        pool = int((row["free"] - runtime) * row["ratio"])
        carved = PLANNER.carve(msgspec.structs.replace(deployment, pool_bytes=max(0, pool)))
        assert carved.capacity is not None
        assert carved.capacity.block_size == row["block_size"]
        if "error" in row:
            assert carved.capacity.longest_request_tokens == 0
        elif row["prefill_after"] == row["max_prefill_token_num"]:
            assert carved.capacity.num_blocks == row["num_gpu_blocks"], row
            compared += 1
        else:  # it lowered max_prefill_token_num, which the plan says
            assert "max_num_batched_tokens" in [doubt.key for doubt in carved.doubts]
    assert compared > 400


def test_bytes_of_a_block_are_those_of_its_own_sizing_code() -> None:
    for row in rows("truth.jsonl"):
        carved = PLANNER.carve(of_truth(row))
        assert carved.kv.bytes_per_sequence == 4096 // row["block_size"] * row["block_bytes"], row


@pytest.mark.parametrize(
    ("dtype", "per_token", "block_mib"),
    [
        (None, 131_072, 8.0),
        ("fp8", 65_536, 4.0),
        ("int8", 67_584, 4.125),
        ("8", 67_584, 4.125),
        ("int4", 34_816, 2.125),
        ("turbo_quant", 26_112, 1.59375),
    ],
)
def test_llama_8b_is_as_published(dtype: str | None, per_token: int, block_mib: float) -> None:
    carved = carve("meta-llama__Llama-3.1-8B", kv_dtype=dtype, context=64, engine_args=PYTORCH)
    assert carved.kv.bytes_per_token == per_token
    assert carved.kv.bytes_per_sequence == block_mib * MIB


def test_turbominds_block_is_the_one_that_it_prints() -> None:
    """ "[BlockManager] block_size = 8.000 MB" (Llama-3.1-8B) and "= 64 MB" (32 heads x 32 layers, 128 tokens)."""
    carved = carve("meta-llama__Llama-3.1-8B", engine_version="0.10.0")
    assert expected(carved, "kv_block_bytes") == 8 * MIB
    carved = carve("codellama__CodeLlama-7b-hf", engine_version="0.10.0", block_size=128)
    assert expected(carved, "kv_block_bytes") == 64 * MIB


def test_the_budget_is_a_share_of_the_free_memory() -> None:
    """ "Object cache budget: 55634.70 MB from free 63488.19 MB and ratio 0.876", asked for as 0.8763."""
    from kvlab.core.budget import ledger

    card = Gpu(name="c", title="c", usable_bytes=round(63488.19 * MIB), bandwidth=None, source="test")
    pool = ledger(card, 0.8763, [], PLANNER.share_of)[-1].bytes
    assert f"{pool / MIB:.2f}" == "55634.70"


def test_the_pytorch_engine_keeps_blocks_to_itself() -> None:
    block = 8 * MIB
    carved = carve("meta-llama__Llama-3.1-8B", pool=100 * block, context=100_000, engine_args=PYTORCH)
    assert carved.capacity is not None
    assert carved.capacity.num_blocks == 100
    assert carved.capacity.longest_request_tokens == 98 * 64


@pytest.mark.parametrize(
    ("gpu", "requests"), [("h100-80gb", 1024), ("h200-141gb", 1024), ("a100-80gb", 384), ("l4-24gb", 128)]
)
def test_the_batch_follows_the_gpu(gpu: str, requests: int) -> None:
    card = Gpu(name=gpu, title=gpu, usable_bytes=80 * GIB, bandwidth=None, source="test")
    loaded = load("meta-llama__Llama-3.1-8B", engine_args=PYTORCH)
    deployment = Deployment(model=loaded.model, layout=loaded.layout, ask=loaded.ask, gpu=card, pool_bytes=None)
    assert PLANNER.overhead is not None
    (runtime,) = [taken for taken in PLANNER.overhead(deployment) if taken.name == "runtime_buffers"]
    assert runtime.bytes == (8192 + 2 * requests) * 128_256 * 2


@pytest.mark.parametrize("truth", rows("truth_state.jsonl"), ids=lambda row: f"{row['config']}-{row['tp']}")
def test_recurrent_state_is_taken_before_the_share(truth: dict[str, Any]) -> None:
    """A slot for each of 30 requests, and two more."""
    deployment = load(truth["config"], engine_args=PYTORCH, max_num_seqs=30, tp=truth["tp"])
    assert PLANNER.overhead is not None
    terms = {taken.name: taken for taken in PLANNER.overhead(deployment)}
    assert terms["state_cache"].bytes == 32 * truth["slot_bytes"]


@pytest.mark.parametrize("truth", rows("truth_sparse.jsonl"), ids=lambda row: f"{row['quant_policy']}-{row['free']}")
def test_sparse_latents_and_their_indexer_are_those_of_its_own_sizing_code(truth: dict[str, Any]) -> None:
    asked = {"kv_dtype": WORDS[truth["quant_policy"]], "util": truth["ratio"], "max_num_seqs": truth["max_batch_size"]}
    deployment = load(truth["config"], context=64, **asked)
    assert PLANNER.overhead is not None
    (runtime,) = [taken.bytes for taken in PLANNER.overhead(deployment) if taken.name == "runtime_buffers"]
    pool = int((truth["free"] - runtime) * truth["ratio"])
    carved = PLANNER.carve(load(truth["config"], pool, context=64, **asked))
    assert carved.kv.bytes_per_sequence == truth["block_bytes"]
    assert carved.capacity is not None
    assert carved.capacity.num_blocks == truth["num_gpu_blocks"]


def test_every_line_is_read_as_a_person_reads_it() -> None:
    for row in rows("lines.jsonl"):
        says = {item.name: item.value for item in read(row["line"]).seen}
        assert says == pytest.approx(row["says"]), row["line"]


def test_its_log_is_recognised_and_a_drafts_cache_is_left_out() -> None:
    config = "CacheConfig(max_batches=8, block_size=64, num_cpu_blocks=0, num_gpu_blocks={}, kernel_block_size=64)."
    log = (
        "2026-09-30 14:36:57,224 - lmdeploy - INFO - base.py:439 - Building CacheEngine with config: ",
        config.format(500),
        "2026-09-30 14:36:57,224 - lmdeploy - INFO - base.py:442 - Building Spec CacheEngine with config: ",
        config.format(77),
    )
    assert engines.log_reader("lmdeploy").recognises(log[0])
    seen = read(*log)
    assert stated(seen, "num_gpu_blocks") == 500
    assert stated(seen, "kv_tokens") == 32_000


@given(st.lists(st.text(max_size=200) | st.sampled_from([row["line"] for row in rows("lines.jsonl")])))
def test_no_line_breaks_the_reader(lines: list[str]) -> None:
    known = {name for row in rows("lines.jsonl") for name in row["says"]}
    for item in read(*lines).seen:
        assert item.name in known
        assert item.line_number is not None


def test_failures_are_named() -> None:
    rules = engines.failures("lmdeploy").rules
    for row in rows("failures.jsonl"):
        assert next((rule.code for rule in rules if rule.pattern.search(row["line"])), None) == row["code"]
    healthy = [row["line"] for row in rows("lines.jsonl")]
    assert not [line for line in healthy for rule in rules if rule.pattern.search(line)]


def test_the_command_says_what_the_plan_says() -> None:
    args = (("reasoning-parser", "qwen-qwq"), ("trust-remote-code", "true"))
    deployment = load("meta-llama__Llama-3.1-8B", 4 * GIB, kv_dtype="int8", tp=2, engine_args=args + PYTORCH)
    launch = engines.launcher("lmdeploy").command(deployment, PLANNER.carve(deployment), "some/model")
    words = " ".join(launch.argv)
    assert launch.argv[:4] == ("lmdeploy", "serve", "api_server", "some/model")
    assert "--backend pytorch --session-len 131072" in words
    assert f"--num-gpu-blocks {4 * GIB // (64 * 33_792)} --quant-policy 8 --tp 2 --log-level INFO" in words
    assert "--trust-remote-code" in launch.argv[-1]
    assert all(flag.because for flag in launch.flags)
    old = load("meta-llama__Llama-3.1-8B", engine_version="0.10.0")
    words = " ".join(engines.launcher("lmdeploy").command(old, PLANNER.carve(old), "some/model").argv)
    assert "--backend turbomind" in words
    assert "--cache-max-entry-count 0.8 --quant-policy 0 --log-level INFO --enable-metrics" in words


@pytest.mark.parametrize(
    ("config", "asked", "says"),
    [
        ("Qwen__Qwen3-8B", {"kv_dtype": "fp8"}, "TurboMind caches in int8 or int4 only"),
        ("Qwen__Qwen3-8B", {"kv_dtype": "fp8", "engine_version": "0.10", "engine_args": PYTORCH}, "0.18 has"),
        ("Qwen__Qwen3-8B", {"kv_dtype": "int3"}, "no quant policy 'int3'"),
        ("Qwen__Qwen3-8B", {"util": 1}, "a share below 1"),
        ("Qwen__Qwen3-8B", {"block_size": 48}, "multiple of 32"),
        ("Qwen__Qwen3-8B", {"engine_version": "0.2.1"}, "0.2.2 or later"),
        ("Qwen__Qwen3-8B", {"engine_args": (("backend", "vllm"),)}, "turbomind and pytorch"),
        ("Qwen__Qwen3-8B", {"engine_args": (("tp", "2"),)}, "use --tp"),
        ("Qwen__Qwen3.5-27B", {}, "backend=pytorch"),
        ("MiniMaxAI__MiniMax-M3", {}, "no model for"),
        ("deepseek-ai__DeepSeek-V3.2", {"kv_dtype": "int8"}, "latent cache in int8"),
        ("deepseek-ai__DeepSeek-V3.2", {"block_size": 32}, "blocks of 64 only"),
        ("deepseek-ai__DeepSeek-V4-Flash", {}, "pooled latents"),
        ("deepseek-ai__DeepSeek-R1", {"kv_dtype": "int8"}, "latent cache in int8"),
        ("google__gemma-4-26B-A4B", {"engine_version": "0.19"}, "KV heads of 2 shapes"),
    ],
)
def test_what_is_not_known_is_refused_by_name(config: str, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        carve(config, **asked)


@pytest.mark.parametrize(("vendor", "capability"), [("amd", None), ("nvidia", (6, 1))])
def test_other_gpus_are_refused(vendor: str, capability: tuple[int, int] | None) -> None:

    gpu = Gpu(
        name="c",
        title="a card",
        usable_bytes=GIB,
        bandwidth=None,
        source="test",
        vendor=vendor,
        compute_capability=capability,
    )
    with pytest.raises(BadInput, match="NVIDIA GPUs from Volta on, not for a card"):
        PLANNER.carve(msgspec.structs.replace(load("Qwen__Qwen3-8B"), gpu=gpu))


def test_metrics_are_read_and_absent_ones_are_absent() -> None:
    page = """
lmdeploy:num_requests_running{engine="0",model_name="m"} 3
lmdeploy:num_requests_running{engine="1",model_name="m"} 4
lmdeploy:num_requests_waiting{engine="0",model_name="m"} 2
lmdeploy:gpu_cache_usage_perc{engine="0",model_name="m"} 0.25
lmdeploy:gpu_cache_usage_perc{engine="1",model_name="m"} 0.75
lmdeploy:prompt_tokens_total{engine="0",model_name="m"} 1000
lmdeploy:cached_tokens_total{engine="0",model_name="m"} 400
"""
    assert engines.metric_map("lmdeploy").read({"/metrics": page}) == {
        "running": 7,
        "waiting": 2,
        "kv_used_ratio": 0.75,
        "prompt_tokens_total": 1000,
        "prefix_hits_tokens_total": 400,
        "prefix_queries_tokens_total": 1000,
    }
    old = 'lmdeploy:gpu_cache_usage_perc{engine="0",model_name="m"} 0.0\n'
    assert engines.metric_map("lmdeploy").read({"/metrics": old}) == {"kv_used_ratio": 0}


def test_it_says_that_its_tokenizer_works_one_way() -> None:
    with pytest.raises(BadInput, match=r"LMDeploy turns text into token ids .* but not back"):
        engines.token_api("lmdeploy")
