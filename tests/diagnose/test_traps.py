"""Fourteen ways in which an engine's metrics mislead, each with a load or a scrape that does. Reading the names and
label sets right is tested with the engines; these are the conclusions."""

from __future__ import annotations

from pathlib import Path

import pytest
from vllm_pages import ITL, TTFT, Server, capacity, healthy

from kvlab import diagnoses
from kvlab.core.diagnosis import Case, Diagnosis, Look
from kvlab.core.scrape import Histogram, Reading
from kvlab.diagnosing import from_files, judge
from kvlab.recordings._pages import of_text

SAVED = Path(__file__).parents[1] / "golden" / "diagnose"
RECORDED = SAVED.parent / "metrics"


def of(*readings: Reading, seconds: float = 10) -> Diagnosis:
    return judge(Case(looks=tuple(Look(at * seconds, reading) for at, reading in enumerate(readings))))


def of_pages(*pages: str, seconds: float = 30) -> Diagnosis:
    return of(*(of_text(page, None) for page in pages), seconds=seconds)


def because(found: Diagnosis, verdict: str) -> str:
    return next(other.because for other in found.others if other.verdict == verdict)


def holds(found: Diagnosis, verdict: str) -> str:
    return next(other.holds for other in found.others if other.verdict == verdict)


def test_1_an_absent_metric_is_unknown_and_not_zero() -> None:
    """Without the gauge of the cache no verdict on the cache is given, for or against."""
    page = "\n".join(line for line in capacity()[0].split("\n") if "kv_cache_usage" not in line)
    found = of_pages(page)
    assert found.verdict == "not_enough_evidence"
    assert holds(found, "capacity_bound") == "unknown"
    assert any("kv_used_ratio" in text for text in found.missing)


def test_2_one_full_engine_of_two_is_capacity_bound_whatever_the_mean() -> None:
    """Engine 0 is full with a queue, engine 1 nearly empty: together 54 % and 51 running, which is nobody's state."""
    pools = {
        "engine=0": {"running": 41.0, "waiting": 12.0, "kv_used_ratio": 0.99},
        "engine=1": {"running": 10.0, "waiting": 0.0, "kv_used_ratio": 0.09},
    }
    both = Reading(engine="vllm", values={"running": 51, "waiting": 12, "kv_used_ratio": 0.99}, pools=pools)
    found = of(both, both, both)
    assert (found.verdict, found.replicas) == ("capacity_bound", 2)
    assert any("engine=0" in text for text in found.because)
    mixed = {
        "engine=0": {**pools["engine=0"], "kv_used_ratio": 0.2},
        "engine=1": {**pools["engine=1"], "kv_used_ratio": 0.99},
    }
    # the queue stands before the engine with room, the full one has none
    apart = Reading(engine="vllm", values={"running": 51, "waiting": 12, "kv_used_ratio": 0.99}, pools=mixed)
    assert of(apart, apart, apart).verdict == "scheduler_limit_bound"


def test_3_no_preemption_with_a_full_pool_and_a_queue_is_capacity_bound() -> None:
    """vLLM V1 holds requests back at admission: 85 running, the cache at 99 %, no preemption."""
    server = Server()
    server.gauge(num_requests_running=85, num_requests_waiting=31, kv_cache_usage_perc=0.99)
    server.gauge(num_requests_waiting_by_reason__capacity=31)
    server.count(num_preemptions=0)
    first = server.page()
    server.count(generation_tokens=60_000, prompt_tokens=20_000)
    found = of_pages(first, server.page())
    assert found.verdict == "capacity_bound"
    # there is nothing that a lower limit would end
    assert not any("admit fewer" in step.do for step in found.interventions)


def test_4_a_low_use_does_not_say_that_prefixes_are_kept() -> None:
    """Use counts live requests: at 12 % all prefixes may have been evicted, and prompts are computed again."""
    server = Server()
    server.gauge(num_requests_running=9, num_requests_waiting=0, kv_cache_usage_perc=0.12)
    server.gauge(num_requests_waiting_by_reason__capacity=0)
    first = server.page()
    server.count(generation_tokens=3_000, prompt_tokens=400_000, prefix_cache_queries=400_000, prefix_cache_hits=8_000)
    server.count(prompt_tokens_by_source__local_compute=392_000)
    server.observe(TTFT, (4.0, 60))
    found = of_pages(first, server.page())
    assert found.verdict == "prefix_recompute_bound"
    assert any("keep what was computed longer" in step.do for step in found.interventions)


