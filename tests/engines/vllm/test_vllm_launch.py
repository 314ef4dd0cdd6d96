from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvlab import engines
from kvlab.core.engine import Deployment, Gpu
from kvlab.core.errors import ServerRefused
from kvlab.core.layout import Layout, Row
from kvlab.core.model import Model
from kvlab.core.plan import Ask, Launch

LAYOUT = Layout((Row(kind="full", layers=tuple(range(36)), heads=8, k_dim=128, v_dim=128),))
MODEL = Model(name="m", model_type="qwen3", dtype="bfloat16", context=40960, layers=36, heads=32)


def launch(ask: Ask, device: Gpu, pool: int | None = None, layout: Layout = LAYOUT, source: str = "org/m") -> Launch:
    deployment = Deployment(model=MODEL, layout=layout, ask=ask, gpu=device, pool_bytes=pool)
    carved = engines.planner("vllm").carve(deployment)
    return engines.launcher("vllm").command(deployment, carved, source)


def test_the_command_of_a_gpu(gpu: Callable[..., Gpu]) -> None:
    args = (("enforce-eager", "true"), ("async-scheduling", "false"), ("attention-backend", "TRITON_ATTN"))
    ask = Ask(context=32768, tp=2, kv_dtype="fp8", util=0.9, max_num_seqs=64, prefix_caching=False, engine_args=args)
    made = launch(ask, gpu((9, 0)))
    wanted = (
        "vllm serve org/m --host 127.0.0.1 --port {port} --enable-prompt-tokens-details --max-model-len 32768"
        " --gpu-memory-utilization 0.9 --kv-cache-dtype fp8 --tensor-parallel-size 2 --max-num-seqs 64"
        " --no-enable-prefix-caching --enforce-eager --no-async-scheduling --attention-backend TRITON_ATTN"
    )
    assert " ".join(made.argv) == wanted
    assert made.env == {}
    assert all(flag.because for flag in made.flags)


def test_a_given_pool_is_passed_to_the_byte(gpu: Callable[..., Gpu]) -> None:
    made = launch(Ask(context=4096, pool_gib=2.5), gpu((9, 0)), 5 << 29)
    assert made.argv[made.argv.index("--kv-cache-memory-bytes") + 1] == str(5 << 29)
    assert "--gpu-memory-utilization" not in made.argv


def test_a_cpu_takes_whole_gibibytes_from_the_environment(gpu: Callable[..., Gpu]) -> None:
    cpu = gpu(None, 16, "cpu")
    assert launch(Ask(context=4096, pool_gib=4), cpu, 4 << 30).env == {"VLLM_CPU_KVCACHE_SPACE": "4"}
    odd = launch(Ask(context=4096, pool_gib=2.5), cpu, 5 << 29)
    assert odd.env == {}
    assert "--kv-cache-memory-bytes" in odd.argv


def test_windows_pin_the_batch_that_the_plan_counts_on(gpu: Callable[..., Gpu]) -> None:
    row = Row(kind="window", layers=tuple(range(36)), heads=8, k_dim=128, v_dim=128, window=1024)
    made = launch(Ask(context=4096), gpu((9, 0)), layout=Layout((row,)))
    assert made.argv[made.argv.index("--max-num-batched-tokens") + 1] == "8192"


def test_the_config_file_says_the_same_as_the_command(gpu: Callable[..., Gpu]) -> None:
    ask = Ask(context=4096, prefix_caching=False, engine_args=(("hf-overrides", '{"rope_theta": 1e6}'),))
    made = launch(ask, gpu((9, 0)))
    config = yaml.safe_load(made.files["vllm_config.yaml"])
    assert config == {
        "model": "org/m",
        "host": "127.0.0.1",
        "port": 8000,
        "enable-prompt-tokens-details": True,
        "max-model-len": 4096,
        "gpu-memory-utilization": 0.92,
        "kv-cache-dtype": "auto",
        "enable-prefix-caching": False,
        "hf-overrides": '{"rope_theta": 1e6}',
    }


def test_tokenizer_endpoints_answer_as_recorded() -> None:
    """Answers of vLLM 0.32.0 with Gemma-3-270m."""
    api = engines.token_api("vllm")
    path, body = api.tokenize("gemma", "The cache holds keys and values.", True)
    assert (path, body) == (
        "/tokenize",
        {"model": "gemma", "prompt": "The cache holds keys and values.", "add_special_tokens": True},
    )
    answer = {
        "count": 7,
        "max_model_len": 2048,
        "tokens": [818, 15612, 9258, 13272, 532, 2979, 236761],
        "token_strs": None,
    }
    assert api.tokens(answer) == [818, 15612, 9258, 13272, 532, 2979, 236761]
    assert api.detokenize("gemma", [818])[1] == {"model": "gemma", "tokens": [818]}
    assert api.text({"prompt": "The"}) == "The"
    for wrong in ({"detail": "Not Found"}, [1, 2], None):
        with pytest.raises(ServerRefused, match="vLLM"):
            api.tokens(wrong)
        with pytest.raises(ServerRefused, match="vLLM"):
            api.text(wrong)


def test_failures_name_their_cause(rows: Callable[[str], list[dict[str, Any]]], golden: Path) -> None:
    """Real lines of failed starts; failures.jsonl names where each was read."""
    rules = engines.failures("vllm").rules
    for row in rows("failures.jsonl"):
        assert [rule.code for rule in rules if rule.pattern.search(row["line"])] == [row["code"]], row["line"]
    for name in ("0.32.0_cpu_auto.log", "0.32.0_cpu_fp8.log"):
        for line in (golden / "logs" / name).read_text().splitlines():
            assert not [rule.code for rule in rules if rule.pattern.search(line)], line
    refused = (golden / "logs" / "0.32.0_cpu_pool_too_small.log").read_text().splitlines()
    first = next(rule.code for line in refused for rule in rules if rule.pattern.search(line))
    assert first == "context_larger_than_pool"
