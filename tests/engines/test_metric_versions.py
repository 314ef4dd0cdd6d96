"""Names by release: the newest that is served counts, and tokens are not mixed with requests. Names and their meaning
are from the engines' source; values are made up."""

from __future__ import annotations

import pytest

from kvlab import engines
from kvlab.core.errors import BadInput
from kvlab.core.scrape import Reading


def read(engine: str, page: str, **pages: str) -> Reading:
    return engines.reading(engine, {engines.metric_map(engine).paths[0]: page, **pages})


def histogram(name: str, count: int, labels: str = "") -> str:
    comma = f"{labels}," if labels else ""
    braced = f"{{{labels}}}" if labels else ""
    return (
        f'{name}_bucket{{{comma}le="1.0"}} {count}\n{name}_bucket{{{comma}le="+Inf"}} {count}\n'
        f"{name}_sum{braced} {count / 2}\n{name}_count{braced} {count}\n"
    )


def counts(found: Reading) -> dict[str, float]:
    return {word: told.count for word, told in found.histograms.items()}


ITL = histogram("vllm:inter_token_latency_seconds", 900)
OLD_ITL = histogram("vllm:time_per_output_token_seconds", 900)
TPOT = histogram("vllm:request_time_per_output_token_seconds", 9)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (OLD_ITL, {"itl_seconds": 900}),  # to 0.10.1
        (ITL + OLD_ITL.replace(" 900", " 899"), {"itl_seconds": 900}),  # 0.10.2: both
        (ITL + OLD_ITL + TPOT, {"itl_seconds": 900, "tpot_seconds": 9}),  # 0.11 to 0.14
        (ITL + TPOT, {"itl_seconds": 900, "tpot_seconds": 9}),  # from 0.15
    ],
)
def test_vllm_tells_gaps_from_means(page: str, expected: dict[str, float]) -> None:
    assert counts(read("vllm", page)) == expected


def test_vllm_finished_reasons_and_engines_are_one_histogram() -> None:
    name = "vllm:e2e_request_latency_seconds"
    page = histogram(name, 4, 'engine="0"') + histogram(name, 6, 'engine="1"')
    found = read("vllm", page).histograms["e2e_seconds"]
    assert (found.counts, found.sum) == ((10, 10), 5)


def test_vllm_offload_of_both_ages() -> None:
    new = "vllm:kv_offload_load_bytes_total 5e9\nvllm:kv_offload_store_bytes_total 7e9\n"
    old = (
        'vllm:kv_offload_total_bytes_total{transfer_type="CPU_to_GPU"} 1e9\n'
        'vllm:kv_offload_total_bytes_total{transfer_type="GPU_to_CPU"} 2e9\n'
    )
    expected = {"offload_loaded_bytes_total": 5e9, "offload_stored_bytes_total": 7e9}
    assert read("vllm", new + old).values == expected
    assert read("vllm", old).values == {"offload_loaded_bytes_total": 1e9, "offload_stored_bytes_total": 2e9}


def test_vllm_drafts_and_other_caches() -> None:
    page = (
        "vllm:spec_decode_num_drafts_total 50\nvllm:spec_decode_num_draft_tokens_total 200\n"
        "vllm:spec_decode_num_accepted_tokens_total 120\n"
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 48\n'
        "vllm:external_prefix_cache_queries_total 1000\nvllm:external_prefix_cache_hits_total 400\n"
    )
    assert read("vllm", page).values == {
        "drafted_tokens_total": 200,
        "accepted_tokens_total": 120,
        "external_queries_tokens_total": 1000,
        "external_hits_tokens_total": 400,
    }


def test_vllm_before_its_capacity_was_in_tokens() -> None:
    """To 0.27 cache_config_info has blocks; tokens are not made up from them (blocks differ by kind of layer)."""
    page = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="7281",sliding_window="None"} 1.0\n'
    assert read("vllm", page).values == {"num_gpu_blocks": 7281, "block_size": 16}


def test_sglang_0_4() -> None:
    page = (
        "sglang:token_usage 0.5\nsglang:num_used_tokens 500\nsglang:cache_hit_rate 0.9\n"
        "sglang:avg_request_queue_latency 3\nsglang:generation_tokens_total 40\n"
        + histogram("sglang:inter_token_latency_seconds", 40)
        + histogram("sglang:time_per_output_token_seconds", 2)
    )
    found = read("sglang", page)
    assert found.values == {"kv_used_ratio": 0.5, "kv_used_tokens": 500, "generation_tokens_total": 40}
    # beside the gaps the other name is of whole requests, their wait for the first token included
    assert counts(found) == {"itl_seconds": 40}


