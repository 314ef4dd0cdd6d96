"""Plans against published figures, and the requests that cannot be planned."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from kvlab import api
from kvlab.core.errors import BadInput, KvlabError, UnknownGpu
from kvlab.core.units import GIB
from kvlab.reporting import planned, terminal


def test_the_worked_example_of_a_24_gib_card(qwen: Path) -> None:
    # 24 GiB x 0.92 - 15.3 - 2.0 = 4.78 GiB: bf16 34,806 tokens and 1.06 requests of 32,768; fp8 69,613 and 2.12
    plan = api.plan(qwen, gpu_gib=24, util=0.92, weights_gib=15.3, overhead_gib=2.0, context=32768)
    assert [line.name for line in plan.ledger] == ["gpu_memory", "left_free", "weights", "overhead", "pool"]
    assert round(plan.ledger[-1].bytes / GIB, 2) == 4.78
    assert sum(line.bytes for line in plan.ledger[:-1]) == plan.ledger[-1].bytes
    assert plan.kv.bytes_per_token == 147_456
    assert plan.capacity is not None
    assert 34_806 - 16 < plan.capacity.tokens <= 34_806
    assert f"{plan.capacity.max_concurrency:.2f}" == "1.06"
    fp8 = next(other for other in plan.alternatives if other.kv_dtype == "fp8")
    assert fp8.tokens is not None
    assert 69_613 - 16 < fp8.tokens <= 69_613
    assert f"{fp8.max_concurrency:.2f}" == "2.12"
    assert plan.verdict.code == "fits"
    assert "holds the target context" in plan.verdict.text
    assert "fp8 buys concurrency" in plan.verdict.text


@pytest.mark.parametrize(
    ("tokens", "bf16", "fp8"),
    [(8192, 1.125, 0.5625), (32768, 4.5, 2.25), (131072, 18, 9), (262144, 36, 18), (1048576, 144, 72)],
)
def test_the_context_table_is_the_published_one(qwen: Path, tokens: int, bf16: float, fp8: float) -> None:
    table = {(line.kv_dtype, line.context): line.bytes_per_sequence for line in api.plan(qwen).contexts}
    assert table["bfloat16", tokens] == bf16 * GIB
    assert table["fp8", tokens] == fp8 * GIB


@pytest.mark.parametrize(
    ("layers", "heads", "kv_heads", "hidden", "per_token"),
    [
        (32, 32, 8, 4096, 131_072),  # Llama-3-8B
        (80, 64, 8, 8192, 327_680),  # Llama-3-70B
        (32, 32, None, 4096, 524_288),  # Llama-2-7B: as many KV heads as attention heads
    ],
)
def test_bytes_per_token_of_llamas(
    tmp_path: Path, layers: int, heads: int, kv_heads: int | None, hidden: int, per_token: int
) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "max_position_embeddings": 8192,
        "vocab_size": 128256,
        "torch_dtype": "float16",
    }
    if kv_heads is not None:
        config["num_key_value_heads"] = kv_heads
    path = tmp_path / "any-name.json"
    path.write_text(json.dumps(config))
    assert api.plan(path).kv.bytes_per_token == per_token


def test_without_a_gpu_only_costs_are_known(qwen: Path) -> None:
    plan = api.plan(qwen)
    assert plan.capacity is None
    assert plan.verdict.code == "unknown"
    assert "--gpu" in plan.verdict.text


def test_a_config_alone_is_planned_with_counted_weights(qwen: Path) -> None:
    weights = next(line for line in api.plan(qwen, gpu="h100-80gb").ledger if line.name == "weights")
    assert round(-weights.bytes / 1e9, 2) == 16.38  # 8.19 B parameters (https://huggingface.co/Qwen/Qwen3-8B) x 2
    assert weights.kind == "estimated"
    assert weights.low < weights.bytes < weights.high


def test_a_config_that_cannot_be_counted_has_no_weights_and_that_is_said(write_qwen: Callable[..., Path]) -> None:
    plan = api.plan(write_qwen(intermediate_size=None), gpu="h100-80gb")
    assert plan.capacity is None
    assert plan.verdict.code == "unknown"
    assert "--weights-gib" in plan.verdict.text


def test_a_config_json_stands_for_its_folder(qwen: Path) -> None:
    assert api.plan(qwen, pool_gib=4).launch.argv[2] == str(qwen.parent)
    other = qwen.rename(qwen.with_name("qwen.json"))
    assert api.plan(other, pool_gib=4).launch.argv[2] == "qwen"


def test_stages_and_shards_share_a_request(qwen: Path) -> None:
    one = {line.context: line.bytes_per_sequence for line in api.plan(qwen).contexts if line.kv_dtype == "bfloat16"}
    two = {
        line.context: line.bytes_per_sequence for line in api.plan(qwen, pp=2).contexts if line.kv_dtype == "bfloat16"
    }
    assert all(two[tokens] * 2 == one[tokens] for tokens in one)  # 36 layers over two stages
    sharded = api.plan(qwen, tp=16, dcp=2).contexts[0]
    assert sharded.bytes_per_sequence * 16 == one[sharded.context]  # 8 heads over 16 ranks, tokens over 2


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"engine": "vllm", "parallel": 4}, "--parallel"),
        ({"engine": "llamacpp", "parallel": 300}, "256"),
        ({"engine": "vllm", "swa_full": True}, "--swa-full"),
        ({"engine": "llamacpp", "max_num_seqs": 4}, "--max-num-seqs"),
        ({"engine": "llamacpp", "tp": 2}, "--tp"),
        ({"engine": "llamacpp", "engine_args": {"ctx-size": "99"}}, "--context"),
        ({"engine": "llamacpp", "engine_args": {"np": "9"}}, "--parallel"),
        ({"engine": "llamacpp", "engine_args": {"port": "9"}}, "port"),
        ({"engine": "vllm", "engine_args": {"max_model_len": "9"}}, "--context"),
    ],
)
def test_what_an_engine_does_not_have_is_not_dropped(qwen: Path, options: dict[str, object], flag: str) -> None:
    with pytest.raises(BadInput, match=flag):
        api.plan(qwen, **options)  # type: ignore[arg-type]


def test_llamacpp_without_prefix_caching(gemma: Path) -> None:
    argv = api.plan(gemma, engine="llamacpp", prefix_caching=False, engine_args={"cont-batching": "true"}).launch.argv
    assert "--no-cache-prompt" in argv
    assert argv[-1] == "--cont-batching"


def test_a_guessed_overhead_keeps_its_range(qwen: Path) -> None:
    plan = api.plan(qwen, gpu="rtx4090-24gb", weights_gib=15.3, context=4096)
    overhead = next(line for line in plan.ledger if line.name == "activations")
    pool = plan.ledger[-1]
    assert overhead.kind == pool.kind == "estimated"
    assert pool.low < pool.bytes < pool.high
    tokens = next(row for row in plan.expects if row.name == "kv_tokens")
    assert tokens.kind == "estimated"
    assert tokens.tolerance * plan.kv.bytes_per_token >= (pool.high - pool.low) / 2 - GIB / 100


@pytest.mark.parametrize(("version", "share"), [("0.32.0", 0.92), ("0.20.0", 0.92), ("0.19.1", 0.9)])
def test_the_default_share_is_the_versions_own(qwen: Path, version: str, share: float) -> None:
    plan = api.plan(qwen, gpu_gib=100, weights_gib=15.3, engine_version=version)
    left_free = next(line for line in plan.ledger if line.name == "left_free")
    assert left_free.bytes == pytest.approx(-(1 - share) * 100 * GIB, abs=2)
    assert any(move.text.startswith("--util 0.95") for move in plan.verdict.moves)


def test_only_a_smaller_dtype_holds_it(qwen: Path) -> None:
    plan = api.plan(qwen, pool_gib=3, context=32768)
    assert plan.verdict.code == "fits_with_smaller_dtype"
    assert "fp8" in plan.verdict.text


def test_no_room_for_a_cache(qwen: Path) -> None:
    plan = api.plan(qwen, gpu_gib=12, weights_gib=15.3, overhead_gib=2, context=4096)
    assert plan.verdict.code == "does_not_fit"
    assert "no room for a cache" in plan.verdict.text


def test_not_even_one_request(qwen: Path) -> None:
    plan = api.plan(qwen, pool_gib=1, context=40960)
    assert plan.verdict.code == "does_not_fit"
    assert "not even one request" in plan.verdict.text
    assert plan.capacity is not None
    assert plan.verdict.moves[0].text == f"lower --context to {plan.capacity.longest_request_tokens:,}"


def test_a_context_above_the_models(qwen: Path) -> None:
    with pytest.raises(BadInput, match=r"1[,]?048[,]?576.*40[,]?960"):
        api.plan(qwen, context=1048576)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpu": "rtx4900"}, "rtx4090"),
        ({"engine": "vlm"}, "vllm"),
        ({"kv_dtype": "fp9"}, "fp8"),
        ({"util": 1.2}, "--util"),
        ({"gpus": 3, "tp": 2}, "--gpus 3"),
        ({"tp": 7}, "7"),
        ({"pool_gib": -1}, "--pool-gib"),
        ({"context": 0}, "--context"),
        ({"engine_args": {"api-key": "sk-1234"}}, "environment"),
        ({"engine_args": {"--api-key": "sk-1234"}}, "environment"),
    ],
)
def test_a_wrong_request_is_one_line_that_helps(qwen: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(KvlabError, match=words) as refusal:
        api.plan(qwen, **options)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)
    assert "sk-1234" not in str(refusal.value)


def test_a_gpu_is_known_by_its_aliases() -> None:
    from kvlab.facts.gpus import find, table

    assert find("4090").name == "rtx4090-24gb"
    assert find("H100").name == "h100-80gb"
    assert len(table()) >= 20
    for gpu in table().values():
        assert gpu.source.count("https://") >= 1
        assert gpu.usable_bytes < (int(gpu.name.rsplit("-", 1)[1].removesuffix("gb")) + 1) * GIB
    with pytest.raises(UnknownGpu, match="h200"):
        find("h201")


def test_equal_memory_buys_slots(gemma: Path) -> None:
    arms = [
        api.plan(gemma, engine="llamacpp", context=1024, pool_gib=72 / 1024, kv_dtype=dtype)
        for dtype in ("f16", "q8_0")
    ]
    slots = [next(row.value for row in plan.expects if row.name == "slots") for plan in arms]
    assert slots == [4, 7]  # 18 MiB and 9.5625 MiB a slot of 1,024 tokens in 72 MiB
    for plan in arms:
        assert plan.capacity is not None
        assert plan.capacity.pool_bytes <= 72 * 2**20


@pytest.mark.parametrize("file", ["mistralai__Mistral-7B-v0.1.json", "google__gemma-3-27b-it.json"])
def test_the_table_and_the_headline_tell_the_same_cost(file: str) -> None:
    path = Path(__file__).parents[1] / "golden" / "configs" / file
    for engine in ("vllm", "llamacpp"):
        plan = api.plan(path, engine=engine, pool_gib=60, context=32768)
        row = next(line for line in plan.contexts if (line.context, line.kv_dtype) == (32768, plan.kv.dtype))
        assert row.bytes_per_sequence == plan.kv.bytes_per_sequence
        assert not row.beyond_native
        assert plan.contexts[-1].beyond_native


def test_a_range_that_changes_the_answer_is_a_doubt(qwen: Path) -> None:
    plan = api.plan(qwen, gpu="rtx4090-24gb", weights_gib=15.3, context=32768)
    pool = plan.ledger[-1]
    need = plan.kv.bytes_per_sequence
    assert need is not None
    assert pool.low < need < pool.bytes  # fits by the estimate, not at its low end
    assert plan.verdict.code == "fits"
    assert [doubt.key for doubt in plan.doubts] == ["pool"]
    assert api.plan(qwen, gpu="h100-80gb", weights_gib=15.3, context=32768).doubts == ()


def test_users_are_counted_over_replicas_and_the_schedulers_limit(qwen: Path) -> None:
    one = api.plan(qwen, pool_gib=40, context=8192, users=40)  # 40 GiB / 1.125 GiB = 35.5 requests
    assert one.verdict.holds_users is False
    two = api.plan(qwen, pool_gib=40, context=8192, users=40, dp=2)
    assert two.verdict.holds_users is True
    assert "in each of 2 replicas" in two.verdict.text
    assert "not the 40" not in two.verdict.text
    few = api.plan(qwen, pool_gib=40, context=8192, users=20, max_num_seqs=16)
    assert few.verdict.holds_users is False
    assert "lets 16 run" in few.verdict.text


def test_caches_that_are_asked_for_and_do_not_fit(qwen: Path) -> None:
    # 64 requests of 40,960 tokens: 360 GiB as f16, 101 GiB as q4_0
    plan = api.plan(qwen, engine="llamacpp", gpu_gib=140, weights_gib=15, users=64, context=40960)
    assert plan.verdict.code == "fits_with_smaller_dtype"
    fits = {other.kv_dtype: other.fits for other in plan.alternatives}
    assert (fits["f16"], fits["q8_0"], fits["q4_0"]) == (False, False, True)
    assert plan.verdict.moves[-1].text == "run 22 requests together instead of 64"  # 124.56 GiB / 5.625


def test_a_shared_context_is_not_called_the_target(gemma: Path) -> None:
    text = api.plan(gemma, engine="llamacpp", pool_gib=1, context=8192, parallel=2).verdict.text
    assert "holds requests of 4,096 tokens" in text
    assert "target" not in text
    assert "target" in api.plan(gemma, engine="llamacpp", pool_gib=1, context=8192, users=2).verdict.text


def test_a_command_without_weights_says_so(tmp_path: Path, qwen: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    config = folder / "config.json"
    config.write_text(qwen.read_text())
    lacks = api.plan(config).launch.lacks
    assert lacks is not None
    assert lacks.startswith(f"{folder} holds no weights")
    other = tmp_path / "another name.json"
    other.write_text(qwen.read_text())
    assert "a config alone holds no weights" in (api.plan(other).launch.lacks or "")
    (folder / "model.safetensors").touch()
    assert api.plan(config).launch.lacks is None


def test_what_follows_from_given_memory_is_computed(qwen: Path) -> None:
    plan = api.plan(qwen, gpu_gib=24, weights_gib=15.3, overhead_gib=2, context=32768)
    assert {row.kind for row in plan.expects} == {"computed"}
    assert plan.capacity_low is None
    assert plan.capacity is not None
    assert planned.tokens(plan, plan.capacity).line() == "34,800 (computed)"
    assert planned.blocks(plan, plan.capacity).line() == "2,175 of 16 tokens (computed)"


def test_every_number_of_an_estimated_pool_is_estimated(qwen: Path) -> None:
    """SGLang's log states tokens alone; blocks and requests follow from the same pool."""
    plan = api.plan(qwen, engine="sglang", gpu="rtx4090-24gb", context=32768)
    assert plan.capacity is not None
    for told in (planned.tokens, planned.blocks, planned.concurrency):
        assert told(plan, plan.capacity).kind == "estimated"


