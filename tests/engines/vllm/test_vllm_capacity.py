from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import engines
from kvlab.core import check
from kvlab.core.engine import Carved, Deployment, Gpu
from kvlab.core.errors import BadInput, MissingFact
from kvlab.core.layout import Layout, Row, State
from kvlab.core.model import Model
from kvlab.core.plan import Ask, Capacity
from kvlab.core.units import GIB

H100 = Gpu(
    name="h100-80gb", title="H100", usable_bytes=79 * GIB, bandwidth=None, compute_capability=(9, 0), source="test"
)
CPU = Gpu(name="cpu", title="this machine", usable_bytes=16 * GIB, bandwidth=None, source="test")


def full(layers: int, heads: int, dim: int) -> Layout:
    return Layout((Row(kind="full", layers=tuple(range(layers)), heads=heads, k_dim=dim, v_dim=dim),))


def model(layers: int, heads: int | None = 32, context: int | None = 131072) -> Model:
    return Model(name="m", model_type="llama", dtype="bfloat16", context=context, layers=layers, heads=heads)


# Gemma-3-12B: every sixth of 48 layers is full, the others keep 1,024 tokens.
GEMMA = Layout(
    (
        Row(
            kind="window",
            layers=tuple(layer for layer in range(48) if layer % 6 != 5),
            heads=8,
            k_dim=256,
            v_dim=256,
            window=1024,
        ),
        Row(kind="full", layers=tuple(range(5, 48, 6)), heads=8, k_dim=256, v_dim=256),
    )
)


def carve(layout: Layout, ask: Ask, pool: float | None = None, gpu: Gpu | None = H100) -> Carved:
    known = model(max(layer for row in layout.rows for layer in row.layers) + 1)
    pool_bytes = None if pool is None else round(pool * GIB)
    return engines.planner("vllm").carve(
        Deployment(model=known, layout=layout, ask=ask, gpu=gpu, pool_bytes=pool_bytes)
    )


def capacity(layout: Layout, ask: Ask, pool: float, gpu: Gpu | None = H100) -> Capacity:
    found = carve(layout, ask, pool, gpu).capacity
    assert found is not None
    return found


def ask(**said: Any) -> Ask:
    return Ask(**{"context": 131072, "max_num_batched_tokens": 8192, **said})


QWEN = full(36, 8, 128)  # Qwen3-8B
STATES = Layout((*QWEN.rows, Row(kind="state", layers=(36,), state=(State("ssm", 524_288),))))


@pytest.mark.parametrize(
    ("dtype", "blocks", "tokens", "concurrency"),
    [
        ("auto", 18_204, 291_264, 7.11),
        ("fp8", 36_408, 582_528, 14.22),
        ("fp8_per_token_head", 35_305, 564_880, 13.79),
        ("nvfp4", 64_726, 1_035_616, 25.28),
        ("turboquant_4bit_nc", 13_239, 847_296, 20.69),
    ],
)
def test_cache_dtypes_as_vllm_0_32_sizes_them(dtype: str, blocks: int, tokens: int, concurrency: float) -> None:
    """Numbers of vLLM 0.32.0's planning functions for Qwen3-8B in 40 GiB at 40,960 tokens."""
    found = capacity(QWEN, ask(kv_dtype=dtype, context=40960), 40)
    assert (found.num_blocks, found.tokens) == (blocks, tokens)
    assert f"{found.max_concurrency:.2f}" == f"{concurrency:.2f}"


@pytest.mark.parametrize(
    ("said", "pool", "blocks", "tokens", "concurrency"),
    [
        ({}, 40, 40_960, 393_686, "3.00"),
        ({"engine_args": (("async-scheduling", "false"),)}, 40, 40_960, 484_671, "3.70"),
        ({"engine_version": "0.25.1"}, 40, 40_960, 484_671, "3.70"),
        ({"max_num_batched_tokens": 2048}, 40, 40_960, 547_995, "4.18"),
        ({"context": 8192}, 40, 40_960, 109_049, "13.31"),
        ({"engine_args": (("disable-hybrid-kv-cache-manager", "true"),)}, 60, 10_240, 163_840, "1.25"),
        ({"engine_args": (("num-gpu-blocks-override", "20000"),)}, 40, 20_000, 192_229, "1.47"),
    ],
)
def test_windows_in_groups_as_vllm_0_32_makes_them(
    said: dict[str, Any], pool: int, blocks: int, tokens: int, concurrency: str
) -> None:
    """Numbers of vLLM 0.32.0's planning functions for Gemma-3-12B at 131,072 tokens."""
    found = capacity(GEMMA, ask(**said), pool)
    assert (found.num_blocks, found.tokens, f"{found.max_concurrency:.2f}") == (blocks, tokens, concurrency)


