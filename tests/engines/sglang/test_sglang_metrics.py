"""SGLang's scrapes in kvlab's words: recorded ones, and the labels of ranks and groups."""

from __future__ import annotations

from pathlib import Path

from kvlab import engines


def read(text: str) -> dict[str, float]:
    return engines.metric_map("sglang").read({"/metrics": text})


def test_a_queue_that_is_not_for_want_of_memory(golden: Path) -> None:
    """Early 2025: 162 running, 2,826 waiting, 28 % of the pool in use."""
    assert read((golden / "scrape_2025_queue2826.prom").read_text()) == {
        "running": 162,
        "waiting": 2826,
        "kv_used_tokens": 123859,
        "kv_used_ratio": 0.28,
        "prompt_tokens_total": 8128902,
        "generation_tokens_total": 7557572,
    }


def test_a_pool_that_retracts(golden: Path) -> None:
    """0.5.17: the counter says 48 retracted, the gauge of the last batch says 1; no prompt counter was kept."""
    found = read((golden / "scrape_0.5.17_retracting.prom").read_text())
    assert found == {
        "kv_used_ratio": 0.85,
        "kv_used_tokens": 27876,
        "kv_free_tokens": 2888,
        "kv_evictable_tokens": 2004,
        "preemptions_total": 48,
        "prefix_hits_tokens_total": 4600439,
    }


def test_ranks_repeat_a_pool_and_groups_add_up() -> None:
    page = """
sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 5.0
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 5.0
sglang:num_running_reqs{dp_rank="1",tp_rank="2"} 7.0
sglang:token_usage{dp_rank="0",tp_rank="0"} 0.2
sglang:token_usage{dp_rank="1",tp_rank="2"} 0.9
sglang:max_total_num_tokens{dp_rank="0",tp_rank="0"} 1000.0
sglang:max_total_num_tokens{dp_rank="1",tp_rank="2"} 900.0
sglang:kv_used_tokens{dp_rank="0",tp_rank="0"} 200.0
sglang:kv_used_tokens{dp_rank="1",tp_rank="2"} 810.0
sglang:page_size 64.0
sglang:num_pages 14.0
"""
    assert read(page) == {
        "running": 12,
        "kv_used_ratio": 0.9,
        "kv_tokens": 900,
        "kv_used_tokens": 1010,
        "block_size": 64,
        "num_gpu_blocks": 14,
    }


def test_hits_add_up_over_their_sources() -> None:
    page = """
sglang:prompt_tokens_total{model_name="m"} 1000.0
sglang:cached_tokens_total{model_name="m",cache_source="device"} 300.0
sglang:cached_tokens_total{model_name="m",cache_source="host"} 100.0
sglang:cache_hit_rate{model_name="m"} 0.9
"""
    found = read(page)
    assert found["prefix_hits_tokens_total"] == 400
    assert found["prefix_queries_tokens_total"] == 1000


def test_the_server_describes_its_pool_without_metrics() -> None:
    """/server_info holds the arguments and what the scheduler found (0.4.6: get_server_info)."""
    page = '{"model_path": "m", "page_size": 64, "max_total_num_tokens": 46592, "version": "0.5.23"}'
    read_pages = engines.metric_map("sglang").read
    assert read_pages({"/server_info": page}) == {"kv_tokens": 46592, "block_size": 64}
    assert read_pages({"/get_server_info": page, "/metrics": "sglang:num_running_reqs 2.0\n"})["kv_tokens"] == 46592
    assert read_pages({"/server_info": "<html>"}) == {}


def test_what_is_absent_or_no_number_stays_absent() -> None:
    assert read("sglang:gen_throughput 3.0\n") == {}
    assert read("sglang:token_usage NaN\n") == {}
    assert engines.metric_map("sglang").read({}) == {}
