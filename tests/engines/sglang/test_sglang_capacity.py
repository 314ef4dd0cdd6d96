"""SGLang's pools against what public logs printed, and against its own published rules."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvlab import engines
from kvlab.core.engine import Carved, Deployment, Gpu
from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask

GIB = 2**30
Carve = Callable[..., Carved]
Gpus = Callable[..., Gpu]
GOLDEN = Path(__file__).parents[2] / "golden" / "sglang"
SHARES = list(csv.DictReader((GOLDEN / "shares.csv").read_text().splitlines()))
H100 = "Qwen__Qwen3-8B.json"


def stated(carved: Carved, name: str) -> object:
    return next((row.value for row in carved.expects if row.name == name), None)


def expected(carved: Carved, name: str) -> float:
    found = next((row.value for row in carved.expects if row.name == name), None)
    assert isinstance(found, float | int), f"{name} is not expected"
    return found


def asked(row: dict[str, Any], *more: tuple[str, str]) -> Ask:
    arguments = (*row.get("args", {}).items(), *more)
    return Ask(
        engine="sglang",
        engine_version=row.get("version"),
        tp=row.get("tp", 1),
        kv_dtype=row.get("dtype"),
        block_size=row.get("block_size"),
        engine_args=tuple(arguments),
    )


def card(row: dict[str, Any], gpu: Gpus) -> Gpu:
    return gpu(tuple(row.get("capability", (9, 0))))


def test_sizes_are_those_the_logs_printed(receipts: list[dict[str, Any]], carve: Carve, gpu: Gpus) -> None:
    """Tokens as logged: keys, values, latents and states to the printed digit."""
    for row in receipts:
        limits = [("max-total-tokens", str(row["tokens"]))]
        if "slots" in row:
            limits.append(("max-mamba-cache-size", str(row["slots"])))
        carved = carve(row["config"], asked(row, *limits), 400 * GIB, card(row, gpu), row.get("overrides"))
        assert expected(carved, "kv_tokens") == row["tokens"], row["id"]
        names = {"k_gib": "kv_k_bytes", "v_gib": "kv_v_bytes", "kv_gib": "kv_bytes"}
        for key, name in {**names, "conv_gib": "kv_conv_bytes", "ssm_gib": "kv_ssm_bytes"}.items():
            if key in row:
                assert f"{expected(carved, name) / GIB:.2f}" == f"{row[key]:.2f}", (row["id"], name)
        if "window_tokens" in row:
            assert expected(carved, "kv_window_tokens") == row["window_tokens"], row["id"]
            assert expected(carved, "kv_bytes") / GIB == pytest.approx(row["both_gib"], abs=0.02)


def test_tokens_follow_from_the_printed_size(receipts: list[dict[str, Any]], carve: Carve, gpu: Gpus) -> None:
    """The printed sizes as the pool: tokens within the rounding of two decimals."""
    for row in receipts:
        size = sum(row.get(key, 0) for key in ("k_gib", "v_gib", "kv_gib", "both_gib"))
        states = ((row["conv_gib"] + row["ssm_gib"]) * GIB) if "slots" in row else 0
        slots = (("max-mamba-cache-size", str(row["slots"])),) if "slots" in row else ()
        carved = carve(
            row["config"], asked(row, *slots), round(size * GIB + states), card(row, gpu), row.get("overrides")
        )
        capacity = carved.capacity
        assert capacity is not None
        printed = 0.02 / size if not states else 0.03 / size
        assert capacity.tokens == pytest.approx(row["tokens"], rel=max(printed, 0.005)), row["id"]


def test_one_pool_gives_both_the_slots_and_the_tokens(receipts: list[dict[str, Any]], carve: Carve, gpu: Gpus) -> None:
    """Hybrids: what was allocated in all, split anew, gives the logged slots and the logged tokens, both exactly."""
    split = [row for row in receipts if row.get("split")]
    assert len(split) == 3
    for row in split:
        limits = (("max-mamba-cache-size", str(row["slots"])), ("max-total-tokens", str(row["tokens"])))
        said = carve(row["config"], asked(row, *limits), 400 * GIB, card(row, gpu), row.get("overrides"))
        slot = (expected(said, "kv_conv_bytes") + expected(said, "kv_ssm_bytes")) / (row["slots"] + 1)
        spare = 0 if row.get("version") == "0.5.10" else 1  # 0.5.17 and later pay for the spare slot too
        allocated = round(row["tokens"] * said.kv.bytes_per_token + (row["slots"] + spare) * slot)
        found = carve(row["config"], asked(row), allocated, card(row, gpu), row.get("overrides"))
        assert (expected(found, "kv_state_slots"), expected(found, "kv_tokens")) == (row["slots"], row["tokens"])
        if "running" in row:
            assert expected(found, "max_running_requests") == row["running"], row["id"]


def test_qwq_is_planned_from_what_was_free(carve: Carve, gpu: Gpus) -> None:
    """QwQ-32B on four L4: 21.63 GiB free before, 6.09 after loading, a share of 0.85; 46,611 tokens, 2,049 requests."""
    pool = round((6.09 - 21.63 * (1 - 0.85)) * GIB)
    ask = Ask(engine="sglang", engine_version="0.4.3", tp=4)
    carved = carve("Qwen__Qwen2.5-32B.json", ask, pool, gpu((8, 9), 22.06))
    assert carved.capacity is not None
    assert carved.capacity.tokens == pytest.approx(46611, rel=0.003)  # the free memory is printed with two decimals
    assert expected(carved, "max_running_requests") == 2049
    assert expected(carved, "context_len") == 131072


@pytest.mark.parametrize("row", SHARES, ids=lambda row: "-".join(row.values()))
def test_default_shares_by_release_and_card(row: dict[str, str], deploy: Callable[..., Deployment]) -> None:
    from kvlab.facts import gpus

    arguments = () if row["prefill_graphs"] == "yes" else (("disable-prefill-cuda-graph", "true"),)
    ask = Ask(engine="sglang", engine_version=row["version"], tp=int(row["tp"]), engine_args=arguments)
    share = engines.planner("sglang").default_share
    assert share is not None
    assert share(deploy(H100, ask, gpu=gpus.find(row["gpu"]))) == pytest.approx(float(row["share"]), abs=5e-4)


@pytest.mark.parametrize(
    ("config", "factor"),
    [
        # arg_groups/memory_hook.py of 0.5.23: 0.95, less a tenth for each ViT-L/14 beyond the first, from 0.8 to 1.05
        ("moonshotai__Kimi-K2.5.json", 0.95),  # names neither layers nor width: taken for 24 layers of 1,024
        ("Qwen__Qwen2-VL-7B-Instruct.json", 0.95 * 0.8),  # 3,584 wide
        ("Qwen__Qwen3-VL-2B-Instruct.json", 0.95),
        ("google__gemma-3-27b-it.json", 0.95 * (1 - 0.1 * (27 * 1152**2 / (24 * 1024**2) - 1))),
    ],
)
def test_vision_towers_lower_the_default(
    deploy: Callable[..., Deployment], gpu: Gpus, config: str, factor: float
) -> None:
    share = engines.planner("sglang").default_share
    assert share is not None
    ask = Ask(engine="sglang", tp=1, max_num_batched_tokens=8192, engine_args=(("disable-cuda-graph", "true"),))
    alone, seeing = share(deploy(H100, ask, gpu=gpu())), share(deploy(config, ask, gpu=gpu()))
    assert alone is not None
    assert seeing == pytest.approx(alone * factor)


def test_a_share_that_is_asked_for_counts(deploy: Callable[..., Deployment], gpu: Gpus) -> None:
    share = engines.planner("sglang").default_share
    assert share is not None
    ask = Ask(engine="sglang", tp=1, engine_args=(("mem-fraction-static", "0.7"),))
    assert share(deploy(H100, ask, gpu=gpu())) == 0.7
    assert share(deploy(H100, Ask(engine="sglang", tp=1))) is None
    with pytest.raises(BadInput, match="must be above 0 and at most 1"):
        share(deploy(H100, Ask(engine="sglang", tp=1, engine_args=(("mem-fraction-static", "70"),)), gpu=gpu()))


def test_the_log_names_the_format_in_torchs_words(carve: Carve, gpu: Gpus) -> None:
    """ "Using KV cache dtype: torch.float8_e4m3fn"; releases before 0.5.3 do not say."""
    fp8 = Ask(engine="sglang", tp=1, kv_dtype="fp8_e4m3")
    assert stated(carve(H100, fp8, GIB, gpu()), "kv_cache_dtype") == "float8_e4m3fn"
    assert stated(carve(H100, Ask(engine="sglang", tp=1), GIB, gpu()), "kv_cache_dtype") == "bfloat16"
    old = Ask(engine="sglang", tp=1, engine_version="0.4.6", kv_dtype="fp8_e4m3")
    assert stated(carve(H100, old, GIB, gpu()), "kv_cache_dtype") is None


def test_cards_older_than_turing_are_not_offered(gpu: Gpus) -> None:
    """ "SGLang only supports sm75 and above." """
    runs_on = engines.planner("sglang").runs_on
    assert runs_on is not None
    assert runs_on(gpu((7, 5)), Ask(engine="sglang"))
    assert not runs_on(gpu((7, 0)), Ask(engine="sglang"))


@pytest.mark.parametrize(
    ("dtype", "version", "token_bytes"),
    [(None, "0.5.23", 147456), ("fp8_e4m3", "0.4.6", 73728), ("mxfp8", "0.5.23", 76032), ("nvfp4", "0.5.23", 41472)],
)
def test_published_bytes_per_token(carve: Carve, dtype: str | None, version: str, token_bytes: int) -> None:
    """Qwen3-8B, 36 layers of 8 x 128."""
    carved = carve(H100, Ask(engine="sglang", engine_version=version, tp=1, kv_dtype=dtype))
    assert carved.kv.bytes_per_token == token_bytes


def test_gemma_4_is_split_as_its_log_says(carve: Carve, gpu: Gpus) -> None:
    """A public issue: 5 full layers of 4,096 bytes, 25 windowed of 8,192, cells of 184,320 at a ratio of 0.8."""
    ask = Ask(engine="sglang", engine_version="0.5.13", tp=1)
    carved = carve("google__gemma-4-26B-A4B.json", ask, 184320 * 1000, gpu())
    assert carved.kv.bytes_per_token == 5 * 4096 + 25 * 8192
    assert (expected(carved, "kv_tokens"), expected(carved, "kv_window_tokens")) == (1000, 800)


def test_windows_keep_every_token_where_sglang_has_no_pool_for_them(carve: Carve, gpu: Gpus) -> None:
    """Gemma 3 is not among the architectures with a window pool: arg_groups/model_overrides/gemma2_gemma3.py."""
    carved = carve("google__gemma-3-27b-it.json", Ask(engine="sglang", tp=1), 20 * GIB, gpu())
    assert not [row for row in carved.expects if row.name == "kv_window_tokens"]
    assert any(doubt.key == "sliding_window" for doubt in carved.doubts)
    assert carved.kv.bytes_per_token == 62 * 16 * 128 * 2 * 2


def test_sparse_attention_stores_fp8_with_scales_where_its_kernels_read_them(carve: Carve, gpu: Gpus) -> None:
    """656 bytes a layer on Hopper, bare 576 under TensorRT-LLM's kernels on Blackwell, where fp8 is the default."""
    config, layers = "deepseek-ai__DeepSeek-V3.2.json", 61
    ask = Ask(engine="sglang", tp=8)
    assert carve(config, ask, gpu=gpu((9, 0))).kv.bytes_per_token == layers * (1152 + 132)
    assert carve(config, ask, gpu=gpu((10, 0))).kv.bytes_per_token == layers * (576 + 132)
    fp8 = Ask(engine="sglang", tp=8, kv_dtype="fp8_e4m3")
    carved = carve(config, fp8, GIB, gpu((9, 0)))
    assert carved.kv.bytes_per_token == layers * (656 + 132)
    assert carved.capacity is not None
    assert carved.capacity.block_size == 64


