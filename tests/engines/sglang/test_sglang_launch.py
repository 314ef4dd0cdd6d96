"""SGLang's command lines, its refusals in the log, and its tokenizer endpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvlab import engines
from kvlab.core.engine import Carved, Deployment
from kvlab.core.errors import ServerRefused
from kvlab.core.plan import Ask, Launch

GIB = 2**30
Deploy = Callable[..., Deployment]


def launched(deployment: Deployment) -> Launch:
    carved: Carved = engines.planner("sglang").carve(deployment)
    return engines.launcher("sglang").command(deployment, carved, "some/model")


def value(launch: Launch, flag: str) -> str | None:
    argv = list(launch.argv)
    return argv[argv.index(flag) + 1] if flag in argv else None


def test_what_can_be_watched_and_checked_is_always_asked_for(deploy: Deploy) -> None:
    launch = launched(deploy("Qwen__Qwen3-8B.json", Ask(engine="sglang", tp=1)))
    assert launch.argv[:3] == ("python", "-m", "sglang.launch_server")
    assert "--enable-metrics" in launch.argv
    assert "--enable-cache-report" in launch.argv
    assert value(launch, "--host") == "127.0.0.1"
    assert value(launch, "--port") == "{port}"
    assert value(launch, "--kv-cache-dtype") == "auto"
    assert all(flag.because for flag in launch.flags)


def test_a_given_pool_becomes_the_limits_that_sglang_has(deploy: Deploy) -> None:
    """Bytes cannot be asked for: tokens can, and slots of recurrent state."""
    plain = launched(deploy("Qwen__Qwen3-8B.json", Ask(engine="sglang", tp=1, pool_gib=4.5), round(4.5 * GIB)))
    assert value(plain, "--max-total-tokens") == "32768"
    assert value(plain, "--mem-fraction-static") is None
    hybrid = launched(deploy("Qwen__Qwen3.5-27B.json", Ask(engine="sglang", tp=1, pool_gib=38), 38 * GIB))
    assert value(hybrid, "--max-mamba-cache-size") is not None


def test_options_and_engine_arguments_reach_the_command_once(deploy: Deploy) -> None:
    ask = Ask(
        engine="sglang",
        tp=4,
        pp=2,
        dp=2,
        ep=4,
        block_size=16,
        context=8192,
        kv_dtype="fp8_e4m3",
        max_num_seqs=64,
        max_num_batched_tokens=4096,
        prefix_caching=False,
        engine_args=(("schedule-policy", "lpm"), ("disable-radix-cache", "true"), ("mem-fraction-static", "0.8")),
    )
    launch = launched(deploy("Qwen__Qwen3-235B-A22B.json", ask))
    for flag, wanted in {
        "--tp-size": "4",
        "--pp-size": "2",
        "--dp-size": "2",
        "--ep-size": "4",
        "--page-size": "16",
        "--context-length": "8192",
        "--kv-cache-dtype": "fp8_e4m3",
        "--max-running-requests": "64",
        "--chunked-prefill-size": "4096",
        "--schedule-policy": "lpm",
        "--mem-fraction-static": "0.8",
    }.items():
        assert value(launch, flag) == wanted
    assert launch.argv.count("--disable-radix-cache") == 1
    assert launch.argv.count("--mem-fraction-static") == 1


# Lines that SGLang writes when it does not serve, by the code of what they mean.
REFUSALS = {
    "no_memory_for_blocks": (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        "self.server_args.mem_fraction_static=0.5",
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.684. Raise"
        " --mem-fraction-static above 0.712 (minimum viable = 1 - available/pre = 0.7114).",
    ),
    "graph_capture_failed": ("Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 20.00 MiB.",),
    "out_of_memory": ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 970.00 MiB.",),
    "cache_dtype_refused": (
        "launch_server.py: error: argument --kv-cache-dtype: invalid choice: 'fp8' (choose from auto, fp8_e5m2)",
        "ValueError: Unsupported kv_cache_dtype: fp4.",
    ),
    "port_in_use": (
        "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use",
    ),
    "context_above_model": (
        "ValueError: User-specified context_length (200000) is greater than the derived context_length (131072). This"
        " may lead to incorrect model outputs or CUDA errors.",
    ),
    "mamba_blocks": (
        "RuntimeError: Hybrid (mamba/linear-attention) state cache is too small to serve any requests."
        " max_mamba_cache_size=4, mamba_ratio=5, resulting max_num_reqs=0.",
    ),
    "context_larger_than_pool": (
        "ValueError: SWA pool (1368 tokens) cannot hold even one request: the prefill admission floor is ...",
    ),
    "host_tier_too_large": (
        "ValueError: Not enough host memory available. Requesting 100.00 GB but only have 51.20 GB free.",
    ),
    "unbalanced_memory": (
        "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. ",
    ),
    "heads_do_not_divide": (
        "    assert self.total_num_heads % tp_size == 0",
        "AssertionError: 152064 is not divisible by 7",
    ),
    "architecture_unknown": (
        "ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: ...",
    ),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_refusals_are_recognised(code: str) -> None:
    for line in REFUSALS[code]:
        rule = next((rule for rule in engines.failures("sglang").rules if rule.pattern.search(line)), None)
        assert rule is not None, line
        assert rule.code == code


def test_a_healthy_start_is_no_failure(golden: Path) -> None:
    rules = engines.failures("sglang").rules
    for name in ("qwq_32b_tp4.log", "nemotron_hybrid.log", "retraction_0.5.18.log"):
        for line in (golden / name).read_text().splitlines():
            assert not [rule.code for rule in rules if rule.pattern.search(line)], line


def test_tokenizer_endpoints() -> None:
    api = engines.token_api("sglang")
    assert api.tokenize("m", "Hi", False) == ("/tokenize", {"model": "m", "prompt": "Hi", "add_special_tokens": False})
    assert api.tokens({"tokens": [1, 2], "count": 2, "max_model_len": 10}) == [1, 2]
    path, body = api.detokenize("m", [1])
    assert (path, body["tokens"]) == ("/detokenize", [1])
    assert api.text({"text": "Hi"}) == "Hi"
    with pytest.raises(ServerRefused, match=r"since 0\.5\.4"):
        api.tokens({"error": "Not Found"})
    with pytest.raises(ServerRefused, match=r"since 0\.5\.4"):
        api.text([])
