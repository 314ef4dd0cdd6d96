"""Recorded and synthetic loads get the verdict that a person gives them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from vllm_pages import ITL, TTFT, Server, bandwidth, capacity, healthy, prefix

import kvlab
from kvlab import diagnoses
from kvlab.core.diagnosis import Case, Diagnosis, Look, Planned
from kvlab.core.errors import BadInput
from kvlab.core.model import Origin
from kvlab.core.plan import Plan
from kvlab.core.scrape import Histogram, Reading
from kvlab.core.speed import Range, Turn
from kvlab.diagnosing import judge, listing
from kvlab.reporting.diagnosis_pages import document

GOLDEN = Path(__file__).parents[1] / "golden"
SAVED = GOLDEN / "diagnose"
Run = Callable[..., Diagnosis]


@pytest.fixture
def of_pages(tmp_path: Path) -> Run:
    """Diagnoses scrapes of the given texts, `seconds` apart."""

    def run(pages: tuple[str, ...], seconds: float | None = 30, **asked: Any) -> Diagnosis:
        files = []
        for at, page in enumerate(pages):
            files.append(tmp_path / f"{at}.prom")
            files[-1].write_text(page)
        return kvlab.diagnose(*files, seconds=seconds, **asked)

    return run


def others(found: Diagnosis) -> dict[str, str]:
    return {other.verdict: other.holds for other in found.others}


@pytest.mark.parametrize(
    ("pages", "verdict"),
    [
        (capacity(), "capacity_bound"),
        (prefix(), "prefix_recompute_bound"),
        (bandwidth(), "bandwidth_bound"),
        (healthy(), "healthy"),
    ],
    ids=["capacity", "prefix", "bandwidth", "healthy"],
)
def test_a_load_made_of_known_numbers(of_pages: Run, pages: tuple[str, str], verdict: str) -> None:
    found = of_pages(pages)
    assert (found.engine, found.replicas, found.verdict) == ("vllm", 1, verdict)
    assert found.evidence
    assert all(one.line for one in found.evidence)
    assert [step.rank for step in found.interventions] == list(range(1, len(found.interventions) + 1))
    assert 1 <= len(found.interventions) <= 3
    assert set(others(found)) == set(diagnoses.codes()) - {verdict}
    # flags of other engines do not help here
    assert not any("SGLang" in step.do or "llama.cpp" in step.do for step in found.interventions)


def test_what_was_there_before_the_window_does_not_count(of_pages: Run) -> None:
    """The server preempted long ago and has 60 % of hits over its life: the window has 5 % and no preemption."""
    found = of_pages(prefix())
    told = {one.metric: one.value for one in found.evidence}
    assert told["prefix_hits_tokens_total"] / told["prefix_queries_tokens_total"] == pytest.approx(0.05)
    assert any("5%" in text for text in found.because)


def test_the_same_two_pages_mean_nothing_without_the_time_between(of_pages: Run) -> None:
    with pytest.raises(BadInput, match="--seconds"):
        of_pages(capacity(), seconds=None)


@pytest.mark.parametrize("scale", [300, 2000])
def test_256_running_and_a_queue_with_the_cache_half_empty_is_the_sequence_limit(scale: int) -> None:
    found = kvlab.diagnose(SAVED / f"vllm_log_scale{scale}.csv")
    assert found.verdict == "scheduler_limit_bound"
    assert "no more than 256 run" in " ".join(found.because)
    assert others(found)["capacity_bound"] == "no"
    assert "--max-num-seqs" in found.interventions[0].do


def test_a_calm_series_without_latencies_is_not_called_healthy() -> None:
    """Never more than 4 waiting, 19 % of the cache at most: nothing holds it back, and nothing times its answers."""
    found = kvlab.diagnose(SAVED / "vllm_log_scale100.csv")
    assert found.verdict == "not_enough_evidence"
    assert {"capacity_bound", "scheduler_limit_bound"} <= {
        code for code, holds in others(found).items() if holds == "no"
    }
    assert any("time to first token" in text for text in found.missing)


def test_a_queue_of_2826_before_a_cache_at_28_percent_is_not_capacity() -> None:
    found = kvlab.diagnose(GOLDEN / "sglang" / "scrape_2025_queue2826.prom")
    assert found.engine == "sglang"
    assert others(found)["capacity_bound"] == "no"
    assert found.verdict == "not_enough_evidence"
    assert any("limit on running requests" in text for text in found.missing)


def test_one_scrape_of_a_full_and_preempting_server_is_capacity_and_no_more_than_tentative() -> None:
    found = kvlab.diagnose(GOLDEN / "vllm" / "metrics" / "v1_preempting.prom")
    assert (found.verdict, found.confidence) == ("capacity_bound", "tentative")
    assert any("second scrape" in text for text in found.missing)
    assert {one.metric: one.value for one in found.evidence} == {"kv_used_ratio": 0.969, "preemptions_total": 458}


def test_a_fragment_without_a_queue_decides_nothing() -> None:
    """0.85 of the pool and 48 retractions since the start: neither says what holds requests back now."""
    found = kvlab.diagnose(GOLDEN / "sglang" / "scrape_0.5.17_retracting.prom")
    assert found.verdict == "not_enough_evidence"
    assert found.missing


def test_an_idle_server() -> None:
    found = kvlab.diagnose(GOLDEN / "vllm" / "metrics" / "0.32.0_cpu_fresh.prom")
    assert (found.verdict, found.confidence) == ("idle", "tentative")


def test_idle_at_both_ends_and_busy_in_between_is_not_idle(of_pages: Run) -> None:
    server = Server()
    server.gauge(num_requests_running=0, num_requests_waiting=0, kv_cache_usage_perc=0.0)
    first = server.page()
    server.count(generation_tokens=9_000, request_success__length=30)
    server.observe(TTFT, (0.1, 30))
    server.observe(ITL, (0.02, 8_970))
    assert of_pages((first, server.page())).verdict == "healthy"


@pytest.mark.parametrize(("gpu", "verdict"), [("l40s", "bandwidth_bound"), ("h100", "not_enough_evidence")])
def test_a_plan_tells_reading_from_other_work(of_pages: Run, qwen: Path, gpu: str, verdict: str) -> None:
    """16.4 GB of weights and 70 % of the pool in 51 ms: 79 % of an L40S's 864 GB/s, 34 % of an H100's 3,350."""
    plan: Plan = kvlab.plan(qwen, gpu=gpu, context=8192)
    assert plan.capacity is not None
    pages = bandwidth(num_gpu_blocks=plan.capacity.num_blocks, kv_cache_size_tokens=plan.capacity.tokens, block_size=16)
    found = of_pages(pages, plan=plan)
    assert found.verdict == verdict
    said = " ".join(found.because) + " ".join(other.because for other in found.others)
    assert ("79%" if gpu == "l40s" else "34%") in said
    if gpu == "h100":
        assert any("host" in text for text in found.missing)


def test_a_plan_of_another_server_is_said_and_not_used(of_pages: Run, qwen: Path) -> None:
    found = of_pages(bandwidth(num_gpu_blocks=9_000, kv_cache_size_tokens=144_000), plan=kvlab.plan(qwen, gpu="h100"))
    assert (found.verdict, found.confidence) == ("bandwidth_bound", "tentative")
    assert any("144,000 cache tokens" in text for text in found.missing)


@pytest.mark.parametrize(
    ("name", "tokens", "says"),
    [
        ("Qwen/Qwen3-8B", 300_000, "serves gemma, and --plan is for Qwen/Qwen3-8B"),
        ("google/gemma-3-270m", 300_000, None),
        ("Qwen/Qwen3-8B", 396_064, None),  # an alias of the planned model: the pool is the planned one
        ("google/gemma-3-270m", 55_356, "55,356 cache tokens"),
    ],
)
def test_the_plan_of_another_model_gives_no_numbers(
    of_pages: Run, qwen: Path, name: str, tokens: int, says: str | None
) -> None:
    plan: Plan = kvlab.plan(qwen, gpu="h100", context=8192)
    plan = structs.replace(plan, source=Origin(name=name, kind="hub"))
    pages = bandwidth(num_gpu_blocks=tokens // 16, kv_cache_size_tokens=tokens, block_size=16)
    found, alone = of_pages(pages, plan=plan), of_pages(pages)
    if says is None:
        assert not any("--plan is for" in text for text in found.missing)
    else:
        assert says in found.missing[0]
        assert structs.replace(found, missing=found.missing[1:]) == alone


@pytest.mark.parametrize(("computed", "verdict"), [(30_000, "compute_bound"), (7_000, "not_enough_evidence")])
def test_new_prompts_are_held_to_the_planned_rate(of_pages: Run, qwen: Path, computed: int, verdict: str) -> None:
    """Half of the prompts' tokens are found, the first tokens are late: an H100 computes 17,000 and more a second."""
    plan: Plan = kvlab.plan(qwen, gpu="h100", context=8192)
    assert plan.capacity is not None
    stated = {"num_gpu_blocks": plan.capacity.num_blocks or 0, "kv_cache_size_tokens": plan.capacity.tokens}
    found = of_pages(prefix(computed=computed, hit=0.5, block_size=16, **stated), plan=plan)
    assert found.verdict == verdict
    if verdict == "not_enough_evidence":
        assert any("what holds up the prompts" in text for text in found.missing)
    assert of_pages(prefix(computed=computed, hit=0.5)).confidence == "tentative"


