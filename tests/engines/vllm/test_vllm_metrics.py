from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import engines
from kvlab.core.errors import BadInput


def read(text: str) -> dict[str, float]:
    return engines.metric_map("vllm").read({"/metrics": text})


def test_a_full_pool_reads_as_the_server_stated_it(golden: Path) -> None:
    """vLLM 0.32.0: 12 requests in 101 blocks of 32 tokens; two wait and the pool is full."""
    values = read((golden / "metrics" / "0.32.0_cpu_pool_full.prom").read_text())
    assert values == {
        "started_at": 1.79598934576e09,
        "running": 10,
        "waiting": 2,
        "waiting_capacity": 2,
        "waiting_deferred": 0,
        "kv_used_ratio": 1,
        "preemptions_total": 0,
        "prefix_queries_tokens_total": 37_648,
        "prefix_hits_tokens_total": 22_848,
        "external_queries_tokens_total": 0,
        "external_hits_tokens_total": 0,
        "host_hits_tokens_total": 0,
        "peer_hits_tokens_total": 0,
        "storage_hits_tokens_total": 0,
        "requests_total": 120,
        "prompt_tokens_total": 37_648,
        "prefill_tokens_total": 14_800,
        "generation_tokens_total": 2_776,
        "kv_tokens": 3_232,
        "max_concurrency": 1.578125,
        "num_gpu_blocks": 101,
        "kv_usable_blocks": 100,
        "block_size": 32,
    }


def test_a_repeated_prompt_is_a_hit_of_whole_blocks(golden: Path) -> None:
    """Two requests with one prompt of 301 tokens: the second finds 256 of them, two blocks of 128."""
    values = read((golden / "metrics" / "0.32.0_cpu_two_requests.prom").read_text())
    assert (values["prefix_queries_tokens_total"], values["prefix_hits_tokens_total"]) == (602, 256)
    assert (values["generation_tokens_total"], values["num_gpu_blocks"], values["kv_tokens"]) == (16, 2730, 55_356)


def test_absent_stays_absent(golden: Path) -> None:
    values = read((golden / "metrics" / "v1_preempting.prom").read_text())
    assert (values["preemptions_total"], values["kv_used_ratio"]) == (458, 0.969)
    assert (values["prefix_hits_tokens_total"], values["prefix_queries_tokens_total"]) == (529, 1000)
    assert "running" not in values
    assert "num_gpu_blocks" not in values
    assert engines.metric_map("vllm").read({}) == {}


def test_new_names_win_where_both_are_served(golden: Path) -> None:
    values = read((golden / "metrics" / "v0_and_v1_names.prom").read_text())
    assert (values["prefix_hits_tokens_total"], values["prefix_queries_tokens_total"]) == (64, 117)
    assert values["prompt_tokens_total"] == 5


def test_engines_of_one_server_are_summed_and_the_fullest_pool_counts() -> None:
    values = read(
        'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.75\n'
        'vllm:num_requests_waiting{engine="0"} NaN\n'
    )
    assert values == {"running": 7, "kv_used_ratio": 0.75}


def test_old_prefix_counters_count_blocks_or_tokens_as_their_help_says() -> None:
    config = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1\n'
    blocks = "# HELP vllm:gpu_prefix_cache_queries GPU prefix cache queries, in terms of number of queried blocks.\n"
    tokens = blocks.replace("queried blocks", "queried tokens")
    sample = 'vllm:gpu_prefix_cache_queries_total{engine="0"} 10\n'
    assert read(config + blocks + sample) == {"block_size": 16, "prefix_queries_tokens_total": 160}
    assert read(tokens + sample) == {"prefix_queries_tokens_total": 10}
    assert read(blocks + sample) == {}


def test_a_page_that_is_no_exposition_is_refused() -> None:
    with pytest.raises(BadInput, match="line 1"):
        read("<html><body>404</body></html>")