def test_sglang_0_5_23() -> None:
    page = (
        'sglang:realtime_tokens_total{mode="prefill_compute",tp_rank="0"} 2000\n'
        'sglang:realtime_tokens_total{mode="prefill_cache",tp_rank="0"} 700\n'
        'sglang:realtime_tokens_total{mode="decode",tp_rank="0"} 1000\n'
        'sglang:generation_tokens_total{is_streaming="true"} 500\n'
        'sglang:prompt_tokens_total{is_streaming="true"} 600\nsglang:prompt_tokens_total{is_streaming="false"} 100\n'
        'sglang:num_requests_total{is_streaming="true"} 6\n'
        + histogram("sglang:inter_token_latency_seconds", 500)
        + histogram("sglang:request_time_per_output_token_seconds", 6, 'is_streaming="true"')
        + histogram("sglang:queue_time_seconds", 7)
    )
    found = read("sglang", page)
    assert found.values == {
        "prefill_tokens_total": 2000,
        "generation_tokens_total": 1000,
        "prompt_tokens_total": 700,
        "requests_total": 6,
    }
    assert counts(found) == {"itl_seconds": 500, "tpot_seconds": 6, "queue_seconds": 7}


def test_sglang_says_how_many_requests_its_schedulers_take() -> None:
    states = '[{"effective_max_running_requests_per_dp": 52}, {"effective_max_running_requests_per_dp": 52}]'
    info = f'{{"max_total_num_tokens": 46592, "internal_states": {states}}}'
    found = engines.reading("sglang", {"/server_info": info})
    assert found.values == {"kv_tokens": 46_592, "max_running_requests": 104}
    assert found.lines["max_running_requests"].startswith("/server_info effective_max_running_requests_per_dp")
    unknown = '{"max_total_num_tokens": 46592, "internal_states": [{}]}'
    assert engines.reading("sglang", {"/server_info": unknown}).values == {"kv_tokens": 46_592}


def test_tensorrt_llm_counts_its_means_under_the_name_of_gaps() -> None:
    page = (
        'trtllm_request_success_total{finished_reason="stop"} 5\n'
        'trtllm_request_success_total{finished_reason="length"} 2\n'
        "trtllm_kv_cache_tokens_per_block 32\ntrtllm_kv_cache_free_blocks 10\ntrtllm_max_num_active_requests 256\n"
        "trtllm_kv_cache_onboard_bytes_total 1e6\ntrtllm_kv_cache_offload_bytes_total 2e6\n"
        + histogram("trtllm_time_per_output_token_seconds", 7)
    )
    found = read("tensorrt-llm", page)
    assert found.values == {
        "requests_total": 7,
        "block_size": 32,
        "kv_free_tokens": 320,
        "max_running_requests": 256,
        "offload_loaded_bytes_total": 1e6,
        "offload_stored_bytes_total": 2e6,
    }
    assert counts(found) == {"tpot_seconds": 7}


def test_lmdeploy_of_both_ages() -> None:
    old = histogram("lmdeploy:time_per_output_token_seconds", 90, 'engine="0"')
    new = histogram("lmdeploy:iter_token_latency", 80, 'engine="0"')
    assert counts(read("lmdeploy", old)) == {"itl_seconds": 90}
    assert counts(read("lmdeploy", old + new)) == {"itl_seconds": 80}
    names = ("time_to_first_token", "request_queue_time", "request_prefill_time", "request_decode_time")
    page = "".join(histogram(f"lmdeploy:{name}_seconds", 3) for name in (*names, "e2e_request_latency"))
    words = {"ttft_seconds", "queue_seconds", "prefill_seconds", "decode_seconds", "e2e_seconds"}
    assert read("lmdeploy", page).histograms.keys() == words


@pytest.mark.parametrize("engine", engines.names())
def test_no_page_is_no_reading(engine: str) -> None:
    found = engines.reading(engine, {})
    assert (found.values, found.histograms, found.lines, found.pools) == ({}, {}, {}, {})


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("engine", "path", "page"),
    [
        ("llamacpp", "/slots", f'[{{"x": {DEEP}}}]'),
        ("ollama", "/api/ps", f'{{"models": [{{"x": {DEEP}}}]}}'),
        ("tensorrt-llm", "/metrics", f'[{{"x": {DEEP}}}]'),
    ],
)
def test_a_page_that_is_nested_without_end_is_refused(engine: str, path: str, page: str) -> None:
    with pytest.raises(BadInput, match=f"^{path} is not "):
        engines.reading(engine, {path: page})


def test_sglangs_page_about_itself_may_be_anything() -> None:
    assert engines.reading("sglang", {"/server_info": f'{{"x": {DEEP}}}'}).values == {}