def test_latents_are_copied_to_every_rank_and_scarce_heads_too(carve: Carve) -> None:
    ask = Ask(engine="sglang", tp=8)
    assert carve("deepseek-ai__DeepSeek-V3.json", ask).kv.bytes_per_token == 61 * 576 * 2
    assert carve("Qwen__Qwen3-235B-A22B.json", ask).kv.bytes_per_token == 94 * 1 * 2 * 128 * 2  # 4 heads, 8 ranks


def test_dp_attention_gives_each_group_all_heads(carve: Carve) -> None:
    """Groups of two ranks out of eight hold two heads each, as --tp 2 does."""
    arguments = (("enable-dp-attention", "true"), ("dp-size", "4"))
    grouped = carve("Qwen__Qwen3-235B-A22B.json", Ask(engine="sglang", tp=8, engine_args=arguments))
    plain = carve("Qwen__Qwen3-235B-A22B.json", Ask(engine="sglang", tp=2))
    assert grouped.kv.bytes_per_token == plain.kv.bytes_per_token
    assert any(doubt.key == "enable-dp-attention" for doubt in grouped.doubts)


def test_pipeline_stages_hold_their_layers(carve: Carve, gpu: Gpus) -> None:
    """94 layers on 4 stages are 23, 23, 24 and 24: the largest decides."""
    carved = carve("Qwen__Qwen3-235B-A22B.json", Ask(engine="sglang", tp=1, pp=4), GIB, gpu())
    assert carved.kv.bytes_per_token == 24 * 4 * 2 * 128 * 2
    assert carved.capacity is not None
    assert carved.capacity.tokens == GIB // (24 * 4 * 2 * 128 * 2)


