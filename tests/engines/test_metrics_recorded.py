"""Recorded scrapes: every number read is the one that a person reads in the file (zcat FILE | grep NAME)."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path

import pytest

from kvlab import engines
from kvlab.core.scrape import Histogram, Percentile, Reading, window

GOLDEN = Path(__file__).parents[1] / "golden"
RECORDED = GOLDEN / "metrics"
INF = math.inf


def vllm(name: str) -> Reading:
    return engines.reading("vllm", {"/metrics": gzip.decompress((RECORDED / f"{name}.prom.gz").read_bytes()).decode()})


def llama(name: str, **pages: str) -> Reading:
    return engines.reading("llamacpp", {"/metrics": (RECORDED / f"{name}.prom").read_text(), **pages})


def bucket(told: Histogram, share: float) -> tuple[float, float]:
    """The bucket that holds the quantile."""
    found = told.percentile(share)
    assert found is not None
    return found.low, found.high


def test_vllm_after_all_requests() -> None:
    found = vllm("vllm_0.32_3_after_capacity_phase")
    assert found.values == {
        "started_at": 1.79598934576e09,
        "running": 0,
        "waiting": 0,
        "waiting_capacity": 0,
        "waiting_deferred": 0,
        "kv_used_ratio": 0,
        "kv_tokens": 3_232,
        "max_concurrency": 1.578125,
        "num_gpu_blocks": 101,
        "kv_usable_blocks": 100,
        "block_size": 32,
        "preemptions_total": 3,
        "requests_total": 132,
        "prompt_tokens_total": 37_648,
        "prefill_tokens_total": 14_800,
        "generation_tokens_total": 3_241,
        "prefix_queries_tokens_total": 37_648,
        "prefix_hits_tokens_total": 22_848,
        "external_queries_tokens_total": 0,
        "external_hits_tokens_total": 0,
        "host_hits_tokens_total": 0,
        "storage_hits_tokens_total": 0,
        "peer_hits_tokens_total": 0,
    }
    assert found.pools == {}


@pytest.mark.parametrize(
    ("word", "count", "total"),
    [
        ("ttft_seconds", 144, 808.5886919498444),
        ("itl_seconds", 3_097, 2862.1232013309973),
        ("tpot_seconds", 132, 10.992074781129693),
        ("queue_seconds", 132, 0.006251601006624696),
        ("prefill_seconds", 132, 477.78722878400276),
        ("decode_seconds", 132, 2627.1058726899964),
        ("e2e_seconds", 132, 3115.376791238785),
        ("request_prompt_tokens", 132, 36_496),
        ("request_generation_tokens", 132, 3_000),
        ("iteration_tokens", 461, 18_041),
    ],
)
def test_vllm_histograms_hold_what_the_page_counts(word: str, count: float, total: float) -> None:
    found = vllm("vllm_0.32_3_after_capacity_phase").histograms[word]
    assert found.count == count
    assert found.sum == pytest.approx(total)


def test_vllm_buckets_are_those_of_the_page() -> None:
    found = vllm("vllm_0.32_3_after_capacity_phase").histograms["request_prompt_tokens"]
    assert found.bounds == (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, INF)
    assert found.counts == (0, 0, 0, 0, 0, 0, 12, 49, 132, 132, 132, 132)


def test_vllm_of_four_requests() -> None:
    found = vllm("vllm_0.32_cpu_one_request")
    stated = ("prompt_tokens_total", "generation_tokens_total", "prefix_queries_tokens_total", "block_size")
    assert [found.values[word] for word in stated] == [32, 216, 32, 128]
    assert (found.values["num_gpu_blocks"], found.values["kv_tokens"]) == (2730, 55_356)
    assert found.values["max_concurrency"] == 27.02970297029703
    assert (found.histograms["itl_seconds"].count, found.histograms["ttft_seconds"].count) == (212, 4)


def test_lines_are_evidence() -> None:
    found = vllm("vllm_0.32_2_capacity_t17")
    assert found.lines["kv_used_ratio"] == 'vllm:kv_cache_usage_perc{engine="0",model_name="gemma"} 0.88'
    assert found.lines["waiting_capacity"].endswith('reason="capacity"} 3.0')
    assert found.lines["num_gpu_blocks"].startswith("vllm:cache_config_info{")
    assert len(found.lines["requests_total"].splitlines()) == 5
    assert found.lines["ttft_seconds"].splitlines()[1].startswith("vllm:time_to_first_token_seconds_count{")
    assert found.lines.keys() == found.values.keys() | found.histograms.keys()


ROWS = {row["scrape"]: row for row in csv.DictReader((RECORDED / "vllm_0.32_capacity.csv").read_text().splitlines())}
WORDS = {
    "running": "num_requests_running",
    "waiting": "num_requests_waiting",
    "kv_used_ratio": "kv_cache_usage_perc",
    "preemptions_total": "num_preemptions_total",
    "prompt_tokens_total": "prompt_tokens_total",
    "generation_tokens_total": "generation_tokens_total",
    "prefix_queries_tokens_total": "prefix_cache_queries_total",
    "prefix_hits_tokens_total": "prefix_cache_hits_total",
    "waiting_capacity": "waiting_capacity",
    "waiting_deferred": "waiting_deferred",
}


@pytest.mark.parametrize(
    "at", ["2_capacity_t00", "2_capacity_t11", "2_capacity_t15", "2_capacity_t17", "2_capacity_t19"]
)
def test_the_series_is_the_one_extracted_when_it_was_recorded(at: str) -> None:
    values = vllm(f"vllm_0.32_{at}").values
    row = ROWS[f"v32_{at}.prom"]
    assert {word: values[word] for word in WORDS} == {word: float(row[name]) for word, name in WORDS.items()}


def test_a_window_of_132_seconds() -> None:
    """Scrapes 0 and 11, twelve seconds apart each. The server's own log says 12.0 to 14.4 tokens/s in between."""
    found = window(vllm("vllm_0.32_2_capacity_t00"), vllm("vllm_0.32_2_capacity_t11"), 11 * 12)
    assert found.restarted == ()
    assert found.grown("generation_tokens_total") == 2162 - 386
    assert 12.0 < (found.rate("generation_tokens_total") or 0) < 14.4
    assert (found.grown("requests_total"), found.grown("preemptions_total")) == (0, 0)
    between = found.histogram("itl_seconds")
    assert between is not None
    # of the 1,776 tokens 1,692 came within a second, 84 within 2.5
    assert (between.count, between.counts[11], between.counts[12]) == (1776, 1872 - 180, 2016 - 240)
    assert between.mean() == pytest.approx((1845.7320446349959 - 256.01714535099836) / 1776)
    assert [bucket(between, share) for share in (0.5, 0.95, 0.99)] == [(0.75, 1.0), (0.75, 1.0), (1.0, 2.5)]
    middle, slow = between.percentile(0.5), between.percentile(0.99)
    assert middle is not None
    assert slow is not None
    assert middle.estimate == pytest.approx(0.8812, abs=1e-4)
    assert slow.estimate == pytest.approx(2.1829, abs=1e-4)
    empty = found.histogram("ttft_seconds")
    assert empty is not None
    assert (empty.count, empty.percentile(0.5)) == (0, None)


