"""What engines say of themselves on their own pages.

The pages are as the engines write them: vLLM 0.32 (own run), SGLang (its own documents print the answer of a server
with Qwen2.5-0.5B), llama-server (own run), Ollama, trtllm-serve.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import engines

GOLDEN = Path(__file__).parents[1] / "golden"
METRICS = (GOLDEN / "vllm" / "metrics" / "0.32.0_cpu_fresh.prom").read_text()
SGLANG = {
    "model_path": "qwen/qwen2.5-0.5b-instruct",
    "kv_cache_dtype": "auto",
    "context_length": None,
    "page_size": 1,
    "max_running_requests": 128,
    "max_total_num_tokens": 20480,
    "max_req_input_len": 20474,
    "internal_states": [
        {
            "memory_usage": {"weight": 0.98, "kvcache": 0.23, "token_capacity": 20480, "graph": 0.57},
            "effective_max_running_requests_per_dp": 128,
        }
    ],
    "version": "0.0.0.dev1+g11b76d24d",
}
PAGES: dict[str, tuple[dict[str, str], str | None, dict[str, float | str]]] = {
    "vllm": (
        {
            "/version": '{"version":"0.32.0"}',
            "/v1/models": '{"object":"list","data":[{"id":"model","owned_by":"vllm","max_model_len":2048}]}',
            "/metrics": METRICS,
        },
        "0.32.0",
        {"max_model_len": 2048, "kv_cache_dtype": "auto"},
    ),
    "sglang": (
        {"/server_info": json.dumps(SGLANG)},
        "0.0.0.dev1+g11b76d24d",
        {"kv_tokens": 20480, "max_running_requests": 128},
    ),
    "llamacpp": (
        {
            "/props": '{"default_generation_settings":{"n_ctx":1024},"total_slots":2,"build_info":"b11434-7f1f6a6"}',
            "/v1/models": '{"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx_train":32768,"size":246587904}}]}',
        },
        "b11434",
        {"n_ctx_slot": 1024, "slots": 2, "native_context": 32768, "weights_file_bytes": 246587904},
    ),
    "ollama": ({"/api/version": '{"version":"0.30.2"}'}, "0.30.2", {}),
    "tensorrt-llm": ({"/version": '{"version":"1.2.0"}'}, "1.2.0", {}),
    "lmdeploy": ({}, None, {}),
}


@pytest.mark.parametrize("engine", engines.names())
def test_pages_are_read(engine: str) -> None:
    pages, version, values = PAGES[engine]
    said = engines.about(engine).read(pages)
    assert said.version == version
    assert {item.name: item.value for item in said.seen} == values
    assert all(item.line.startswith("/") for item in said.seen)


def test_a_dtype_that_was_asked_for_is_named_as_the_log_names_it() -> None:
    said = engines.about("sglang").read({"/get_server_info": json.dumps(SGLANG | {"kv_cache_dtype": "fp8_e4m3"})})
    assert {item.name: item.value for item in said.seen}["kv_cache_dtype"] == "float8_e4m3fn"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["data", "meta", "version"]), inner),
    max_leaves=6,
)


@given(st.sampled_from(engines.names()), JSON | st.text(max_size=20))
def test_pages_that_are_not_what_they_should_be_say_nothing(engine: str, page: object) -> None:
    about = engines.about(engine)
    paths = (*about.paths, "/server_info", "/metrics")
    text = page if isinstance(page, str) else json.dumps(page)
    for item in about.read(dict.fromkeys(paths, text)).seen:
        assert isinstance(item.value, str) or item.value > 0