def test_draft_layers_take_a_part_of_the_pool(carve: Carve, gpu: Gpus) -> None:
    """DeepSeek V3 has one draft layer to 61: it keeps as many tokens, so the pool holds 61 / 62 of them."""
    config, drafting = "deepseek-ai__DeepSeek-V3.json", (("speculative-algorithm", "EAGLE"),)
    alone = carve(config, Ask(engine="sglang", tp=8), 10 * GIB, gpu()).capacity
    carved = carve(config, Ask(engine="sglang", tp=8, engine_args=drafting), 10 * GIB, gpu())
    assert alone is not None
    assert carved.capacity is not None
    assert carved.capacity.tokens == pytest.approx(alone.tokens * 61 / 62, abs=1)
    assert expected(carved, "draft_kv_bytes") == pytest.approx(10 * GIB / 62, rel=1e-4)
    assert expected(carved, "max_running_requests") == 48
    old = carve(config, Ask(engine="sglang", engine_version="0.5.6", tp=8, engine_args=drafting), 10 * GIB, gpu())
    assert any(doubt.key == "speculative-algorithm" for doubt in old.doubts)


def test_slots_of_a_request_by_release(carve: Carve, gpu: Gpus) -> None:
    """DGX Spark log: 360 slots serve 72 requests, five each; without prefix cache one each (48 and 48)."""
    ask = Ask(engine="sglang", tp=1, max_num_seqs=72, engine_args=(("max-mamba-cache-size", "360"),))
    assert expected(carve("Qwen__Qwen3.5-27B.json", ask, 90 * GIB, gpu()), "max_running_requests") == 72
    more = Ask(engine="sglang", tp=1, max_num_seqs=99, engine_args=(("max-mamba-cache-size", "360"),))
    carved = carve("Qwen__Qwen3.5-27B.json", more, 90 * GIB, gpu())
    assert expected(carved, "max_running_requests") == 72
    assert any("lowers 99 to 72" in doubt.text for doubt in carved.doubts)
    alone = Ask(engine="sglang", tp=1, max_num_seqs=48, prefix_caching=False)
    carved = carve("Qwen__Qwen3.5-27B.json", alone, 90 * GIB, gpu())
    assert (expected(carved, "kv_state_slots"), expected(carved, "max_running_requests")) == (48, 48)


