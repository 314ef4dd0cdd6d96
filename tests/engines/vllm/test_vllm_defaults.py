"""A plan without flags is vLLM's own: defaults as `vllm serve` of each release chooses them (vllm/engine/arg_utils.py),
and as public logs state them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.engine import Gpu
from kvlab.core.layout import Layout, Row
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.engines.vllm.defaults import batched_tokens, graph_sizes, graphs_counted, sequences, utilisation
from kvlab.engines.vllm.states import aligned_block, cache_mode
from kvlab.facts import gpus

GQA = Layout((Row(kind="full", layers=(0,), heads=8, k_dim=128, v_dim=128),))
LONG = 131072
GOLDEN = Path(__file__).parents[2] / "golden"


def ask(version: str, **more: object) -> Ask:
    return Ask(engine_version=version, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("version", "share"), [("0.8.5", 0.9), ("0.19.1", 0.9), ("0.20.2", 0.92), ("0.32.0", 0.92)])
def test_the_share_of_memory(version: str, share: float) -> None:
    assert utilisation(ask(version)) == share


@pytest.mark.parametrize(
    ("gpu", "version", "tokens", "requests"),
    [
        ("rtx4090-24gb", "0.32.0", 2048, 256),
        ("h100-nvl-94gb", "0.29.0", 8192, 1024),  # its /metrics in a public record: 8192 and 1024
        ("rtxpro6000-96gb", "0.32.0", 8192, 1024),  # "max_num_seqs (1024) exceeds available Mamba cache blocks"
        (
            "a100-80gb",
            "0.32.0",
            2048,
            256,
        ),  # left out by name since 0.9, https://github.com/vllm-project/vllm/pull/17885
        ("a100-80gb", "0.8.5", 8192, 1024),
        ("b200-180gb", "0.32.0", 16384, 1024),
        ("b200-180gb", "0.24.0", 8192, 1024),  # the tier from 160 GiB came with 0.28
        ("l40s-48gb", "0.19.1", 2048, 256),
    ],
)
def test_tokens_and_requests_of_a_step(gpu: str, version: str, tokens: int, requests: int) -> None:
    card = gpus.find(gpu)
    assert batched_tokens(ask(version), GQA, card, LONG) == tokens
    assert sequences(ask(version), card) == requests


def test_what_is_asked_for_bounds_the_rest() -> None:
    card = gpus.find("h100-80gb")
    assert batched_tokens(ask("0.32.0", max_num_batched_tokens=512), GQA, card, LONG) == 512
    assert sequences(ask("0.32.0", max_num_batched_tokens=512), card) == 512
    # no more tokens than all requests hold: 4 of 1,024
    assert batched_tokens(ask("0.32.0", max_num_seqs=4), GQA, card, 1024) == 4096
    assert batched_tokens(ask("0.10.2", max_num_seqs=4), GQA, card, 1024) == 8192
    throughput = ask("0.32.0", engine_args=(("performance-mode", "throughput"),))
    assert (batched_tokens(throughput, GQA, card, LONG), sequences(throughput, card)) == (16384, 2048)
    whole = ask("0.32.0", engine_args=(("enable-chunked-prefill", "false"),))
    assert batched_tokens(whole, GQA, card, LONG) == LONG
    batched = ask("0.32.0", dp=8, engine_args=(("all2all-backend", "deepep_low_latency"),))
    assert batched_tokens(batched, GQA, card, LONG) == 256


def test_v0_prefilled_whole_prompts_up_to_32768_tokens() -> None:
    # https://github.com/vllm-project/vllm/issues/10517: the activations of 20,000 and of 29,000 tokens, then fewer
    card = gpus.find("rtx3090-24gb")
    assert [batched_tokens(ask("0.6.4"), GQA, card, length) for length in (20000, 29000, 35000)] == [20000, 29000, 2048]


@pytest.mark.parametrize(
    ("version", "gpu", "more", "sizes"),
    [
        ("0.32.0", "h100-80gb", {}, 51),  # "Profiling CUDA graph memory: PIECEWISE=51 (largest=512)"
        ("0.10.2", "h100-80gb", {}, 67),  # "Capturing CUDA graph shapes: 67/67"
        ("0.32.0", "h100-80gb", {"max_num_seqs": 128}, 35),  # "FULL=35 (largest=256)"
        ("0.32.0", "b200-180gb", {}, 83),  # up to 1,024
        ("0.32.0", "h100-80gb", {"engine_args": (("enforce-eager", "true"),)}, 0),
        ("0.32.0", "h100-80gb", {"engine_args": (("max-cudagraph-capture-size", "4"),)}, 3),
    ],
)
def test_how_many_graphs_are_captured(version: str, gpu: str, more: dict[str, object], sizes: int) -> None:
    request, card = ask(version, **more), gpus.find(gpu)
    assert graph_sizes(request, card, batched_tokens(request, GQA, card, LONG)) == sizes


def test_graphs_are_taken_out_of_the_pool_since_020() -> None:
    # VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS: 0 in 0.19.1, 1 in 0.20.2
    assert [graphs_counted(ask(version)) for version in ("0.19.1", "0.20.2", "0.32.0")] == [False, True, True]


@pytest.mark.parametrize(
    ("version", "model_type", "mode"),
    [
        ("0.14.1", "nemotron_h", "none"),
        ("0.24.0", "nemotron_h", "all"),  # MambaModelConfig: "all" where the class supports it
        ("0.24.0", "qwen3_next", "align"),
        ("0.28.0", "nemotron_h", "align"),
        ("0.32.0", "nemotron_h", "align"),
    ],
)
def test_how_states_are_kept_with_prefix_caching(version: str, model_type: str, mode: str) -> None:
    model = Model(name="m", model_type=model_type)
    assert cache_mode(ask(version, prefix_caching=True), model) == mode
    assert cache_mode(ask(version, prefix_caching=False), model) == "none"


def test_a_cpu_has_limits_of_its_own() -> None:
    cpu = Gpu(name="cpu", title="memory", usable_bytes=1 << 36, bandwidth=None, source="test")
    assert (batched_tokens(ask("0.32.0", tp=2), GQA, cpu, LONG), sequences(ask("0.32.0", tp=2), cpu)) == (4096, 256)
    assert graph_sizes(ask("0.32.0"), cpu, 2048) == 0


@pytest.mark.parametrize(("version", "cached"), [("0.23.1", True), ("0.28.0", True), ("0.32.0", True)])
def test_the_block_beside_mamba_layers_is_what_a_log_states(version: str, cached: bool) -> None:
    # vLLM 0.23.1 on an RTX PRO 6000 with prefix caching: "Setting attention block size to 8320 tokens",
    # https://github.com/vllm-project/vllm/issues/48401; 8320 is a multiple of the kernel's chunk of 128 as well
    name = "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"
    plan = api.plan(
        GOLDEN / "configs" / f"{name}.json",
        engine_version=version,
        gpu="rtxpro6000-96gb",
        pool_gib=10,
        kv_dtype="fp8",
        prefix_caching=cached,
    )
    assert plan.capacity is not None
    assert plan.capacity.block_size == 8320


def test_a_state_in_every_block_makes_blocks_multiples_of_the_kernels_chunk() -> None:
    # config.py's own example: a state of 788 kB, 2 kB a token: 394 tokens, up to a multiple of 256: 512
    assert aligned_block(GQA, 16, 2000, 788_000, 256) == 512
    assert aligned_block(GQA, 16, 2000, 788_000) == 400
