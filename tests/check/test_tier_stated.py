"""A tier that the log's arguments give and the plan does not, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api, engines
from kvlab.core.observation import Observation
from kvlab.core.plan import Plan
from kvlab.core.stated import Listener, with_derived

GOLDEN = Path(__file__).parents[1] / "golden"
GEMMA = GOLDEN / "check" / "gemma-3-270m.json"
QWEN = GOLDEN / "configs" / "Qwen__Qwen3-8B.json"
NATIVE = GOLDEN / "offload" / "vllm_0.32_cpu_native.log"


def stated(engine: str, line: str) -> dict[str, object]:
    part, listener = engines.stated_args(engine), Listener(engines.stated_args(engine))
    list(listener.through([line]))
    found = with_derived(listener.added(Observation(engine=engine)), part)
    return {item.name: item.value for item in found.settings if item.name.startswith("offload")}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("'kv_offloading_size': 8.0", {"offload": "native", "offload_gib": 8.0}),
        ("'data_parallel_size': 2, 'kv_offloading_size': 8.0", {"offload": "native", "offload_gib": 16.0}),
        ("'kv_offloading_size': 4, 'kv_offloading_backend': 'lmcache'", {"offload": "lmcache", "offload_gib": 4.0}),
        ("'kv_offloading_size': None", {}),
        ("'kv_transfer_config': KVTransferConfig(kv_connector='LMCacheConnectorV1')", {"offload": "lmcache"}),
        ("'kv_transfer_config': KVTransferConfig(kv_connector='MooncakeStoreConnector')", {"offload": "mooncake"}),
        ("'kv_transfer_config': KVTransferConfig(kv_connector='NixlConnector')", {}),
    ],
)
def test_vllms_arguments_tell_of_a_tier(given: str, expected: dict[str, object]) -> None:
    assert stated("vllm", f"non-default args: {{'model': 'm', {given}}}") == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("enable_hierarchical_cache=False, hicache_ratio=2.0, hicache_size=0", {}),
        ("enable_hierarchical_cache=True, hicache_ratio=2.0, hicache_size=0", {"offload": "hicache"}),
        # 2 ranks of 53 x 10^9 bytes
        (
            "tp_size=2, enable_hierarchical_cache=True, hicache_size=53",
            {"offload": "hicache", "offload_gib": 106e9 / 2**30},
        ),
        ("dp_size=2, enable_hierarchical_cache=True, hicache_size=53", {"offload": "hicache"}),
        ("enable_hierarchical_cache=False, enable_lmcache=True", {"offload": "lmcache"}),
    ],
)
def test_sglangs_arguments_tell_of_a_tier(given: str, expected: dict[str, object]) -> None:
    assert stated("sglang", f"server_args=ServerArgs(model_path='m', {given})") == expected


def test_a_real_log_has_a_tier_that_the_plan_has_not() -> None:
    """vLLM 0.32 was given one on a CPU; it refused it later, which its own rule explains."""
    plan = api.plan(GEMMA, gpu="cpu", pool_gib=1.0, context=1024)
    remarks = api.check(NATIVE, plan=plan, source=GEMMA).remarks
    assert remarks[0] == (
        "the log's engine has a tier that the plan has not: --kv-offloading-size 1.0 on line 1:"
        " plan with --offload native --offload-gib 1"
    )


def log(tmp_path: Path, engine: str, first: str) -> Path:
    file = tmp_path / "server.log"
    rest = {
        "vllm": "INFO 11-30 10:00:00 [gpu_worker.py:1] Available KV cache memory: 50.00 GiB",
        "sglang": "[12:29:21 TP0] KV Cache is allocated. #tokens: 364089, K size: 25.00 GB, V size: 25.00 GB",
    }
    file.write_text(f"{first}\n{rest[engine]}\n")
    return file


def planned(engine: str, **options: object) -> Plan:
    return api.plan(QWEN, engine=engine, gpu="h100-80gb", context=8192, **options)  # type: ignore[arg-type]


def tier_remarks(tmp_path: Path, plan: Plan, first: str) -> list[str]:
    found = api.check(log(tmp_path, plan.engine.name, first), plan=plan, source=QWEN)
    return [remark for remark in found.remarks if " tier " in remark]


def test_the_plan_has_a_tier_that_the_log_has_not(tmp_path: Path) -> None:
    plan = planned("vllm", offload="native", offload_gib=8)
    first = "INFO 11-30 10:00:00 [utils.py:1] non-default args: {'model': 'Qwen3-8B', 'max_model_len': 8192}"
    (remark,) = tier_remarks(tmp_path, plan, first)
    assert remark.startswith("the plan has a tier that the log's arguments do not give (--offload native)")
    # without the arguments nothing is known of it
    assert not tier_remarks(tmp_path, plan, "INFO 11-30 10:00:00 [core.py:1] loading")


def test_a_tier_of_another_kind_is_named(tmp_path: Path) -> None:
    plan = planned("vllm", offload="native", offload_gib=8)
    first = "non-default args: {'kv_transfer_config': KVTransferConfig(kv_connector='LMCacheConnectorV1')}"
    (remark,) = tier_remarks(tmp_path, plan, first)
    assert remark.startswith("the log's tier is lmcache (")
    assert remark.endswith("the plan's is native: plan with --offload lmcache")


@pytest.mark.parametrize(
    ("engine", "options", "first"),
    [
        ("vllm", {}, "non-default args: {'max_model_len': 8192}"),
        (
            "vllm",
            {"offload": "native", "offload_gib": 8},
            "non-default args: {'max_model_len': 8192, 'kv_offloading_size': 8.0}",
        ),
        ("sglang", {}, "server_args=ServerArgs(context_length=8192, enable_hierarchical_cache=False, hicache_size=0)"),
        (
            "sglang",
            {"offload": "hicache", "offload_gib": 100},
            "server_args=ServerArgs(context_length=8192, enable_hierarchical_cache=True, hicache_size=107)",
        ),
    ],
)
def test_the_same_tier_is_no_remark(tmp_path: Path, engine: str, options: dict[str, object], first: str) -> None:
    assert not tier_remarks(tmp_path, planned(engine, **options), first)


def test_hicache_is_told_with_its_size(tmp_path: Path) -> None:
    first = "server_args=ServerArgs(context_length=8192, enable_hierarchical_cache=True, hicache_size=107)"
    (remark,) = tier_remarks(tmp_path, planned("sglang"), first)
    assert "--enable-hierarchical-cache on line 1" in remark
    assert remark.endswith("plan with --offload hicache --offload-gib 99.6515")