@pytest.mark.parametrize("version", ["0.6.3", "0.8.5", "0.9.2", "0.10.0"])
def test_a_release_without_a_word_for_bfloat16_still_stores_it(qwen: Path, version: str) -> None:
    """`--kv-cache-dtype` took auto and fp8 alone until 0.11 (vllm/config.py of these releases)."""
    plan = api.plan(qwen, gpu="rtx4090-24gb", engine_version=version, context=8192)
    assert plan.kv.dtype == "bfloat16"
    assert {line.kv_dtype for line in plan.contexts} == {"bfloat16", "fp8"}
    assert plan.layout[0].bytes_per_token == 147456
    with pytest.raises(BadInput, match="no --kv-cache-dtype 'bfloat16'"):
        api.plan(qwen, engine_version=version, kv_dtype="bfloat16")


def test_more_users_than_vllms_default_are_asked_for_in_the_command(qwen: Path) -> None:
    """vLLM runs 256 sequences on an A100 unless told otherwise (arg_utils.py of 0.32), whatever the cache holds."""
    plan = api.plan(qwen, gpu="a100-80gb", context=4096, kv_dtype="int4_per_token_head", users=300)
    argv = plan.launch.argv
    assert argv[argv.index("--max-num-seqs") + 1] == "300"
    assert plan.verdict.holds_users is True
    assert "256 by default" in plan.verdict.text
    alone = api.plan(qwen, gpu="a100-80gb", context=4096, kv_dtype="int4_per_token_head")
    assert "--max-num-seqs" not in alone.launch.argv
    assert "the default of --max-num-seqs lets 256 run" in alone.verdict.text