def test_5_a_queue_with_a_low_use_is_the_sequence_limit() -> None:
    found = judge(Case(looks=from_files((str(SAVED / "vllm_log_scale2000.csv"),), None, None)))
    assert found.verdict == "scheduler_limit_bound"
    assert "34%" in because(found, "capacity_bound")


@pytest.mark.parametrize(("use", "advice"), [(0.6, "--schedule-conservativeness to 0.3"), (0.97, "1.3")])
def test_6_sglang_is_told_to_reserve_less_or_more(use: float, advice: str) -> None:
    """A queue and use below 0.9: reserve less; retractions: reserve more."""
    told = [
        Reading(
            engine="sglang",
            values={
                "running": 40,
                "waiting": 25,
                "kv_used_ratio": use,
                "preemptions_total": at * (9 if use > 0.9 else 0),
            },
        )
        for at in range(4)
    ]
    found = of(*told)
    assert found.verdict == ("capacity_bound" if use > 0.9 else "scheduler_limit_bound")
    assert any(advice in step.do for step in found.interventions)
    assert sum("conservativeness" in step.do for step in found.interventions) == 1


def test_6_about_one_retraction_a_minute_is_fine() -> None:
    told = [
        Reading(engine="sglang", values={"running": 20, "waiting": 0, "kv_used_ratio": 0.9, "preemptions_total": at})
        for at in range(4)
    ]
    assert holds(of(*told, seconds=65), "capacity_bound") == "no"


def test_7_llama_server_has_no_use_of_the_cache_and_its_slots_are_the_limit() -> None:
    told = Reading(engine="llamacpp", values={"running": 4, "waiting": 4, "slots": 4, "kv_used_tokens": 5_088})
    found = of(told, told, told)
    assert found.verdict == "scheduler_limit_bound"
    assert any("-np" in step.do for step in found.interventions)
    page = (RECORDED / "llama_server_01_under_load_12clients_4slots.prom").read_text()
    assert of_pages(page).verdict == "not_enough_evidence"  # /metrics alone does not state the slots


def test_8_tgi_says_nothing_of_its_cache() -> None:
    page = "tgi_batch_current_size 48\ntgi_queue_size 120\ntgi_batch_current_max_tokens 90112\n"
    found = of_pages(page, page, page)
    assert (found.engine, found.verdict) == ("tgi", "not_enough_evidence")
    assert holds(found, "capacity_bound") == "unknown"
    assert any("how full the cache is" in text for text in found.missing)


def test_9_an_exporter_of_ollama_says_nothing_of_its_cache() -> None:
    page = 'ollama_requests_total{model="gemma"} 12\nollama_tokens_generated_total{model="gemma"} 900\n'
    found = of_pages(page, page)
    assert (found.engine, found.verdict) == ("ollama", "not_enough_evidence")
    assert holds(found, "capacity_bound") == "unknown"


def test_10_a_simulator_with_vllms_names_is_judged_by_them() -> None:
    """llm-d-inference-sim serves gauges and no histograms: what they decide is decided, no latency is made up."""
    page = 'vllm:num_requests_running{model_name="m"} 3\nvllm:num_requests_waiting{model_name="m"} 0\n'
    page += 'vllm:kv_cache_usage_perc{model_name="m"} 0.4\n'
    found = of_pages(page, page, page)
    assert found.verdict == "not_enough_evidence"
    assert holds(found, "capacity_bound") == "no"


@pytest.mark.parametrize("last", [12, 15, 17])
def test_11_the_preemption_counter_lags(last: int) -> None:
    """It stood at 0 for a minute while 12 running became 8 and 3 waited: use and queue tell before it does."""
    looks = from_files((str(RECORDED / "vllm_0.32_capacity.csv"),), None, 12.0)[: last + 1]
    assert looks[-1].reading.values["preemptions_total"] == 0
    found = judge(Case(looks=looks[max(0, last - 5) :]))
    assert found.verdict == "capacity_bound"


def test_11_two_scrapes_of_that_run_are_enough() -> None:
    files = tuple(str(RECORDED / f"vllm_0.32_2_capacity_t{at}.prom.gz") for at in ("00", "17"))
    found = judge(Case(looks=from_files(files, None, 204.0)))
    assert found.verdict == "capacity_bound"
    assert any("8 run where 12 did" in text for text in found.because)


def test_11_nothing_is_said_before_the_pool_is_full() -> None:
    looks = from_files((str(RECORDED / "vllm_0.32_capacity.csv"),), None, 12.0)[:9]
    found = judge(Case(looks=looks))
    assert holds(found, "capacity_bound") == "no"