def test_the_prefix_phase_hits_as_its_requests_were_told() -> None:
    """The 120 answers report 22,080 cached tokens of 35,344: the counters agree to the token."""
    found = window(vllm("vllm_0.32_0_fresh"), vllm("vllm_0.32_1_after_prefix_phase"), 400)
    assert found.grown("prefix_queries_tokens_total") == 35_344
    assert found.grown("prefix_hits_tokens_total") == 22_080
    assert found.grown("prefill_tokens_total") == 35_344 - 22_080
    first = found.histogram("ttft_seconds")
    assert first is not None
    assert (first.count, bucket(first, 0.5), bucket(first, 0.95)) == (120, (1.0, 2.5), (10.0, 20.0))
    assert first.mean() == pytest.approx(371.4218101501465 / 120)


def test_a_request_has_one_mean_and_a_token_one_gap() -> None:
    """132 requests ended, 120 of them after their first token; 3,097 tokens followed another one."""
    found = vllm("vllm_0.32_3_after_capacity_phase")
    assert (found.histograms["tpot_seconds"].count, found.histograms["itl_seconds"].count) == (132, 3_097)


def test_llama_server_under_load() -> None:
    slots = (RECORDED / "llama_server_01_slots.json").read_text()
    found = llama("llama_server_01_under_load_12clients_4slots", **{"/slots": slots})
    assert found.values == {
        "running": 4,
        "waiting": 4,
        "generation_tokens_total": 256,
        "prefill_tokens_total": 4842,
        "prompt_tokens_total": 4842 + 4804,
        "prefix_queries_tokens_total": 4842 + 4804,
        "prefix_hits_tokens_total": 4804,
        "prefill_seconds_total": 60.1571,
        "decode_seconds_total": 50.0034,
        "drafted_tokens_total": 0,
        "accepted_tokens_total": 0,
        "slots": 4,
        "n_ctx_slot": 2048,
        "kv_used_tokens": 1208 + 1208 + 1205 + 1208,
    }
    assert found.lines["running"] == "llamacpp:requests_processing 4"
    assert found.lines["slots"] == "/slots, its rows"
    assert found.histograms == {}


