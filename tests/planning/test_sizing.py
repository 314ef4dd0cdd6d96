"""Plans asked backwards: what is listed must hold when it is planned forwards, and one size less must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.errors import BadInput, UnknownGpu
from kvlab.core.sizing import Candidate, Candidates

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"
LLAMA_8B = CONFIGS / "meta-llama__Llama-3.1-8B.json"


def found(model: str, **options: object) -> Candidates:
    candidates = api.plan(CONFIGS / f"{model}.json", **options).candidates  # type: ignore[arg-type]
    assert candidates is not None
    return candidates


def row(candidates: Candidates, gpu: str, dtype: str = "bfloat16") -> Candidate:
    return next(row for row in candidates.rows if (row.gpu, row.kv_dtype, row.verdict) == (gpu, dtype, "holds"))


def test_published_needs_of_large_models() -> None:
    # Llama 3.1 405B in bf16 takes two machines of eight H100, TP 8 and PP 2: https://blog.vllm.ai/2024/07/23/llama31.html
    large = found("meta-llama__Meta-Llama-3.1-405B", users=1, context=8192, gpu="h100-80gb,h200-141gb", limit=50)
    assert (row(large, "h100-80gb").tp, row(large, "h100-80gb").pp) == (8, 2)
    # DeepSeek-V3 in its fp8: eight H200, or two machines of H100: https://github.com/deepseek-ai/DeepSeek-V3
    deep = found("deepseek-ai__DeepSeek-V3", users=1, context=8192, gpu="h100-80gb,h200-141gb", limit=50)
    assert (row(deep, "h200-141gb").tp, row(deep, "h200-141gb").pp) == (8, 1)
    assert row(deep, "h100-80gb").gpus == 16


def test_what_is_listed_holds_when_planned_forwards() -> None:
    listed = found(
        "meta-llama__Llama-3.1-70B", users=16, context=32768, gpu="h100-80gb,a100-80gb,b200*,l40s*", limit=99
    )
    assert listed.left_out == 0
    for each in listed.rows:
        plan = api.plan(
            CONFIGS / "meta-llama__Llama-3.1-70B.json",
            gpu=each.gpu,
            tp=each.tp,
            pp=each.pp,
            dp=each.dp,
            dcp=each.dcp,
            kv_dtype=each.kv_dtype,
            users=16,
            context=32768,
        )
        assert plan.verdict.code == "fits"
        assert plan.verdict.holds_users
    best = row(listed, "h100-80gb")
    smaller = api.plan(
        CONFIGS / "meta-llama__Llama-3.1-70B.json", gpu="h100-80gb", tp=best.gpus // 2, users=16, context=32768
    )
    assert smaller.verdict.holds_users is not True


def test_prices_sort_and_multiply() -> None:
    prices = {"h100": 2.5, "a100-80gb": 1.5}  # an alias is as good as a name
    listed = found(
        "meta-llama__Llama-3.1-70B", users=16, context=32768, gpu="h100-80gb,a100-80gb,h200-141gb", prices=prices
    )
    assert listed.sorted_by == "price"
    assert [each.verdict for each in listed.rows] == sorted(each.verdict for each in listed.rows)  # holds, may_hold
    for verdict in ("holds", "may_hold"):
        costs = [each.usd_per_hour for each in listed.rows if each.verdict == verdict]
        known = [cost for cost in costs if cost is not None]
        assert known == sorted(known)
        assert costs[len(known) :] == [None] * (len(costs) - len(known))
    assert row(listed, "a100-80gb").usd_per_hour == 1.5 * row(listed, "a100-80gb").gpus
    with pytest.raises(UnknownGpu):
        found("meta-llama__Llama-3.1-70B", users=1, prices={"h1000": 1.0})


def test_without_prices_the_fewest_gpus_come_first_and_the_rest_is_counted() -> None:
    listed = found("meta-llama__Llama-3.1-8B", users=8, context=8192, gpu="nvidia*", limit=3)
    assert listed.sorted_by == "gpus"
    assert len(listed.rows) == 3
    assert listed.left_out > 10
    assert {each.gpus for each in listed.rows} == {1}
    assert [each.memory_bytes for each in listed.rows] == sorted(each.memory_bytes for each in listed.rows)


@pytest.mark.parametrize("model", ["google__gemma-3-27b-it", "deepseek-ai__DeepSeek-V3"])
def test_the_answer_is_over_all_rows_whatever_is_shown(model: str) -> None:
    plans = [api.plan(CONFIGS / f"{model}.json", users=16, context=32768, gpu="nvidia,", limit=n) for n in (1, 10, 999)]
    assert len({plan.verdict.text for plan in plans}) == 1
    assert len({plan.launch.argv for plan in plans}) == 1
    for plan in plans:
        assert plan.candidates is not None
        assert plan.candidates.best == plan.candidates.rows[0]
        assert plan.candidates.best.verdict == "holds"
        assert f"{plan.candidates.best.gpus} x {plan.candidates.best.gpu} " in plan.verdict.text


def test_no_copy_of_a_model_is_spread_over_machines_of_desktop_cards() -> None:
    # DeepSeek-V3's repository names eight H200 (or two machines of H100); nobody serves it from GeForce cards.
    deep = found("deepseek-ai__DeepSeek-V3", users=32, context=32768, limit=999)
    assert deep.best.gpus <= 8
    assert not [each.gpu for each in deep.rows if each.gpu.startswith(("rtx5090", "rtx4090", "rtx3090", "rx"))]
    sure = [each for each in deep.rows if each.verdict == "holds"]
    assert [each.gpus > 8 for each in sure] == sorted(each.gpus > 8 for each in sure)
    # Copies that do not talk to each other may fill any number of machines.
    small = found("meta-llama__Llama-3.1-8B", users=640, context=8192, gpu="rtx4090*", limit=999)
    assert small.best.gpus > 8
    assert small.best.tp * small.best.pp <= 8


def test_the_command_is_that_of_the_answer() -> None:
    plan = api.plan(CONFIGS / "google__gemma-3-27b-it.json", users=16, context=32768, gpu="rtx5090*")
    assert plan.candidates is not None
    best = plan.candidates.best
    assert (best.verdict, best.tp, best.kv_dtype) == ("holds", 8, "bfloat16")
    flags = {flag.flag: flag.value for flag in plan.launch.flags}
    assert flags["--tensor-parallel-size"] == "8"
    assert (plan.ask.gpu, plan.ask.tp, plan.ask.dp) == (best.gpu, best.tp, best.dp)
    assert plan.verdict.code == "fits"
    assert plan.verdict.holds_users
    small = api.plan(CONFIGS / "google__gemma-3-27b-it.json", users=16, context=32768, gpu="b300*")
    assert {flag.flag: flag.value for flag in small.launch.flags}["--kv-cache-dtype"] == "fp8"


def test_one_of_the_servers_is_planned_where_replicas_are_servers() -> None:
    plan = api.plan(LLAMA_8B, engine="llamacpp", users=60, context=8192, gpu="m3-max-36gb,")
    assert plan.candidates is not None
    best = plan.candidates.best
    assert best.dp > 1
    assert plan.ask.users is not None
    assert plan.ask.users * best.dp >= 60
    assert plan.verdict.holds_users
    # llama-server refuses --parallel above 256 (LLAMA_MAX_SEQ); two servers have twice as many slots.
    many = api.plan(LLAMA_8B, engine="llamacpp", users=300, context=2048, gpu="m3-max-128gb,")
    assert many.candidates is not None
    assert many.candidates.best.dp > 1
    assert many.verdict.holds_users


def test_without_an_answer_there_is_no_command(tmp_path: Path) -> None:
    plan = api.plan(CONFIGS / "deepseek-ai__DeepSeek-V3.json", users=1, context=8192, gpu="t4*,")
    assert plan.candidates is not None
    assert plan.candidates.rows == ()
    assert plan.launch.argv == ()
    assert "the 1 kind of GPU does not serve 1 request of 8,192 tokens" in plan.verdict.text
    with pytest.raises(BadInput, match="no command to write"):
        api.artefacts(plan, tmp_path / "deploy")
    assert not (tmp_path / "deploy").exists()


def test_kinds_that_the_engine_does_not_run_on_are_named() -> None:
    # vLLM 0.31's installation guide asks for compute capability 7.5; the V100 has 7.0, the P40 6.1, the T4 7.5.
    listed = found("google__gemma-3-27b-it", users=16, context=8192, gpu="v100*,t4*,p40*,m3-max-36gb,mi100*")
    assert listed.gpus_tried == 1
    named = {each.reason: each.gpus for each in listed.not_run}
    assert named == {
        "compute capability below 7.5": ("p40-24gb", "v100-16gb", "v100-32gb"),
        "AMD architecture gfx908": ("mi100-32gb",),
        "Apple GPUs": ("m3-max-36gb",),
    }
    # Its guide of 0.14 asked for 7.0.
    old = found("google__gemma-3-27b-it", users=16, context=8192, gpu="v100*,p40*", engine_version="0.14.0")
    assert [each.gpus for each in old.not_run] == [("p40-24gb",)]
    assert found("meta-llama__Llama-3.1-8B", engine="llamacpp", users=1, gpu="p40*,m3*").not_run == ()


def test_latent_attention_is_spread_by_decode_context_parallelism() -> None:
    # Every tensor-parallel rank holds all of an MLA cache, unless the ranks share its tokens.
    listed = found("deepseek-ai__DeepSeek-V3", users=64, context=65536, gpu="h200-141gb,", limit=99)
    assert any(each.dcp > 1 for each in listed.rows)


def test_llamacpp_counts_slots_and_servers() -> None:
    listed = found(
        "meta-llama__Llama-3.1-8B", engine="llamacpp", users=16, context=8192, gpu="rtx4090*,m3-max*", limit=99
    )
    assert {each.tp for each in listed.rows} == {1}
    assert all(each.concurrency >= 16 for each in listed.rows)


def test_filters_that_match_nothing_are_refused() -> None:
    with pytest.raises(BadInput, match="no GPU matches"):
        api.plan(LLAMA_8B, users=4, context=8192, gpu="voodoo*")
    with pytest.raises(BadInput, match="runs on none"):
        api.plan(LLAMA_8B, users=4, context=8192, gpu="m3-*")


def test_a_gpu_without_a_context_answers_with_the_longest() -> None:
    plan = api.plan(LLAMA_8B, gpu="l4-24gb", overhead_gib=1.5)
    longest = {line.kv_dtype: line for line in plan.longest_context}
    plain, fp8 = longest["bfloat16"], longest["fp8"]
    assert plain.low <= plain.tokens <= plain.high
    assert not plain.native
    assert fp8.tokens == pytest.approx(2 * plain.tokens, abs=64)
    # That long fits, a block more does not.
    assert api.plan(LLAMA_8B, gpu="l4-24gb", overhead_gib=1.5, context=plain.tokens).verdict.code == "fits"
    assert api.plan(LLAMA_8B, gpu="l4-24gb", overhead_gib=1.5, context=plain.tokens + 16).verdict.code != "fits"
    assert api.plan(LLAMA_8B, gpu="l4-24gb", context=8192).longest_context == ()


def test_the_longest_context_of_an_engine_whose_caches_are_asked_for() -> None:
    plan = api.plan(LLAMA_8B, engine="llamacpp", gpu="l4-24gb", kv_dtype="f16", parallel=1)
    tokens = plan.longest_context[0].tokens
    assert api.plan(LLAMA_8B, engine="llamacpp", gpu="l4-24gb", parallel=1, context=tokens).verdict.code == "fits"
    assert api.plan(LLAMA_8B, engine="llamacpp", gpu="l4-24gb", parallel=1, context=tokens + 512).verdict.code != "fits"


def test_a_shared_gpu_leaves_what_others_do_not_hold() -> None:
    alone = api.plan(LLAMA_8B, gpu="h100-80gb", context=8192)
    shared = api.plan(LLAMA_8B, gpu="h100-80gb", context=8192, share_gib=30.0)
    lines = {line.name: line.bytes for line in shared.ledger}
    assert lines["others"] == -30 * 2**30
    assert shared.ledger[-1].bytes < alone.ledger[-1].bytes
    # 0.92 - 30 / 79.11: less than the 0.62 that is free at the start, by what vLLM leaves of a GPU of its own.
    assert shared.ask.util == 0.54
    assert -lines["left_free"] >= 0.08 * 79 * 2**30
    assert "--share" in shared.verdict.text
    assert ("--gpu-memory-utilization", "0.54") in [(flag.flag, flag.value) for flag in shared.launch.flags]


def test_two_engines_at_a_half_each() -> None:
    half = api.plan(LLAMA_8B, gpu="h100-80gb", context=8192, util=0.5, share_fraction=0.5)
    lines = {line.name: line.bytes for line in half.ledger}
    assert abs(lines["left_free"]) <= 1  # rounding
    with pytest.raises(BadInput, match=r"lower --util to 0\.5"):
        api.plan(LLAMA_8B, gpu="h100-80gb", context=8192, util=0.6, share_fraction=0.5)
    with pytest.raises(BadInput, match="--share needs the GPU"):
        api.plan(LLAMA_8B, share_gib=10.0)


def test_the_matrix_agrees_with_single_plans() -> None:
    plan = api.plan(LLAMA_8B, gpu="a100-80gb", matrix=True)
    cells = {(line.tp, line.kv_dtype, line.context): line for line in plan.matrix}
    assert {tp for tp, _, _ in cells} == {1, 2, 4, 8}
    single = api.plan(LLAMA_8B, gpu="a100-80gb", tp=2, context=32768, kv_dtype="fp8")
    cell = cells[2, "fp8", 32768]
    assert single.capacity is not None
    assert cell.concurrency == pytest.approx(single.capacity.max_concurrency, rel=0.01)
    assert cell.concurrency is not None
    assert cell.low is not None
    assert cell.high is not None
    assert cell.low <= cell.concurrency <= cell.high
    with pytest.raises(BadInput, match="--matrix needs memory"):
        api.plan(LLAMA_8B, matrix=True)


def test_a_refused_split_is_said_in_the_matrix() -> None:
    plan = api.plan(CONFIGS / "Qwen__Qwen2-0.5B-Instruct.json", gpu="a100-80gb", matrix=True)  # 14 heads, 2 KV heads
    assert [line.tp for line in plan.matrix if line.refused] == [4, 8]


def test_no_row_of_the_pareto_table_beats_another() -> None:
    plan = api.plan(LLAMA_8B, gpu="h100-80gb", prices={"h100-80gb": 2.0}, pareto=True, limit=99)
    assert plan.pareto is not None
    rows = plan.pareto.rows
    assert len({each.gpus for each in rows}) > 1
    for one in rows:
        for other in rows:
            same = one.kv_dtype == other.kv_dtype and one.context == other.context
            if same and one is not other and one.usd_per_hour == other.usd_per_hour:
                assert one.low == other.low


def test_the_pareto_table_keeps_what_holds_the_users() -> None:
    plan = api.plan(LLAMA_8B, gpu="h100-80gb,l4*", users=16, pareto=True, limit=999)
    assert plan.pareto is not None
    assert plan.pareto.users == 16
    assert len({each.context for each in plan.pareto.rows}) > 1
    for each in plan.pareto.rows:
        assert each.low >= 16 if each.verdict == "holds" else each.low < 16 <= each.concurrency
    for each in [row for row in plan.pareto.rows if row.verdict == "holds"][:3]:
        split = {"gpu": each.gpu, "tp": each.tp, "dcp": each.dcp, "kv_dtype": each.kv_dtype}
        assert api.plan(LLAMA_8B, users=16, context=each.context, **split).verdict.holds_users  # type: ignore[arg-type]
    none = api.plan(LLAMA_8B, gpu="l4*", users=2000, context=131072, pareto=True)
    assert none.pareto is not None
    assert none.pareto.rows == ()


def test_a_plan_that_falls_short_says_how_many_would_do() -> None:
    short = api.plan(CONFIGS / "meta-llama__Llama-3.1-70B.json", gpu="h100-80gb", context=32768, users=16)
    assert short.verdict.code == "does_not_fit"
    assert any(move.text.startswith("take 4 x h100-80gb (TP 4") for move in short.verdict.moves)
    doubtful = api.plan(CONFIGS / "google__gemma-3-27b-it.json", gpu="rtx5060ti-16gb", context=32768, users=16)
    assert any("TP 8, fp8 cache): may hold 17 requests" in move.text for move in doubtful.verdict.moves)
    # A split that the user chose is not argued with.
    chosen = api.plan(CONFIGS / "meta-llama__Llama-3.1-70B.json", gpu="h100-80gb", context=32768, users=16, tp=1)
    assert not any(move.text.startswith("take ") for move in chosen.verdict.moves)


def test_a_given_split_and_number_of_gpus_are_kept() -> None:
    split = found("meta-llama__Llama-3.1-70B", users=16, context=32768, gpu="h100-80gb,", tp=8)
    assert {each.tp for each in split.rows} == {8}
    few = found("meta-llama__Llama-3.1-70B", users=16, context=32768, gpu="h100-80gb,l40s*", gpus=4, limit=99)
    assert few.rows
    assert max(each.gpus for each in few.rows) <= 4


def test_shares_are_taken_from_every_candidate() -> None:
    alone = found("meta-llama__Llama-3.1-8B", users=32, context=8192, gpu="h100-80gb,")
    shared = found("meta-llama__Llama-3.1-8B", users=32, context=8192, gpu="h100-80gb,", share_gib=40.0)
    assert shared.rows[0].concurrency < alone.rows[0].concurrency


def test_without_weights_nothing_is_listed(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(LLAMA_8B.read_text().replace('"model_type": "llama"', '"model_type": "llama_of_tomorrow"'))
    plan = api.plan(config, users=4, context=8192)
    assert plan.candidates is None
    assert "--weights-gib" in plan.verdict.text
    assert api.plan(config, users=4, context=8192, weights_gib=15.0, gpu="l40s*").candidates is not None


def test_memory_that_the_system_uses_too_comes_last_unless_it_is_priced() -> None:
    """Jetson and DGX Spark have one memory for CPU and GPU, as their makers' data sheets say."""
    config = CONFIGS / "Qwen__Qwen2.5-1.5B.json"
    found = api.plan(config, users=2, context=8192, gpu="jetson*,l4*,rtx4090*").candidates
    assert found is not None
    shared = [row.shared_memory for row in found.rows]
    assert not shared[0]
    assert shared == sorted(shared)
    assert {row.gpu for row in found.rows if row.shared_memory} == {
        row.gpu for row in found.rows if row.gpu.startswith("jetson")
    }
    priced = api.plan(
        config, users=2, context=8192, gpu="jetson*,l4*", prices={"jetson-agx-orin-64gb": 0.1, "l4-24gb": 1}
    )
    assert priced.candidates is not None
    assert priced.candidates.rows[0].shared_memory