@pytest.mark.parametrize(
    ("config", "ask", "words"),
    [
        (H100, Ask(engine="sglang", kv_dtype="fp8"), "no --kv-cache-dtype 'fp8'"),
        (H100, Ask(engine="sglang", engine_version="0.4.6", kv_dtype="nvfp4"), "known: auto, fp8_e5m2, fp8_e4m3"),
        (H100, Ask(engine="sglang", engine_version="0.3.6"), "from 0.4.0 on"),
        (H100, Ask(engine="sglang", context=10**6), "above the model's 40,960 tokens"),
        (H100, Ask(engine="sglang", tp=3), "cannot split 32 attention heads"),
        (H100, Ask(engine="sglang", engine_args=(("page-size", "64"),)), "use --block-size instead"),
        (H100, Ask(engine="sglang", engine_args=(("port", "1"),)), "kvlab chooses the address"),
        (H100, Ask(engine="sglang", engine_args=(("max-total-tokens", "many"),)), "must be a whole number"),
        (H100, Ask(engine="sglang", engine_args=(("enable-dp-attention", "true"),)), "dp-size=N"),
        ("deepseek-ai__DeepSeek-V4-Flash.json", Ask(engine="sglang"), "pooled caches of deepseek_v4"),
        ("deepseek-ai__DeepSeek-V3.2.json", Ask(engine="sglang", kv_dtype="fp8_e5m2"), "bfloat16 or fp8_e4m3"),
        ("MiniMaxAI__MiniMax-M3.json", Ask(engine="sglang"), "block-sparse attention"),
        (
            "Qwen__Qwen3.5-27B.json",
            Ask(engine="sglang", engine_args=(("mamba-ssm-dtype", "int8"),)),
            "float32, float16",
        ),
    ],
)
def test_what_is_refused_is_refused_by_name(carve: Carve, config: str, ask: Ask, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        carve(config, ask)


def test_recurrent_state_of_old_releases_is_a_doubt_not_a_guess(carve: Carve, gpu: Gpus) -> None:
    ask = Ask(engine="sglang", engine_version="0.5.4", tp=1)
    carved = carve("Qwen__Qwen3-Next-80B-A3B-Instruct.json", ask, 40 * GIB, gpu())
    assert carved.capacity is None
    assert any("before 0.5.8" in doubt.text for doubt in carved.doubts)