def test_12_use_is_of_one_block_less_than_the_pool_states() -> None:
    """The null block: 12 requests of 4 blocks are 48 % of 100, and the page states 101, as a plan does."""
    (look,) = from_files((str(RECORDED / "vllm_0.32_2_capacity_t00.prom.gz"),), None, None)
    told = look.reading
    assert told.values["kv_used_ratio"] == 0.48
    assert told.values["kv_tokens"] == 3232
    assert told.values["num_gpu_blocks"] == 101


def test_13_a_good_hit_rate_does_not_hide_recompute_after_preemption() -> None:
    """Preempted requests are computed again without a query: 62 % of hits, and the pool is what is short."""
    server = Server()
    server.gauge(num_requests_running=40, num_requests_waiting=0, kv_cache_usage_perc=0.97)
    first = server.page()
    server.count(num_preemptions=40, generation_tokens=30_000, prompt_tokens=90_000, request_success__length=60)
    server.count(prefix_cache_queries=90_000, prefix_cache_hits=56_000, prompt_tokens_by_source__local_compute=34_000)
    server.observe(ITL, (0.02, 30_000))
    server.observe(TTFT, (0.4, 60))
    found = of_pages(first, server.page())
    assert found.verdict == "capacity_bound"
    assert "hit rate" in diagnoses.page("capacity_bound").cause


def test_a_healthy_server_that_preempted_once_is_healthy() -> None:
    """The counter is above 0 for ever: only what it grows by counts."""
    assert of_pages(*healthy()).verdict == "healthy"


def test_percentiles_are_of_the_window() -> None:
    """A slow hour long ago does not make a quick window slow, nor the other way round."""
    bounds, old = (0.1, 2.5, float("inf")), (0.0, 0.0, 1_000.0)
    values = {"running": 4.0, "waiting": 0.0, "kv_used_ratio": 0.2, "generation_tokens_total": 0.0}
    itl = Histogram(bounds=(0.05, float("inf")), counts=(10.0, 10.0), sum=0.1)
    first = Reading(
        engine="vllm",
        values=values,
        histograms={"ttft_seconds": Histogram(bounds=bounds, counts=old), "itl_seconds": itl},
    )
    quick = Histogram(bounds=bounds, counts=(100.0, 100.0, 1_100.0))
    later = Histogram(bounds=(0.05, float("inf")), counts=(5_000.0, 5_000.0), sum=99.0)
    last = Reading(
        engine="vllm",
        values={**values, "generation_tokens_total": 5_000.0},
        histograms={"ttft_seconds": quick, "itl_seconds": later},
    )
    assert of(first, last).verdict == "healthy"


def test_what_another_tier_held_counts_as_found() -> None:
    """LMCache and the like: few local hits, most of the rest from the host."""
    server = Server()
    server.gauge(num_requests_running=9, num_requests_waiting=0, kv_cache_usage_perc=0.3)
    first = server.page()
    server.count(generation_tokens=3_000, prompt_tokens=400_000, prefix_cache_queries=400_000, prefix_cache_hits=8_000)
    server.count(external_prefix_cache_queries=392_000, external_prefix_cache_hits=320_000)
    server.count(prompt_tokens_by_source__local_compute=72_000)
    server.observe(TTFT, (4.0, 60))
    found = of_pages(first, server.page())
    assert found.verdict == "compute_bound"
    assert any("82%" in text for text in found.because)


def test_requests_that_wait_for_an_adapter_do_not_wait_for_room() -> None:
    told = {"running": 30, "waiting": 14, "waiting_capacity": 0, "waiting_deferred": 14, "kv_used_ratio": 0.97}
    found = of(*(Reading(engine="vllm", values={**told, "preemptions_total": 0}) for _ in range(3)))
    assert holds(found, "capacity_bound") == "no"
    assert "14 for other reasons" in because(found, "scheduler_limit_bound")


def test_14_no_token_counted_while_requests_run_is_not_no_token_made() -> None:
    """llama-server counts the tokens of a request when it ends, and those of its prompt before."""
    told = [
        Reading(
            engine="llamacpp",
            values={"running": 2, "waiting": 0, "slots": 4, "prefill_tokens_total": 900 * at, "prompt_tokens_total": at}
            | {"generation_tokens_total": 50},
        )
        for at in (1, 2, 3)
    ]
    found = of(*told)
    assert found.verdict == "not_enough_evidence"
    assert any("none was counted though requests run" in text for text in found.missing)
    assert not any(" 0 tokens" in text for text in (*found.because, *(other.because for other in found.others)))