def test_the_first_words_say_what_speaks_against_it(qwen: Path) -> None:
    few = api.plan(qwen, pool_gib=40, context=8192, users=40)
    assert few.verdict.text.startswith("one request, not the 40 users asked for (35 run at once")
    for engine in ("tensorrt-llm", "lmdeploy"):
        plan = api.plan(qwen, engine=engine, gpu="rtx4090-24gb", context=32768)
        assert plan.verdict.code == "fits"
        assert plan.capacity_low is not None
        assert plan.capacity_low.max_concurrency < 1
        assert plan.verdict.text.startswith("may fit, not at the low end")
        assert planned.headline(plan)[0] == "May fit"


def test_users_that_the_low_end_does_not_hold_are_a_doubt(qwen: Path) -> None:
    plan = api.plan(qwen, gpu="rtx4090-24gb", context=4096)
    assert plan.capacity_low is not None
    assert plan.capacity is not None
    between = int((plan.capacity_low.max_concurrency + plan.capacity.max_concurrency) / 2)
    assert plan.capacity_low.max_concurrency < between < plan.capacity.max_concurrency
    asked = api.plan(qwen, gpu="rtx4090-24gb", context=4096, users=between)
    assert asked.verdict.text.startswith("may fit, at the low end")
    assert "pool" in [doubt.key for doubt in asked.doubts]