@pytest.mark.parametrize(("running", "verdict"), [(900, "compute_bound"), (40, "not_enough_evidence")])
def test_a_large_batch_on_a_quick_bus_is_bound_by_compute(running: int, verdict: str) -> None:
    """From 600 to 700 requests on computing takes longer, by the plan; reading takes 5 ms of the 80 of a token."""
    plan = Planned(
        engine="vllm",
        kv_dtype="fp8",
        weights_bytes=8 << 30,
        pool_bytes=10 << 30,
        tokens=1_000_000,
        bandwidth=3.35e12,
        reached=Range(0.6, 0.85),
        compute_from=Turn(600, 700),
    )
    bounds, counts = (0.05, 0.1, math.inf), (0.0, 0.0, 0.0)
    values = {"running": float(running), "waiting": 0.0, "kv_used_ratio": 0.5, "preemptions_total": 0.0}
    first = Reading(
        engine="vllm",
        values={**values, "generation_tokens_total": 0, "prompt_tokens_total": 0},
        histograms={"itl_seconds": Histogram(bounds=bounds, counts=counts, sum=0.0)},
    )
    last = Reading(
        engine="vllm",
        values={**values, "generation_tokens_total": 90_000, "prompt_tokens_total": 9_000},
        histograms={"itl_seconds": Histogram(bounds=bounds, counts=(0.0, 90_000.0, 90_000.0), sum=7_200.0)},
    )
    found = judge(Case(looks=(Look(0, first), Look(10, last)), plan=plan))
    assert found.verdict == verdict


