"""The settings that logs state, on lines that engines wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab import engines
from kvlab.core.observation import Observation
from kvlab.core.stated import Listener, with_derived
from kvlab.observe import read_log

GOLDEN = Path(__file__).parents[1] / "golden"


def settings(observation: Observation) -> dict[str, object]:
    return {item.name: item.value for item in observation.settings}


def of_line(engine: str, line: str) -> Observation:
    listener = Listener(engines.stated_args(engine))
    list(listener.through([line]))
    return listener.added(Observation(engine=engine))


def test_vllm_lists_what_was_given_and_what_came_of_it() -> None:
    seen = read_log(str(GOLDEN / "check" / "vllm_0.32.0_cpu_hybrid_manager_off.log"))
    assert seen.all_settings
    assert settings(seen) == {
        "model": "model",
        "context": 4096,
        "enforce-eager": True,
        "max_num_batched_tokens": 1024,
        "disable-hybrid-kv-cache-manager": True,
        "speculative-config": None,
        "tp": 1,
        "pp": 1,
        "dp": 1,
        "dcp": 1,
        "kv_dtype": "auto",
        "prefix_caching": True,
    }
    given = seen.setting("max_num_batched_tokens")
    assert given is not None
    assert (given.flag, given.line_number) == ("--max-num-batched-tokens", 5)
    assert given.line.endswith("... max_num_batched_tokens=1024 ...")
    off = seen.hint("hybrid_manager_off")
    assert off is not None
    assert "Hybrid KV cache manager is disabled for this hybrid model, " in off.line


def test_only_what_is_read_is_quoted() -> None:
    line = (
        "INFO 11-30 10:00:00 [utils.py:1] non-default args: {'api_key': ['s3cret'], 'max_model_len': 8192, 'seed': 0}"
    )
    (setting,) = of_line("vllm", line).settings
    assert (setting.name, setting.value) == ("context", 8192)
    assert "s3cret" not in setting.line


def test_a_path_is_read_as_its_last_part() -> None:
    line = "non-default args: {'model': '/home/someone/models/Qwen3-8B/', 'kv_transfer_config': KVTransferConfig("
    line += "kv_connector='LMCacheConnectorV1', kv_role='kv_both'), 'tensor_parallel_size': 2}"
    assert settings(of_line("vllm", line)) == {
        "model": "Qwen3-8B",
        "kv-transfer-config": "LMCacheConnectorV1",
        "tp": 2,
    }


def test_speculation_is_said_as_a_request_does() -> None:
    line = "non-default args: {'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 2}, 'seed': 1}"
    (setting,) = of_line("vllm", line).settings
    assert json.loads(str(setting.value)) == {"method": "mtp", "num_speculative_tokens": 2}


def test_v0_lists_every_argument() -> None:
    line = "INFO 11-18 10:00:00 api_server.py:496] args: Namespace(host=None, port=8000, model='meta-llama/Llama-3.1-8B"
    line += "-Instruct', max_model_len=20000, block_size=16, gpu_memory_utilization=0.9, num_gpu_blocks_override=None)"
    seen = settings(of_line("vllm", line))
    assert seen == {
        "model": "Llama-3.1-8B-Instruct",
        "context": 20000,
        "block_size": 16,
        "util": 0.9,
        "num-gpu-blocks-override": None,
    }


def test_sglang_lists_them_all() -> None:
    seen = read_log(str(GOLDEN / "sglang" / "qwq_32b_tp4.log"))
    assert seen.all_settings
    found = settings(seen)
    assert (found["tp"], found["util"], found["max_num_batched_tokens"]) == (4, 0.85, 2048)
    assert (found["context"], found["max_num_seqs"], found["cpu-offload-gb"]) == (None, None, None)


def test_lmdeploy_lists_its_configuration() -> None:
    seen = read_log(str(GOLDEN / "logs" / "healthy" / "lmdeploy_start.log"), "lmdeploy")
    found = settings(seen)
    assert (found["tp"], found["util"], found["block_size"]) == (2, 0.8, 64)
    assert (found["kv_dtype"], found["prefix_caching"], found["max_num_seqs"]) == ("auto", False, 256)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("f16_8192_np4", {"context": 8192, "parallel": 4, "kv_unified": False, "kv_dtype_k": "f16"}),
        ("f16_4096_np2_swa_full", {"context": 4096, "parallel": 2, "swa_full": True}),
        ("k_q8_0_v_q4_0_4096_np1", {"parallel": 1, "kv_dtype_k": "q8_0", "kv_dtype_v": "q4_0"}),
    ],
)
def test_llama_servers_caches_show_its_settings(name: str, found: dict[str, object]) -> None:
    seen = with_derived(read_log(str(GOLDEN / "llamacpp" / f"{name}.log")), engines.stated_args("llamacpp"))
    assert found.items() <= settings(seen).items()


def test_ollamas_context_is_that_of_one_request() -> None:
    path = GOLDEN / "ollama" / "gemma3_270m_q8_0_8192x2.log"
    seen = with_derived(read_log(str(path), "ollama"), engines.stated_args("ollama"))
    assert settings(seen)["context"] == 8192
    assert settings(seen)["kv_dtype"] == "q8_0"


def test_a_second_start_forgets_the_first(tmp_path: Path) -> None:
    logs = [GOLDEN / "check" / f"vllm_0.32.0_cpu_{name}.log" for name in ("blocks_override", "block_size_32")]
    both = tmp_path / "engine.log"
    both.write_bytes(b"".join(log.read_bytes() for log in logs))
    found = settings(read_log(str(both)))
    assert found["block_size"] == 32
    assert "num-gpu-blocks-override" not in found
