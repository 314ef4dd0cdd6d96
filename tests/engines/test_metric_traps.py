"""Ways in which engines' metrics mislead a reader of names and numbers. What follows from the numbers is tested with
the diagnoses, under the same numbers."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kvlab import engines
from kvlab.core.scrape import Reading, window

GOLDEN = Path(__file__).parents[1] / "golden"


def recorded(name: str) -> Reading:
    page = gzip.decompress((GOLDEN / "metrics" / f"vllm_0.32_{name}.prom.gz").read_bytes()).decode()
    return engines.reading("vllm", {"/metrics": page})


def read(engine: str, page: str) -> Reading:
    return engines.reading(engine, {engines.metric_map(engine).paths[0]: page})


@pytest.mark.parametrize("name", ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"])
def test_trap_1_names_change_and_absent_is_unknown(name: str) -> None:
    assert read("vllm", f"{name} 0.5\n").values == {"kv_used_ratio": 0.5}
    assert "kv_used_ratio" not in read("vllm", "vllm:num_requests_running 0.0\n").values


def test_trap_1_old_prefix_counters_state_their_unit() -> None:
    """gpu_prefix_cache_* counted blocks in the first releases that had them, and tokens in the last."""
    config = 'vllm:cache_config_info{block_size="16"} 1\n'
    for unit, expected in (("queried blocks", 160), ("queried tokens", 10)):
        told = f"# HELP vllm:gpu_prefix_cache_queries GPU prefix cache queries, in terms of number of {unit}.\n"
        found = read("vllm", f"{config}{told}vllm:gpu_prefix_cache_queries_total 10\n")
        assert found.values["prefix_queries_tokens_total"] == expected
        assert "gpu_prefix_cache_queries_total" in found.lines["prefix_queries_tokens_total"]


def test_trap_2_ranks_repeat_a_pool_and_engines_have_their_own() -> None:
    ranks = read("sglang", "".join(f'sglang:kv_used_tokens{{tp_rank="{rank}"}} 500\n' for rank in range(4)))
    assert ranks.values["kv_used_tokens"] == 500
    page = "".join(
        f'vllm:num_requests_running{{engine="{engine}"}} {running}\n'
        f'vllm:kv_cache_usage_perc{{engine="{engine}"}} {used}\n'
        f'vllm:num_preemptions_total{{engine="{engine}"}} {engine}\n'
        f'vllm:cache_config_info{{engine="{engine}",num_gpu_blocks="{blocks}"}} 1\n'
        for engine, running, used, blocks in ((0, 41, 0.99, 1001), (1, 10, 0.09, 2001))
    )
    found = read("vllm", page.replace('engine="', 'model_name="m",engine="'))
    assert found.values == {
        "running": 51,
        "kv_used_ratio": 0.99,
        "preemptions_total": 1,
        "num_gpu_blocks": 1001,
        "kv_usable_blocks": 1000,
    }
    assert found.pools == {
        "model_name=m engine=0": {
            "running": 41,
            "kv_used_ratio": 0.99,
            "preemptions_total": 0,
            "num_gpu_blocks": 1001,
            "kv_usable_blocks": 1000,
        },
        "model_name=m engine=1": {
            "running": 10,
            "kv_used_ratio": 0.09,
            "preemptions_total": 1,
            "num_gpu_blocks": 2001,
            "kv_usable_blocks": 2000,
        },
    }


def test_trap_2_replicas_of_several_models_are_pools() -> None:
    page = "".join(
        f'vllm:num_requests_waiting{{engine="0",model_name="{model}"}} {waiting}\n'
        for model, waiting in (("a", 5), ("b", 0))
    )
    found = read("vllm", page + 'vllm:cache_config_info{engine="0",num_gpu_blocks="9"} 1\n')
    # which model's pool has 9 blocks is not said
    assert found.pools == {"model_name=a engine=0": {"waiting": 5}, "model_name=b engine=0": {"waiting": 0}}


def test_trap_2_dp_groups_of_sglang_are_pools() -> None:
    page = "".join(
        f'sglang:{name}{{dp_rank="{group}",tp_rank="{rank}"}} {value}\n'
        for group, rank, running, used in ((0, 0, 5, 200), (0, 1, 5, 200), (1, 2, 7, 810))
        for name, value in (("num_running_reqs", running), ("kv_used_tokens", used))
    )
    found = read("sglang", page + 'sglang:prompt_tokens_total{model_name="m"} 900\n')
    assert found.values == {"running": 12, "kv_used_tokens": 1010, "prompt_tokens_total": 900}
    assert found.pools == {
        "dp_rank=0": {"running": 5, "kv_used_tokens": 200},
        "dp_rank=1": {"running": 7, "kv_used_tokens": 810},
    }


def test_trap_2_hits_add_up_over_their_sources_before_they_are_divided() -> None:
    found = read(
        "sglang",
        'sglang:prompt_tokens_total{model_name="m"} 1000\n'
        'sglang:cached_tokens_total{model_name="m",cache_source="device"} 300\n'
        'sglang:cached_tokens_total{model_name="m",cache_source="host"} 100\n',
    ).values
    assert (found["prefix_hits_tokens_total"], found["prefix_queries_tokens_total"]) == (400, 1000)


def test_trap_2_a_priority_is_part_of_the_whole() -> None:
    """With priorities, SGLang states the queue with an empty priority and each priority's part of it beside it."""
    parts = (("", 3), ("10", 2), ("20", 1))
    page = "".join(f'sglang:num_queue_reqs{{tp_rank="0",priority="{name}"}} {count}\n' for name, count in parts)
    assert read("sglang", page).values == {"waiting": 3}