def test_a_plan_for_another_engine_is_refused(of_pages: Run, qwen: Path) -> None:
    with pytest.raises(BadInput, match="the plan is for sglang"):
        of_pages(bandwidth(), plan=kvlab.plan(qwen, gpu="h100", engine="sglang"))


def test_the_plan_states_what_fp8_and_more_memory_buy(of_pages: Run, qwen: Path) -> None:
    plan: Plan = kvlab.plan(qwen, gpu="h100", context=8192)
    held = {other.kv_dtype: other.tokens for other in plan.alternatives}
    assert plan.capacity is not None
    found = of_pages(capacity(kv_cache_size_tokens=plan.capacity.tokens), plan=plan)
    _, smaller, larger = found.interventions
    assert f"{held['fp8']:,} tokens" in smaller.expect
    assert f"{held['bfloat16']:,}" in smaller.expect
    assert "tokens more" in larger.expect
    assert "kvlab ab" in smaller.verify


def test_a_trace_tells_whether_anything_could_be_reused(of_pages: Run, tmp_path: Path) -> None:
    trace = tmp_path / "traffic.json"
    trace.write_text(json.dumps({"reuse": {"ideal": {"token_weighted": 0.62}}}))
    assert of_pages(prefix(), traffic=str(trace)).verdict == "prefix_recompute_bound"
    trace.write_text(json.dumps({"reuse": {"ideal": {"token_weighted": 0.06}}}))
    found = of_pages(prefix(), traffic=str(trace))
    assert found.verdict == "compute_bound"
    assert any("6% could be" in text for text in found.because)