def test_weights_far_beyond_the_memory_get_no_figures_of_a_cache(qwen: Path) -> None:
    plan = api.plan(qwen, gpu="h100-80gb", weights_gib=130, context=4096)
    assert plan.speed is None
    assert not any("--util" in move.text for move in plan.verdict.moves)
    out = io.StringIO()
    terminal.show(terminal.plan(plan), Console(file=out, width=120))
    text = out.getvalue()
    assert "are missing" in text
    assert not re.search(r"^requests at once", text, re.MULTILINE)
    assert not re.search(r"pool +-", text)
    near = api.plan(qwen, gpu="h100-80gb", weights_gib=68, context=4096)
    assert any("--util" in move.text for move in near.verdict.moves)


def test_caches_that_are_asked_for_agree_with_the_tables(qwen: Path, gemma: Path) -> None:
    plan = api.plan(qwen, engine="llamacpp", gpu="rtx4090-24gb", context=32768)
    tokens = {other.kv_dtype: other.tokens for other in plan.alternatives}
    assert tokens["q8_0"] == 32768 * 64 // 34 // 256 * 256  # blocks of 34 bytes for 32 values, in place of 64
    assert tokens["q4_0"] == 32768 * 64 // 18 // 256 * 256
    line = next(line for line in plan.contexts if line.context == 32768 and line.kv_dtype == "f16")
    assert line.concurrency is not None
    assert f"are free, which hold {line.concurrency:,.2f}" in plan.verdict.text
    for found in (plan, api.plan(gemma, gpu="rtx4090-24gb", parallel=4)):
        for other in found.alternatives:
            assert other.fits == ((other.max_concurrency or 0) >= 1)


