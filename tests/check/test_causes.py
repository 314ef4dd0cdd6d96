"""Plans against logs of other starts: what explains every row to the printed digit."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kvlab import api, causes
from kvlab.cli import asking
from kvlab.core.check import Check, CheckRow, Reason
from kvlab.core.observation import Value
from kvlab.core.plan import Plan
from kvlab.reasons.differing import option
from kvlab.reasons.replan import value_of
from kvlab.reporting.cause_pages import document

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIG = GOLDEN / "check" / "gemma-3-270m.json"
QWQ = GOLDEN / "configs" / "Qwen__Qwen2.5-32B.json"  # the shape of QwQ-32B
SGLANG = GOLDEN / "sglang" / "qwq_32b_tp4.log"


def started(name: str) -> Path:
    return GOLDEN / "check" / f"vllm_0.32.0_cpu_{name}.log"


def planned(**options: object) -> Plan:
    return api.plan(CONFIG, **{"gpu": "cpu", "pool_gib": 1.0, "context": 2048, **options})  # type: ignore[arg-type]


def checked(log: Path, plan: Plan, source: Path = CONFIG) -> Check:
    return api.check(log, plan=plan, source=source)


def row(check: Check, name: str) -> CheckRow:
    return next(row for row in check.rows if row.name == name)


def by_code(check: Check) -> dict[str, Reason]:
    return {reason.code: reason for reason in check.causes}


def test_another_block_size_explains_every_row() -> None:
    found = checked(started("block_size_32"), planned())
    (reason,) = found.causes
    assert (reason.code, reason.certainty) == ("block_size", "exact")
    assert reason.text == "the log's --block-size is 32, the plan's 128: plan with --block-size 32"
    assert reason.explains == ("kv_tokens", "max_concurrency")
    assert found.remarks[0] == "with that, all 4 rows that the log states agree: plan with --block-size 32"
    tokens = row(found, "kv_tokens")
    assert (tokens.planned, tokens.seen) == (55_356, 57_501)
    assert tokens.follows_from == ("bytes_per_token", "block_size")
    assert tokens.likely_because == reason.text
    assert row(found, "num_gpu_blocks").causes == ()


def test_two_settings_together_explain_every_row() -> None:
    found = checked(started("hybrid_manager_off"), planned())
    assert set(by_code(found)) == {"hybrid_manager_off", "context"}
    assert {reason.certainty for reason in found.causes} == {"exact"}
    (remark,) = found.remarks[:1]
    assert remark.startswith("with those 2 settings, all 4 rows that the log states agree: plan with --context 4096")
    # what the scheduler takes at once changes nothing once windows keep the whole context
    assert "batch_limits" not in by_code(found)


def test_a_number_of_blocks_that_was_given_explains_it() -> None:
    found = checked(started("blocks_override"), planned())
    (reason,) = found.causes
    assert (reason.code, reason.certainty) == ("blocks_given", "exact")
    assert row(found, "num_gpu_blocks").seen == 1500
    assert "--engine-arg num-gpu-blocks-override=1500" in found.remarks[0]


def test_a_given_pool_is_named_where_the_model_is_not_found() -> None:
    # line 43 of the log: "Explicitly set (1.0/23.54) GiB for KV cache on node 0."
    found = api.check(started("block_size_32"), plan=planned(pool_gib=0.1, context=None))
    reasons = by_code(found)
    assert (reasons["pool_given"].certainty, reasons["pool_given"].explains) == ("stated", ("kv_pool_bytes",))
    assert reasons["pool_given"].text.endswith("the log has 1: plan with --pool-gib 1")
    assert {reasons[code].certainty for code in ("context", "block_size")} == {"possible"}
    assert row(found, "kv_pool_bytes").causes == (reasons["pool_given"],)
    assert not any(remark.startswith("unexplained") for remark in found.remarks)


def test_given_blocks_are_named_where_the_model_is_not_found() -> None:
    found = api.check(started("blocks_override"), plan=planned(pool_gib=0.1, context=None))
    reason = by_code(found)["blocks_given"]
    assert (reason.certainty, reason.explains) == ("stated", ("num_gpu_blocks",))
    assert row(found, "num_gpu_blocks").causes == (reason,)


def test_blocks_that_were_given_explain_the_tokens_by_their_ratio() -> None:
    found = api.check(started("blocks_override"), plan=planned())
    assert by_code(found)["blocks_given"].explains == ("kv_tokens", "max_concurrency", "num_gpu_blocks")


def test_a_pool_that_was_given_explains_a_budget() -> None:
    plan = planned(pool_gib=None, weights_gib=0.5, overhead_gib=2.0)
    found = checked(started("block_size_32"), plan)
    assert by_code(found)["pool_given"].explains == ("kv_pool_bytes",)
    assert by_code(found)["block_size"].explains == ("kv_tokens", "max_concurrency")
    assert row(found, "kv_tokens").follows_from[:2] == ("bytes_per_token", "block_size")
    assert "pool" in row(found, "kv_tokens").follows_from


def test_the_plan_that_the_log_asks_for_agrees() -> None:
    found = checked(
        started("hybrid_manager_off"), planned(context=4096, engine_args={"disable-hybrid-kv-cache-manager": "true"})
    )
    assert found.agrees
    assert not found.causes
    assert row(found, "kv_tokens").follows_from == ()


def test_a_cache_that_did_not_double_is_said_so(tmp_path: Path) -> None:
    """The arguments of the fp8 start and the size of the other: what a flag that falls back looks like."""
    logs = GOLDEN / "vllm" / "logs"
    asked = next(line for line in (logs / "0.32.0_cpu_fp8.log").read_text().splitlines() if "non-default args" in line)
    sized = [
        line
        for line in (logs / "0.32.0_cpu_auto.log").read_text().splitlines()
        if " for KV cache" in line or "KV cache size" in line
    ]
    log = tmp_path / "engine.log"
    log.write_text("\n".join((asked, *sized)))
    plan = planned(kv_dtype="fp8")
    assert plan.capacity is not None
    assert plan.capacity.tokens == 110_733  # what the real fp8 start printed
    for source in (CONFIG, None):  # planned again, or by the plan's own alternatives
        found = api.check(log, plan=plan, source=source)
        (reason,) = [reason for reason in found.causes if reason.certainty == "exact"]
        assert reason.code == "cache_dtype"
        assert reason.text.startswith("fp8 was accepted but the cache did not double")
        assert reason.explains == ("kv_tokens", "max_concurrency")
        assert row(found, "kv_tokens").follows_from == ("bytes_per_token",)


def test_without_the_model_the_settings_are_still_named() -> None:
    found = api.check(started("block_size_32"), plan=planned())
    (reason,) = found.causes
    assert (reason.code, reason.certainty, reason.explains) == ("block_size", "possible", ())
    assert found.remarks[0].startswith("the plan was not made again with the log's settings: gemma-3-270m.json is not")


def test_a_model_that_is_planned_otherwise_is_not_used() -> None:
    found = checked(started("block_size_32"), planned(), source=GOLDEN / "configs" / "Qwen__Qwen3-8B.json")
    assert "is planned otherwise now than in this plan" in found.remarks[0]


def test_a_refusal_of_a_longer_context_is_said_to_be_that() -> None:
    """vLLM refused 32,768 tokens in 20 MB; the plan asks for 512."""
    log = GOLDEN / "vllm" / "logs" / "0.32.0_cpu_pool_too_small.log"
    found = checked(log, planned(context=512, pool_gib=20e6 / 2**30))
    assert found.refused is not None
    assert not found.causes
    assert found.remarks[0] == "the log's --max-model-len is 32768, the plan's 512: plan with --context 32768"


def test_nothing_is_claimed_without_evidence(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("INFO 11-30 10:00:20 [kv_cache_utils.py:1] CPU KV cache size: 12,345 tokens")
    found = checked(log, planned())
    assert found.causes == ()
    assert found.remarks[0].startswith("unexplained: kv tokens: nothing that the log states accounts for it")
    assert "non-default args" in found.remarks[0]
    assert (row(found, "kv_tokens").likely_because or "").startswith("unexplained; planned because ")


def sglang(**options: object) -> Plan:
    asked = {"engine": "sglang", "engine_version": "0.4.3", "gpu": "rtx4090-24gb", "tp": 4, **options}
    return api.plan(QWQ, **asked)  # type: ignore[arg-type]


def test_sglangs_arguments_are_compared() -> None:
    assert not checked(SGLANG, sglang(), QWQ).causes
    (reason,) = checked(SGLANG, sglang(kv_dtype="fp8_e5m2"), QWQ).causes
    assert (reason.code, reason.certainty, reason.explains) == ("cache_dtype", "exact", ("kv_tokens",))
    (reason,) = checked(SGLANG, sglang(tp=8), QWQ).causes
    assert (reason.code, reason.certainty) == ("split", "exact")
    assert "weights_bytes" in reason.explains


def test_memory_that_was_not_free_is_named() -> None:
    """The log of a card of 24 GB against a plan for one of 48 GB: half of it seems to be held."""
    found = checked(SGLANG, sglang(gpu="l40s-48gb"), QWQ)
    (reason,) = found.causes
    assert (reason.code, reason.certainty) == ("other_process", "stated")
    assert "21.63 GiB of the GPU's 44.40 GiB were free at the start" in reason.text
    assert row(found, "kv_k_bytes").follows_from[0] == "pool"


@pytest.mark.parametrize(
    ("name", "options", "codes", "rows"),
    [
        ("f16_8192_np4", {"context": 4096, "parallel": 4}, {"context"}, 20),
        ("f16_8192_np4", {"context": 8192, "parallel": 2}, {"slots"}, 20),
        ("f16_4096_np2_swa_full", {"context": 4096, "parallel": 2}, {"full_window_cache"}, 20),
        ("k_q8_0_v_q4_0_4096_np1", {"context": 4096, "parallel": 2}, {"slots", "cache_dtype"}, 20),
        ("q8_0_8192_auto4_unified", {"context": 8192, "parallel": 4}, {"shared_slots", "cache_dtype"}, 20),
        (
            "q4_0_8192_np2",
            {"context": 4096, "parallel": 2, "ubatch": 128},
            {"context", "cache_dtype", "micro_batch"},
            20,
        ),
    ],
)
def test_llama_servers_settings_explain_every_row(
    gemma: Path, name: str, options: dict[str, object], codes: set[str], rows: int
) -> None:
    plan = api.plan(gemma, engine="llamacpp", **options)  # type: ignore[arg-type]
    found = api.check(GOLDEN / "llamacpp" / f"{name}.log", plan=plan)  # the command names the model
    assert set(by_code(found)) == codes
    assert {reason.certainty for reason in found.causes} == {"exact"}
    assert f"all {rows} rows that the log states agree" in found.remarks[0]
    explained = {name for reason in found.causes for name in reason.explains}
    assert explained == {row.name for row in found.rows if row.verdict == "differs"}
    assert not any(remark.startswith("the server runs") for remark in found.remarks)


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({"context": 4096, "parallel": 2, "kv_dtype": "q8_0"}, {"context"}),
        ({"context": 8192, "parallel": 1}, {"slots", "cache_dtype"}),
    ],
)
def test_ollamas_settings_explain_every_row(gemma: Path, options: dict[str, object], codes: set[str]) -> None:
    """Ollama's log of num_ctx 8192, two slots and q8_0."""
    plan = api.plan(gemma, engine="ollama", **options)  # type: ignore[arg-type]
    found = api.check(GOLDEN / "ollama" / "gemma3_270m_q8_0_8192x2.log", plan=plan, source=gemma)
    assert set(by_code(found)) == codes
    assert {reason.certainty for reason in found.causes} == {"exact"}


