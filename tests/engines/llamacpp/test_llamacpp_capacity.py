"""llama.cpp's caches against sizes that its own loader printed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import engines
from kvlab.core.engine import Carved, Deployment
from kvlab.core.errors import BadInput
from kvlab.core.layout import Layout, Row, RowKind, State
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.core.units import GIB, MIB

GOLDEN = Path(__file__).parents[2] / "golden" / "llamacpp"
ROWS = list(csv.DictReader((GOLDEN / "published.csv").read_text().splitlines()))


def row(kind: RowKind, layers: int, heads: int, dim: int, window: int | None = None) -> Row:
    return Row(kind=kind, layers=tuple(range(layers)), heads=heads, k_dim=dim, v_dim=dim, window=window)


SHAPES = {
    "llama-3.1-8b": Layout((row("full", 32, 8, 128),)),
    "qwen3-8b": Layout((row("full", 36, 8, 128),)),
    "gemma-3-12b": Layout((row("full", 8, 8, 256), row("window", 40, 8, 256, 1024))),
    "gemma-3-270m": Layout((row("full", 3, 1, 256), row("window", 15, 1, 256, 512))),
    "deepseek-v2-lite": Layout((Row(kind="latent", layers=tuple(range(27)), heads=1, k_dim=576, v_dim=0),)),
}
MODEL = Model(name="shape", model_type="any", context=131072, layers=1, weight_format="gguf")


def carve(layout: Layout, ask: Ask) -> Carved:
    deployment = Deployment(model=MODEL, layout=layout, ask=ask, gpu=None, pool_bytes=None)
    return engines.planner("llamacpp").carve(deployment)


def expected(carved: Carved, name: str) -> float:
    value = next(item.value for item in carved.expects if item.name == name)
    assert not isinstance(value, str)
    return value


@pytest.mark.parametrize("published", ROWS, ids=lambda row: "-".join(row.values()))
def test_sizes_are_those_the_loader_printed(published: dict[str, str]) -> None:
    carved = carve(
        SHAPES[published["model"]],
        Ask(
            engine="llamacpp",
            context=int(published["context"]),
            parallel=int(published["slots"]),
            kv_unified=published["unified"] == "yes",
            swa_full=published["swa_full"] == "yes",
            kv_dtype_k=published["key"],
            kv_dtype_v=published["value"],
        ),
    )
    assert f"{expected(carved, 'kv_full_bytes') / MIB:.2f}" == published["full_mib"]
    if published["window_mib"]:
        assert f"{expected(carved, 'kv_window_bytes') / MIB:.2f}" == published["window_mib"]
        assert expected(carved, "kv_window_cells") == int(published["window_cells"])


def test_a_split_context_can_grow() -> None:
    # llama-server -c 10000 -np 3 logs n_ctx = 10752 and 3584 a slot, and calls it "rounding down"
    carved = carve(SHAPES["llama-3.1-8b"], Ask(engine="llamacpp", context=10000, parallel=3))
    assert expected(carved, "n_ctx") == 10752
    assert expected(carved, "n_ctx_seq") == 3584


def test_recurrent_state_is_f32_per_slot() -> None:
    # Mamba-130m: "R (f32): 0.42 MiB, S (f32): 2.25 MiB" for one slot, 10.69 MiB for four
    state = (State("conv", 3 * 1536), State("ssm", 16 * 1536))
    mamba = Layout((Row(kind="state", layers=tuple(range(24)), state=state),))
    one = carve(mamba, Ask(engine="llamacpp", context=2048, parallel=1))
    four = carve(mamba, Ask(engine="llamacpp", context=2048, parallel=4))
    assert f"{expected(one, 'kv_state_bytes') / MIB:.2f}" == "2.67"
    assert f"{expected(four, 'kv_state_bytes') / MIB:.2f}" == "10.69"


def test_a_latent_cache_refuses_two_types() -> None:
    # the loader: "model does not support different K (q8_0) and V (f16) cache types"
    with pytest.raises(BadInput, match="different cache types"):
        carve(SHAPES["deepseek-v2-lite"], Ask(engine="llamacpp", context=1024, kv_dtype_k="q8_0", kv_dtype_v="f16"))


def test_an_unknown_type_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="q8_0"):
        carve(SHAPES["qwen3-8b"], Ask(engine="llamacpp", context=1024, kv_dtype="q8"))


@given(
    pool=st.floats(min_value=0.01, max_value=8),
    context=st.integers(min_value=1, max_value=8192),
    dtype=st.sampled_from(["f16", "q8_0", "q4_0"]),
)
def test_a_pool_is_filled_and_not_exceeded(pool: float, context: int, dtype: str) -> None:
    layout = SHAPES["gemma-3-270m"]
    ask = Ask(engine="llamacpp", pool_gib=pool, context=context, kv_dtype=dtype)
    alone = carve(layout, Ask(engine="llamacpp", context=context, parallel=1, kv_dtype=dtype)).capacity
    assert alone is not None
    if alone.pool_bytes > round(pool * GIB):
        with pytest.raises(BadInput, match="does not hold one request"):
            carve(layout, ask)
        return
    carved = carve(layout, ask)
    assert carved.capacity is not None
    slots = expected(carved, "slots")
    one = carved.kv.bytes_per_sequence
    assert one is not None
    assert carved.capacity.pool_bytes == slots * one <= pool * GIB
    assert slots == 256 or (slots + 1) * one > pool * GIB


@given(context=st.integers(min_value=1, max_value=100_000), slots=st.integers(min_value=1, max_value=64))
def test_more_context_never_costs_less(context: int, slots: int) -> None:
    layout = SHAPES["gemma-3-12b"]
    small = carve(layout, Ask(engine="llamacpp", context=context, parallel=slots))
    large = carve(layout, Ask(engine="llamacpp", context=context + 256 * slots, parallel=slots))
    assert small.capacity is not None
    assert large.capacity is not None
    assert 0 < small.capacity.pool_bytes < large.capacity.pool_bytes


def test_heads_that_fill_no_whole_block_are_refused() -> None:
    # the loader: "K cache type q8_0 with block size 32 does not divide n_embd_head_k=80"
    with pytest.raises(BadInput, match="of 80 values"):
        carve(Layout((row("full", 32, 32, 80),)), Ask(engine="llamacpp", context=1024, kv_dtype="q8_0"))


def test_quantised_values_need_flash_attention() -> None:
    # the loader: "quantized V cache requires flash_attn to be enabled"; K q8_0 with V f16: 3136.00 MiB
    off = (("flash-attn", "off"),)
    with pytest.raises(BadInput, match="with flash attention only"):
        carve(SHAPES["llama-3.1-8b"], Ask(engine="llamacpp", context=32768, kv_dtype="q8_0", engine_args=off))
    ask = Ask(engine="llamacpp", context=32768, parallel=1, kv_dtype_k="q8_0", kv_dtype_v="f16", engine_args=off)
    assert expected(carve(SHAPES["llama-3.1-8b"], ask), "kv_full_bytes") / MIB == 3136


def test_a_smaller_batch_shrinks_the_window() -> None:
    small = Ask(engine="llamacpp", context=8192, parallel=1, engine_args=(("batch-size", "128"),))
    assert expected(carve(SHAPES["gemma-3-270m"], small), "kv_window_cells") == 768
    with pytest.raises(BadInput, match="batch-size"):
        carve(SHAPES["gemma-3-270m"], Ask(engine="llamacpp", context=8192, engine_args=(("batch-size", "x"),)))


def test_without_flash_attention_values_are_as_wide_as_the_widest() -> None:
    # llama-server b11434 -fa off -c 8192 -np 1, Gemma 4 26B: "K (f16):   80.00 MiB, V (f16):  160.00 MiB" (full)
    # and "K (f16):  150.00 MiB, V (f16):  150.00 MiB" (window)
    layout = Layout((row("full", 5, 2, 512), row("window", 25, 8, 256, 1024)))
    carved = carve(layout, Ask(engine="llamacpp", context=8192, parallel=1, engine_args=(("flash-attn", "off"),)))
    names = ("kv_full_k_bytes", "kv_full_v_bytes", "kv_window_k_bytes", "kv_window_v_bytes")
    assert [expected(carved, name) / MIB for name in names] == [80, 160, 150, 150]