def test_the_hybrid_manager_off_is_refused_with_vllms_estimate() -> None:
    """vLLM 0.32.0: 48.0 GiB needed of 39.99, estimated maximum length 109,200."""
    carved = carve(GEMMA, ask(engine_args=(("disable-hybrid-kv-cache-manager", "true"),)), 40)
    assert carved.kv.bytes_per_sequence == 48 * GIB
    expected = {row.name: row.value for row in carved.expects}
    assert expected["longest_request_tokens"] == 109_200
    assert expected["request_bytes"] == 48 * GIB


def test_numbers_of_public_deployments() -> None:
    # cache_config_info of vLLM 0.29.0, Llama-3.1-8B on an H100 NVL: 33,900 blocks, 542,400 tokens, 66.2109375.
    llama = full(32, 8, 128)
    found = capacity(llama, ask(context=8192, engine_version="0.29.0"), 66.2109375)
    assert (found.num_blocks, found.tokens, found.max_concurrency) == (33_900, 542_400, 66.2109375)
    # V0, https://github.com/vllm-project/vllm/issues/10517: 1,952 blocks of 2 MiB, 20,000 tokens: 1.56x.
    found = capacity(llama, ask(context=20000, engine_version="0.6.4"), 1952 / 512)
    assert (found.num_blocks, found.tokens, f"{found.max_concurrency:.2f}") == (1952, 31_232, "1.56")


def test_a_block_more_is_needed_than_one_request_fills() -> None:
    """The null block: a 40.00 GiB request is refused in 40.00 GiB since 0.30 ("(39.99/39.96 GiB)"), not before."""
    layout, said = full(80, 8, 128), ask(context=131072)
    assert carve(layout, said).kv.bytes_per_sequence == 40 * GIB
    assert capacity(layout, said, 40).longest_request_tokens == 131072 - 16
    assert capacity(layout, ask(engine_version="0.29.0"), 40).longest_request_tokens == 131072


def test_tokens_before_0_20_count_blocks() -> None:
    """https://github.com/vllm-project/vllm/issues/43308: hybrids printed blocks // groups x block size until 0.20."""
    older = capacity(GEMMA, ask(engine_version="0.19.1"), 40)
    assert older.tokens == 40_960 // 6 * 16
    assert older.max_concurrency == capacity(GEMMA, ask(engine_version="0.20.0"), 40).max_concurrency


def test_the_scheduler_default_follows_the_gpus_memory() -> None:
    """8,192 tokens a batch from 70 GiB (not on an A100), 16,384 from 160 GiB, 2,048 below."""

    def blocks(usable: int, name: str = "some") -> int | None:
        device = msgspec.structs.replace(H100, usable_bytes=usable * GIB, name=name)
        return carve(GEMMA, Ask(context=131072), 40, device).kv.bytes_per_sequence

    one_block = 1024 * 1024  # 8 layers of 16 tokens of 8 KiB
    assert blocks(79) == (8192 + 5 * 1089) * one_block
    assert blocks(24) == blocks(79, "a100-80gb") == (8192 + 5 * 321) * one_block
    assert blocks(178) == (8192 + 5 * 2113) * one_block


def test_a_cpu_has_blocks_of_128_and_schedules_in_step() -> None:
    """vLLM 0.32.0 on a CPU, 40 GiB: 5,120 blocks, 483,145 tokens, 3.69x at 8,192 tokens a batch."""
    found = capacity(GEMMA, ask(), 40, CPU)
    assert (found.block_size, found.num_blocks, found.tokens) == (128, 5_120, 483_145)