def test_tensorrt_llms_tokens_tell_the_dtype_and_the_digits_of_the_pool() -> None:
    """A public log of SmolLM2-135M: 422,048 tokens in 9.06 GiB."""
    source, log = GOLDEN / "configs" / "HuggingFaceTB__SmolLM2-135M-Instruct.json", "smollm2_2026.log"
    codes = {}
    for dtype in ("fp8", "auto"):
        plan = api.plan(source, engine="tensorrt-llm", gpu="rtx4090-24gb", pool_gib=9.06, context=2049, kv_dtype=dtype)
        (reason,) = checked(GOLDEN / "tensorrt_llm" / log, plan, source).causes
        codes[dtype] = (reason.code, reason.certainty, reason.explains)
    rows = ("kv_tokens", "num_gpu_blocks")
    assert codes == {"fp8": ("cache_dtype", "exact", rows), "auto": ("pool_digits", "exact", rows)}


def test_lmdeploys_share_explains_its_budget() -> None:
    """TurboMind's log of a share of 0.8763: 55,634.70 of 63,488.19 MB."""
    source = GOLDEN / "configs" / "Qwen__Qwen3-8B.json"
    plan = api.plan(source, engine="lmdeploy", gpu="h100-80gb", context=32768)
    (reason,) = checked(GOLDEN / "lmdeploy" / "turbomind_0.17.log", plan, source).causes
    assert (reason.code, reason.certainty) == ("memory_share", "stated")
    assert "the log's --cache-max-entry-count is 0.8763, the plan's 0.8" in reason.text