@pytest.mark.parametrize("gpu", ["v100-32gb", "p40-24gb", "m3-max-128gb", "gaudi3-128gb"])
def test_a_gpu_that_the_search_leaves_out_is_doubted_by_name(qwen: Path, gpu: str) -> None:
    """The installation guide of vLLM 0.31 lists none of them."""
    plan = api.plan(qwen, gpu=gpu, context=8192)
    assert plan.doubts[0].key == "gpu"
    assert plan.verdict.text.startswith("may fit, vLLM 0.32.0 is not known to run on")
    assert [other.kv_dtype for other in plan.alternatives] == [plan.kv.dtype]
    assert not any("--kv-dtype" in move.text for move in plan.verdict.moves)


def test_fp4_is_offered_only_where_the_chip_reads_it(qwen: Path) -> None:
    """Blackwell is NVIDIA's first design with 4-bit floating point."""
    for gpu, offered in (("rtx4090-24gb", False), ("h100-80gb", False), ("b200-180gb", True)):
        plan = api.plan(qwen, engine="sglang", gpu=gpu, context=8192)
        assert ("fp4_mx_block16" in [other.kv_dtype for other in plan.alternatives]) is offered


def test_sglang_names_the_share_that_holds_one_request(qwen: Path) -> None:
    plan = api.plan(qwen, engine="sglang", gpu="rtx4090-24gb", context=32768)
    assert plan.verdict.code == "does_not_fit"
    move = next(move.text for move in plan.verdict.moves if move.text.startswith("--util"))
    assert "CUDA graphs" in move
    share = float(move.split()[1].rstrip(","))
    assert api.plan(qwen, engine="sglang", gpu="rtx4090-24gb", context=32768, util=share).verdict.code == "fits"


def test_tokens_in_flight_explain_a_dear_request() -> None:
    config = Path(__file__).parents[1] / "golden" / "configs" / "openai__gpt-oss-20b.json"
    plan = api.plan(config, gpu="h100-80gb", context=32768)
    move = plan.verdict.moves[0].text
    assert move.startswith("--max-num-batched-tokens 2048")
    assert "16,384 tokens in flight" in move  # two steps of 8,192, since scheduling is asynchronous
    fewer = api.plan(config, gpu="h100-80gb", context=32768, max_num_batched_tokens=2048)
    assert fewer.capacity is not None
    assert plan.capacity is not None
    assert fewer.capacity.max_concurrency > 1.3 * plan.capacity.max_concurrency
    assert not any("batched" in move.text for move in fewer.verdict.moves)