def test_trap_3_why_requests_wait_is_stated_apart() -> None:
    """Twelve seconds before the first preemption is counted: three requests wait for memory."""
    found = recorded("2_capacity_t17").values
    assert (found["waiting"], found["waiting_capacity"], found["waiting_deferred"]) == (3, 3, 0)


def test_trap_4_the_ratio_counts_live_requests_only() -> None:
    """After 120 requests 16 prefixes lie in vLLM's cache, and none of it is in use."""
    found = recorded("1_after_prefix_phase").values
    assert (found["prefix_hits_tokens_total"], found["kv_used_ratio"], found["running"]) == (22_080, 0, 0)


def test_trap_4_sglang_states_used_evictable_and_free_apart() -> None:
    """0.5.17: 27,876 used, 2,004 evictable, 2,888 free; the ratio is the used ones' share of the three."""
    found = read("sglang", (GOLDEN / "sglang" / "scrape_0.5.17_retracting.prom").read_text()).values
    used, evictable, free = (found[f"kv_{state}_tokens"] for state in ("used", "evictable", "free"))
    assert (used, evictable, free) == (27_876, 2_004, 2_888)
    assert found["kv_used_ratio"] == pytest.approx(used / (used + evictable + free), abs=0.005)


def test_trap_4_a_rate_of_one_batch_is_no_hit_rate() -> None:
    """The same scrape: cache_hit_rate is 0 while 4.6 million tokens came from the cache; retracted is 48, not 1."""
    found = read("sglang", (GOLDEN / "sglang" / "scrape_0.5.17_retracting.prom").read_text()).values
    assert (found["prefix_hits_tokens_total"], found["preemptions_total"]) == (4_600_439, 48)
    assert not any("rate" in word for word in found)
    assert "prefix_queries_tokens_total" not in found


def test_trap_7_llama_server_names_come_and_go() -> None:
    old = "llamacpp:kv_cache_usage_ratio 0.25\nllamacpp:prompt_tokens_total 100\nllamacpp:requests_processing 1\n"
    # without the counter of cached tokens, the prompts' own length is unknown: only what was computed is counted
    assert read("llamacpp", old).values == {"kv_used_ratio": 0.25, "prefill_tokens_total": 100, "running": 1}
    new = (GOLDEN / "metrics" / "llama_server_02_after_12_requests.prom").read_text()
    assert "kv_used_ratio" not in read("llamacpp", new).values


@pytest.mark.parametrize("spelled", ["-nan(ind)", "nan", "-nan"])
def test_trap_7_a_number_that_is_none_was_not_seen(spelled: str) -> None:
    page = f"llamacpp:kv_cache_usage_ratio {spelled}\nllamacpp:n_busy_slots_per_decode {spelled}\n"
    assert read("llamacpp", f"{page}llamacpp:requests_deferred 0\n").values == {"waiting": 0}


def test_trap_8_tgi_states_neither_pool_nor_prefix_hits() -> None:
    """Names from TGI's own list of metrics: no map reads a word from them."""
    page = "tgi_queue_size 5\ntgi_batch_current_size 3\ntgi_batch_current_max_tokens 4096\ntgi_request_count 9\n"
    assert "tgi" not in engines.names()
    assert not any(read(name, page).values for name in engines.names() if name != "ollama")


def test_trap_9_ollama_has_no_metrics_page() -> None:
    assert "/metrics" not in engines.metric_map("ollama").paths
    exporter = "ollama_requests_total 9\nollama_tokens_per_second 30\n"
    assert engines.reading("ollama", {"/metrics": exporter}).values == {}
    loaded = '{"models": [{"size": 100, "size_vram": 60, "context_length": 4096}]}'
    found = engines.reading("ollama", {"/api/ps": loaded})
    assert found.values == {"n_ctx_slot": 4096, "loaded_bytes": 100, "loaded_gpu_bytes": 60}
    assert found.lines["n_ctx_slot"] == "/api/ps context_length"


def test_trap_11_preemptions_are_counted_when_their_victims_run_again() -> None:
    """Running fell from 12 to 8 and three wait for memory, with no preemption counted; then there are three."""
    before, after = recorded("2_capacity_t17"), recorded("2_capacity_t19")
    assert (before.values["running"], before.values["preemptions_total"]) == (8, 0)
    assert window(recorded("2_capacity_t00"), before, 17 * 12).grown("preemptions_total") == 0
    assert window(before, after, 24).grown("preemptions_total") == 3


def test_trap_12_the_ratio_leaves_out_a_block_that_capacity_counts() -> None:
    """12 requests of 4 blocks: 0.48 of 100 blocks, while 101 are there and 3,232 tokens are all of them."""
    found = recorded("2_capacity_t00").values
    assert found["kv_used_ratio"] * found["kv_usable_blocks"] == pytest.approx(12 * 4)
    assert found["num_gpu_blocks"] == found["kv_usable_blocks"] + 1 == 101
    assert found["kv_tokens"] == 3232 == 101 * found["block_size"]


def test_trap_12_v0_had_no_such_block() -> None:
    page = 'vllm:gpu_cache_usage_perc 0.5\nvllm:cache_config_info{num_gpu_blocks="7281"} 1\n'
    assert "kv_usable_blocks" not in read("vllm", page).values


def test_trap_13_recomputing_a_preempted_request_is_in_no_counter() -> None:
    """Three requests were computed again between these scrapes; prompts, queries and hits stand still."""
    found = window(recorded("2_capacity_t00"), recorded("3_after_capacity_phase"), 22 * 12)
    still = ("prompt_tokens_total", "prefix_queries_tokens_total", "prefix_hits_tokens_total", "prefill_tokens_total")
    assert [found.grown(word) for word in still] == [0, 0, 0, 0]
    assert found.grown("preemptions_total") == 3