def test_a_setting_that_does_not_give_the_logs_numbers_is_only_possible() -> None:
    """A log of another model with an int8 cache."""
    source = GOLDEN / "configs" / "Qwen__Qwen3-8B.json"
    options = {"engine": "lmdeploy", "gpu": "h100-80gb", "context": 32768, "engine_args": {"backend": "pytorch"}}
    plan = api.plan(source, **options)  # type: ignore[arg-type]
    found = checked(GOLDEN / "lmdeploy" / "pytorch_0.18.log", plan, source)
    (reason,) = found.causes
    assert (reason.code, reason.certainty, reason.explains) == ("cache_dtype", "possible", ())
    assert found.remarks[0].startswith("unexplained: num gpu blocks, kv tokens")


def test_a_pool_that_was_given_says_nothing_of_the_overhead() -> None:
    found = checked(started("block_size_32"), planned(pool_gib=None, weights_gib=0.5))
    assert row(found, "kv_pool_bytes").verdict == "differs"
    assert "overhead_estimate" not in by_code(found)


SETTINGS: list[tuple[str, Value]] = [
    *(("prefix_caching", value) for value in (True, False)),
    *(("kv_unified", value) for value in (True, False)),
    ("swa_full", True),
    *(("util", 0.8), ("context", 4096), ("kv_dtype_k", "q8_0"), ("share_gib", 4.5), ("pool_gib", 3.81)),
    ("disable-hybrid-kv-cache-manager", True),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_what_is_advised_is_what_the_command_takes(name: str, value: Value) -> None:
    parser = argparse.ArgumentParser()
    asking.add_arguments(parser)
    found = asking.ask(parser.parse_args(option(name, value).split()))
    assert value_of(found, name) == ("true" if name.startswith("disable") else value)


def test_a_switch_without_an_opposite_is_left_out() -> None:
    assert option("swa_full", False) == "without --swa-full"


def test_every_cause_is_one_file_with_its_page() -> None:
    owners: dict[str, str] = {}
    for code in causes.codes():
        title, seen = causes.page(code)
        assert title[0].isupper()
        assert seen, code
        found = causes.cause(code)
        assert found.settings or found.test or found.guesses, code
        for name in found.settings:
            assert owners.setdefault(name, code) == code, f"{name} belongs to {owners[name]} and {code}"
    assert len(causes.codes()) >= 20


def test_the_document_of_all_causes_is_up_to_date() -> None:
    """python scripts/cause_pages.py writes it again."""
    assert (Path(__file__).parents[2] / "docs" / "causes.md").read_text() == document()
