"""Numbers of public logs (tests/golden/receipts) against plans for other settings: the cause that readers found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.check import Check
from kvlab.core.observation import Observation, Seen, Setting
from kvlab.core.units import GIB
from kvlab.reasons import checked

GOLDEN = Path(__file__).parents[1] / "golden"
RECEIPTS = {
    row["id"]: row for row in map(json.loads, (GOLDEN / "receipts" / "receipts.jsonl").read_text().splitlines())
}
UNITS = {"kv_pool_bytes": "bytes", "kv_tokens": "tokens", "max_concurrency": "requests", "num_gpu_blocks": "blocks"}


def log(version: str | None = None, settings: tuple[Setting, ...] = (), **stated: float) -> Observation:
    seen = tuple(Seen(name=name, value=value, unit=UNITS[name], line=name) for name, value in stated.items())
    return Observation(engine="vllm", version=version, seen=seen, settings=settings)


def check(config: str, observation: Observation, **options: object) -> Check:
    source = GOLDEN / "configs" / f"{config}.json"
    plan = api.plan(source, **{"gpu": "h100-80gb", **options})  # type: ignore[arg-type]
    return checked(plan, observation, source=str(source))


def test_decode_context_parallelism_multiplies_the_tokens() -> None:
    row = RECEIPTS["v045"]
    assert row["kv_tokens"] / RECEIPTS["v044"]["kv_tokens"] == pytest.approx(8, abs=0.001)
    seen = log(kv_pool_bytes=row["available_kv_gib"] * GIB, kv_tokens=row["kv_tokens"])
    found = check("moonshotai__Kimi-K2.5", seen, gpu="h200-141gb", tp=8, pool_gib=46.8, context=262144)
    (reason,) = found.causes
    assert (reason.code, reason.certainty) == ("split", "exact")
    assert "--dcp 8" in reason.text


@pytest.mark.parametrize("version", ["0.17.0", None])
def test_the_line_of_an_older_release_means_something_else(version: str | None) -> None:
    """A public log of 0.17.0 (receipt x007): 159,296 tokens and 8.00x requests of 65,536 in one pool of 6.08 GiB."""
    seen = log(version, kv_pool_bytes=6.08 * GIB, kv_tokens=159_296, max_concurrency=8.0)
    asked = {"pool_gib": 6.08, "context": 65536, "kv_dtype": "fp8", "prefix_caching": True}
    found = check("Qwen__Qwen3.5-35B-A3B", seen, **asked)
    (reason,) = found.causes
    assert (reason.code, reason.certainty, reason.explains) == ("engine_version", "exact", ("kv_tokens",))
    assert ("the log's version is 0.17.0" in reason.text) is (version is not None)


def test_an_offload_connector_turned_the_hybrid_manager_off() -> None:
    row = RECEIPTS["v060"]
    assert "OffloadingConnector" in row["flags"]["cpu_offload"]
    asked = {"tp": 2, "pool_gib": 8.0, "context": 131072, "block_size": 16, "max_num_batched_tokens": 2048}
    blocks = row["log"]["cpu_blocks"]
    seen = log(kv_pool_bytes=8 * GIB, num_gpu_blocks=blocks)
    several = check("meta-llama__Llama-4-Scout-17B-16E", seen, **asked)
    # a number of blocks alone is also that of larger blocks: nothing is claimed
    assert {reason.certainty for reason in several.causes} == {"possible"}
    assert "hybrid_manager_off" in {reason.code for reason in several.causes}
    flag, value = "--kv-transfer-config", "OffloadingConnector"
    setting = Setting(name="kv-transfer-config", flag=flag, value=value, line="non-default args: ...")
    (reason,) = check(
        "meta-llama__Llama-4-Scout-17B-16E",
        log(None, (setting,), kv_pool_bytes=8 * GIB, num_gpu_blocks=blocks),
        **asked,
    ).causes
    assert (reason.code, reason.certainty) == ("hybrid_manager_off", "exact")
    assert reason.text.startswith("the connector OffloadingConnector of --kv-transfer-config turned the hybrid cache")


def test_a_shorter_context_is_read_from_the_line_of_the_concurrency() -> None:
    row = RECEIPTS["v029"]
    length = Seen(name="max_concurrency_context", value=20000.0, unit="tokens", line="for 20000 tokens per request: ")
    seen = log("0.6.3", kv_pool_bytes=3.81 * GIB, max_concurrency=row["concurrency"]["x"], kv_tokens=row["kv_tokens"])
    seen = Observation(engine="vllm", version="0.6.3", seen=(*seen.seen, length))
    options = {"gpu": "rtx3090-24gb", "engine_version": "0.6.3", "context": 29000, "util": 0.9}
    found = check("meta-llama__Llama-3.1-8B-Instruct", seen, **options)
    (reason,) = found.causes
    assert (reason.code, reason.certainty, reason.explains) == ("context", "exact", ("max_concurrency",))
    assert "the log's --max-model-len is 20000, the plan's 29000" in reason.text


def test_half_the_tokens_of_an_fp8_cache_are_those_of_bfloat16() -> None:
    """Receipt x020's size of one token, 64 x 8 x 128 x 2 x 2 B: 40,960 tokens take 10.00 GiB in bfloat16."""
    found = check(
        "Qwen__Qwen3-32B", log(kv_pool_bytes=10 * GIB, kv_tokens=40_960), pool_gib=10, kv_dtype="fp8", context=8192
    )
    (reason,) = found.causes
    assert (reason.code, reason.certainty) == ("cache_dtype", "exact")
    assert "the cache did not double" in reason.text