def test_another_objective_is_another_verdict(of_pages: Run) -> None:
    assert of_pages(bandwidth(), tpot_seconds=0.1).verdict == "healthy"
    assert of_pages(healthy(), tpot_seconds=0.009).verdict == "not_enough_evidence"


def test_a_restart_leaves_out_what_came_before(of_pages: Run) -> None:
    """The counters fall: the window is broken, and only the last look is left."""
    first, last = capacity()
    later = first.replace("process_start_time_seconds 1.795", "process_start_time_seconds 1.796")
    assert later != first
    found = of_pages((last, later))
    assert (found.looks, found.seconds) == (1, None)
    assert (found.verdict, found.confidence) == ("capacity_bound", "tentative")
    assert "so the server was restarted in between" in found.missing[0]


def test_precedence_is_one_order_and_every_page_is_whole() -> None:
    pages = listing().diagnoses
    assert [page.code for page in pages] == [
        "idle",
        "capacity_bound",
        "scheduler_limit_bound",
        "prefix_recompute_bound",
        "bandwidth_bound",
        "compute_bound",
        "healthy",
    ]
    assert len({page.precedence for page in pages}) == len(pages)
    for page in pages:
        assert page.conditions
        assert page.do
        assert all(address.startswith("https://") for address in page.source)


def test_of_two_verdicts_that_hold_the_first_is_given(of_pages: Run) -> None:
    """Requests wait before a full pool while prompts are computed again: the pool goes first, and says so."""
    server = Server()
    server.gauge(num_requests_running=42, num_requests_waiting=9, kv_cache_usage_perc=0.99)
    server.gauge(num_requests_waiting_by_reason__capacity=9)
    first = server.page()
    server.count(generation_tokens=9_000, prompt_tokens=9e5, prefix_cache_queries=9e5, prefix_cache_hits=1e4)
    server.count(prompt_tokens_by_source__local_compute=8.9e5)
    server.observe(TTFT, (9.0, 200))
    found = of_pages((first, server.page()))
    assert found.verdict == "capacity_bound"
    assert others(found)["prefix_recompute_bound"] == "no"


def test_an_unknown_verdict_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean capacity_bound"):
        diagnoses.page("capacity_bond")


def test_the_document_of_all_verdicts_is_up_to_date() -> None:
    """python scripts/diagnosis_pages.py writes it again."""
    assert (Path(__file__).parents[2] / "docs" / "diagnoses.md").read_text() == document(listing())


def test_two_scrapes_in_the_wrong_order_are_refused_by_the_start_that_both_state(of_pages: Run) -> None:
    first, last = capacity()
    with pytest.raises(BadInput, match="swapped"):
        of_pages((last, first))


def test_counters_that_fell_without_a_stated_start_are_said(of_pages: Run) -> None:
    pages = ["\n".join(line for line in page.split("\n") if "process_start_time" not in line) for page in capacity()]
    found = of_pages((pages[1], pages[0]))
    assert (found.looks, found.seconds) == (1, None)
    assert sum("swapped, or the server was restarted" in text for text in found.missing) == 1
    assert not any("swapped" in text for text in of_pages((pages[0], pages[1])).missing)


def test_each_missing_thing_is_said_once() -> None:
    found = kvlab.diagnose(GOLDEN / "sglang" / "scrape_0.5.17_retracting.prom")
    every = "; ".join(found.missing)
    for what in ("running requests, waiting requests", "time to first token", "generated tokens"):
        assert every.count(what) == 1
    assert sum("not in the metrics" in text for text in found.missing) == 1
    assert len(found.missing) == len(set(found.missing)) <= 5