@pytest.mark.parametrize(
    ("layout", "said", "words"),
    [
        (QWEN, {"kv_dtype": "q8_0"}, ["no --kv-cache-dtype 'q8_0'", "known: auto, fp8", "19 words"]),
        (QWEN, {"kv_dtype": "int4_per_token_head", "engine_version": "0.20.2"}, ["0.20.2", "int8_per_token_head"]),
        (QWEN, {"context": 262144}, ["262,144", "131,072", "VLLM_ALLOW_LONG_MAX_MODEL_LEN"]),
        (QWEN, {"tp": 3}, ["32 attention heads", "--tp 3", "1, 2, 4, 8"]),
        (full(40, 10, 128), {"tp": 4}, ["10 KV heads", "--tp 4"]),
        (GEMMA, {"tp": 16, "dcp": 2}, ["--dcp", "sliding-window"]),
        (QWEN, {"tp": 8, "dcp": 2}, ["--dcp 2", "8 KV heads", "--tp 16"]),
        (QWEN, {"kv_dtype_k": "fp8"}, ["--kv-dtype"]),
        (QWEN, {"engine_version": "latest"}, ["'latest'", "0.32.0"]),
        (QWEN, {"engine_args": (("max-model-len", "4096"),)}, ["max-model-len=4096", "use --context"]),
        (QWEN, {"engine_args": (("max_model_len", "4096"),)}, ["max_model_len=4096", "use --context"]),
        (QWEN, {"engine_args": (("--seed", "1"),)}, ["without dashes", "seed=VALUE"]),
        (QWEN, {"engine_args": (("num-gpu-blocks-override", "many"),)}, ["num-gpu-blocks-override=many"]),
        (QWEN, {"engine_args": (("port", "9000"),)}, ["port=9000", "leave it out"]),
        (STATES, {"engine_args": (("mamba-ssm-cache-dtype", "int3"),)}, ["int3", "float32, float16 or bfloat16"]),
    ],
)
def test_what_vllm_refuses_is_refused_in_one_line(layout: Layout, said: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(BadInput) as refused:
        carve(layout, ask(**said), 40)
    assert all(word in str(refused.value) for word in words), refused.value
    assert "\n" not in str(refused.value)


def test_latent_attention_takes_only_what_its_kernels_take() -> None:
    layout = Layout((Row(kind="latent", layers=tuple(range(61)), heads=1, k_dim=576),))
    with pytest.raises(BadInput, match="auto, float16, bfloat16, fp8, fp8_e4m3"):
        carve(layout, ask(kv_dtype="int8_per_token_head"), 40)
    ampere = msgspec.structs.replace(H100, compute_capability=(8, 0))
    with pytest.raises(BadInput, match=r"compute capability 8\.0"):
        carve(layout, ask(kv_dtype="fp8"), 40, ampere)


def test_a_context_is_asked_for_when_the_config_has_none() -> None:
    deployment = Deployment(model=model(36, context=None), layout=QWEN, ask=Ask(), gpu=H100, pool_bytes=GIB)
    with pytest.raises(MissingFact, match="--context"):
        engines.planner("vllm").carve(deployment)


def test_longrope_models_are_served_at_their_first_length() -> None:
    stretched = msgspec.structs.replace(model(36), original_context=4096)
    for said, context in ((Ask(), 4096), (Ask(context=131072), 131072)):
        deployment = Deployment(model=stretched, layout=QWEN, ask=said, gpu=H100, pool_bytes=None)
        assert engines.planner("vllm").carve(deployment).context == context


def test_without_a_pool_a_request_still_has_a_cost() -> None:
    carved = carve(QWEN, ask(context=32768))
    assert carved.capacity is None
    assert (carved.kv.bytes_per_token, carved.kv.bytes_per_sequence) == (147_456, 147_456 * 32768)
    assert carved.expects == ()


def hybrid(model_type: str, said: Ask, pool: float | None, *rows: Row) -> Carved:
    known = Model(name="m", model_type=model_type, dtype="bfloat16", context=262144, layers=64)
    pool_bytes = None if pool is None else round(pool * GIB)
    return engines.planner("vllm").carve(
        Deployment(model=known, layout=Layout(rows), ask=said, gpu=H100, pool_bytes=pool_bytes)
    )


# Qwen3-Next-80B: 36 gated delta layers and 12 of attention; Qwen3.5-27B: 48 and 16, its matrix in float32.
NEXT = (
    Row(
        kind="state",
        layers=tuple(i for i in range(48) if i % 4 != 3),
        state=(State("conv", 24576), State("ssm", 524288)),
    ),
    Row(kind="full", layers=tuple(range(3, 48, 4)), heads=2, k_dim=256, v_dim=256),
)
QWEN_27B = (
    Row(
        kind="state",
        layers=tuple(i for i in range(64) if i % 4 != 3),
        state=(State("conv", 30720), State("ssm", 786432, "float32")),
    ),
    Row(kind="full", layers=tuple(range(3, 64, 4)), heads=4, k_dim=256, v_dim=256),
)


@pytest.mark.parametrize(
    ("said", "block", "blocks", "tokens", "concurrency"),
    [
        ({}, 544, 3_212, 1_725_423, "6.58"),
        ({"tp": 4}, 272, 12_850, 3_472_732, "13.25"),
        ({"prefix_caching": False}, 544, 3_212, 1_736_095, "6.62"),
        ({"kv_dtype": "fp8"}, 1072, 3_260, 3_404_738, "12.99"),
    ],
)
def test_recurrent_state_sets_the_block_size(
    said: dict[str, Any], block: int, blocks: int, tokens: int, concurrency: str
) -> None:
    """Numbers of vLLM 0.32.0's planning functions for Qwen3-Next-80B in 40 GiB at 262,144 tokens."""
    found = hybrid("qwen3_next", ask(context=262144, **said), 40, *NEXT).capacity
    assert found is not None
    assert (found.block_size, found.num_blocks, found.tokens) == (block, blocks, tokens)
    assert f"{found.max_concurrency:.2f}" == concurrency


def test_public_logs_of_hybrids() -> None:
    # Qwen3.8-27B-FP8, TP 2, fp8 cache: 4.99 GiB, blocks of 1,568, 302,921 tokens, 2.31x at 131,072.
    found = hybrid("qwen3_5", ask(tp=2, kv_dtype="fp8"), 4.99, *QWEN_27B).capacity
    assert found is not None
    assert (found.block_size, found.num_blocks, found.tokens) == (1568, 208, 302_921)
    assert f"{found.max_concurrency:.2f}" == "2.31"
    # https://github.com/vllm-project/vllm/issues/40691: 0.19.0, 32,768 tokens: 290,864 tokens and 33.04x.
    blocks = (("num-gpu-blocks-override", "1487"),)
    found = hybrid("qwen3_5", ask(context=32768, engine_version="0.19.0", engine_args=blocks), 50, *QWEN_27B).capacity
    assert found is not None
    assert (found.tokens, f"{found.max_concurrency:.2f}") == (290_864, "33.04")


def test_fewer_state_blocks_than_requests_is_said() -> None:
    """https://github.com/vllm-project/vllm/issues/49064: 1,024 requests by default, 969 blocks, no start."""
    blocks = (("num-gpu-blocks-override", "969"),)
    carved = hybrid("qwen3_5", ask(engine_args=blocks), 50, *QWEN_27B)
    assert [doubt.key for doubt in carved.doubts] == ["max-num-seqs"]
    assert "1,024" in carved.doubts[0].text
    assert "969" in carved.doubts[0].text
    assert hybrid("qwen3_5", ask(engine_args=blocks, max_num_seqs=256), 50, *QWEN_27B).doubts == ()


def test_paging_that_is_not_known_is_a_doubt_not_a_guess() -> None:
    old = ask(engine_version="0.19.1")
    alone = hybrid("mamba", old, 40, Row(kind="state", layers=(0, 1), state=(State("ssm", 524_288),)))
    assert (alone.capacity, alone.kv.bytes_per_sequence) == (None, None)
    assert [doubt.key for doubt in alone.doubts] == ["capacity"]
    quantised = carve(GEMMA, ask(kv_dtype="turboquant_4bit_nc"), 40)
    assert quantised.capacity is None
    assert "turboquant_4bit_nc" in quantised.doubts[0].text


def test_what_the_plan_rests_on_is_said() -> None:
    assert "max-num-batched-tokens" in {doubt.key for doubt in carve(GEMMA, Ask(context=8192), 40, None).doubts}
    assert carve(GEMMA, ask(), 40).doubts == ()
    latent = Layout((Row(kind="latent", layers=(0, 1), heads=1, k_dim=576),))
    assert "block-size" in {doubt.key for doubt in carve(latent, ask(), 40, None).doubts}
    spec = ask(engine_args=(("speculative-config", '{"method": "eagle3", "model": "some/draft"}'),))
    assert "speculative-config" in {doubt.key for doubt in carve(QWEN, spec, 40).doubts}


@given(st.integers(1, 200), st.integers(0, 50), st.sampled_from([1, 2, 4, 8]), st.integers(1, 131072))
def test_more_memory_never_holds_less(pool: int, more: int, tp: int, context: int) -> None:
    small = capacity(GEMMA, ask(tp=tp, context=context), pool / 8)
    large = capacity(GEMMA, ask(tp=tp, context=context), (pool + more) / 8)
    assert small.num_blocks <= large.num_blocks
    assert small.tokens <= large.tokens
    assert small.longest_request_tokens <= large.longest_request_tokens <= context


def test_the_log_of_a_real_server_agrees(golden: Path) -> None:
    """vLLM 0.32.0 on a CPU with Gemma-3-270m: the plan's numbers against the lines that the server printed."""
    layers = tuple(range(18))
    layout = Layout(
        (
            Row(
                kind="window",
                layers=tuple(layer for layer in layers if layer % 6 != 5),
                heads=1,
                k_dim=256,
                v_dim=256,
                window=512,
            ),
            Row(kind="full", layers=(5, 11, 17), heads=1, k_dim=256, v_dim=256),
        )
    )
    runs = {
        "0.32.0_cpu_auto.log": (Ask(context=2048, pool_gib=1), GIB),
        "0.32.0_cpu_fp8.log": (Ask(context=2048, pool_gib=1, kv_dtype="fp8"), GIB),
        "0.32.0_cpu_pool_too_small.log": (Ask(context=32768, pool_gib=20e6 / GIB), 20_000_000),
    }
    for name, (said, pool) in runs.items():
        deployment = Deployment(
            model=model(18, heads=4, context=32768), layout=layout, ask=said, gpu=CPU, pool_bytes=pool
        )
        seen = engines.log_reader("vllm").read((golden / "logs" / name).read_text().splitlines())
        agreed = set()
        for expected in engines.planner("vllm").carve(deployment).expects:
            row = check.row(expected, seen)
            assert row.verdict != "differs", (name, row)
            agreed |= {row.name} if row.verdict == "agrees" else set()
        fits = {"kv_pool_bytes", "kv_tokens", "max_concurrency"}
        fits |= {"kv_cache_dtype"} if "fp8" in name else set()  # the other logs were cut before it
        assert agreed == (fits if "small" not in name else {"kv_pool_bytes", "request_bytes", "longest_request_tokens"})


@pytest.mark.parametrize(
    ("asked", "said", "verdict"),
    [
        (None, "auto", "agrees"),
        (None, "fp8", "differs"),
        ("fp8", "fp8", "agrees"),
        ("fp8", "fp8_e4m3", "agrees"),
        ("fp8", "auto", "differs"),
        ("bfloat16", "bfloat16", "agrees"),
    ],
)
def test_the_cache_dtype_of_the_log_is_compared(asked: str | None, said: str, verdict: str) -> None:
    """The words are those that --kv-cache-dtype takes; vLLM's fp8 is its fp8_e4m3."""
    deployment = Deployment(
        model=model(2, heads=4, context=4096),
        layout=Layout((Row(kind="full", layers=(0, 1), heads=4, k_dim=128, v_dim=128),)),
        ask=Ask(kv_dtype=asked, pool_gib=1),
        gpu=None,
        pool_bytes=GIB,
    )
    line = f"Initializing a V1 LLM engine (v0.25.1) with config: enforce_eager=False, kv_cache_dtype={said}, seed=0"
    seen = engines.log_reader("vllm").read([line])
    rows = [check.row(row, seen) for row in engines.planner("vllm").carve(deployment).expects]
    assert [row.verdict for row in rows if row.name == "kv_cache_dtype"] == [verdict]