def test_llama_server_reused_what_its_slots_held() -> None:
    """12 requests share 1,201 tokens before 4 slots: 4 computed them, 8 found them."""
    found = window(llama("llama_server_00_fresh"), llama("llama_server_02_after_12_requests"), 200)
    assert found.grown("prefix_hits_tokens_total") == 8 * 1201
    assert found.grown("prefix_queries_tokens_total") == 4890 + 9608
    assert found.grown("generation_tokens_total") == 12 * 64


def test_sglang_of_early_2025() -> None:
    """https://github.com/sgl-project/sglang/blob/00b08c49/docs/references/production_metrics.md"""
    found = engines.reading("sglang", {"/metrics": (GOLDEN / "sglang" / "scrape_2025_queue2826.prom").read_text()})
    first, gap = found.histograms["ttft_seconds"], found.histograms["itl_seconds"]
    assert first.count == 11_008
    assert first.sum == pytest.approx(2.3518979474117756e06)
    # most waited longer than the last bound: no estimate, at least 30 s
    assert first.percentile(0.5) == Percentile(low=30.0, high=INF, estimate=None)
    assert (gap.count, bucket(gap, 0.5)) == (7.400757e06, (0.075, 0.1))
    assert found.histograms["e2e_seconds"].count == 11_228
    # its name has "per output token" in it, but there are 7.4 million of them: it is no mean of requests
    assert "tpot_seconds" not in found.histograms
    assert found.lines["waiting"] == 'sglang:num_queue_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 2826.0'


def test_vllm_v0_names() -> None:
    """Mid-2024: one request of 5 + 7 tokens; series of later releases were added to the page by hand."""
    found = engines.reading("vllm", {"/metrics": (GOLDEN / "vllm" / "metrics" / "v0_and_v1_names.prom").read_text()})
    assert (found.values["num_gpu_blocks"], found.values["block_size"]) == (7281, 16)
    assert found.histograms["ttft_seconds"].sum == 0.31326723098754883
    assert found.histograms["e2e_seconds"].count == 1
    # both names are served: the newer one counts, alone
    assert found.histograms["itl_seconds"] == Histogram(
        bounds=(0.01, 0.1, INF), counts=(141, 144, 144), sum=0.6237391703762114
    )
    old = "".join(line for line in v0_page().splitlines(keepends=True) if "inter_token_latency" not in line)
    alone = engines.reading("vllm", {"/metrics": old}).histograms["itl_seconds"]
    assert (alone.count, alone.sum, bucket(alone, 0.5)) == (6, 0.19016313552856445, (0.025, 0.05))


def v0_page() -> str:
    return (GOLDEN / "vllm" / "metrics" / "v0_and_v1_names.prom").read_text()


def test_prometheus_answers_the_same_of_the_same_scrapes() -> None:
    """Prometheus 2.42.0 loaded these scrapes: 288 percentiles of ten histograms in six windows."""
    rows = list(csv.DictReader((RECORDED / "prometheus_2.42_percentiles.csv").read_text().splitlines()))
    readings = {name: vllm(name) for name in {row[end] for row in rows for end in ("first", "last")}}
    for row in rows:
        between = window(readings[row["first"]], readings[row["last"]], 1).histogram(row["word"])
        assert between is not None
        found = between.percentile(float(row["share"]))
        assert found is not None
        # in the last bucket Prometheus gives its lower end
        told = found.low if found.estimate is None else found.estimate
        assert told == pytest.approx(float(row["seconds_or_tokens"]), rel=1e-8), row
    assert len(rows) == 288
