"""`kvlab ab` on a real vLLM: prefix caching on against off, A B B A, and what the engine's counters say of it.

`make test-vllm VLLM=DIR` runs it beside the others: four starts, some six minutes on two cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from test_real_vllm import PLAN, environment, vllm

__all__ = ["vllm"]
LOAD = ("--dataset", "shared-prefix", "--input-tokens", "600", "--shared-tokens", "512", "--output-tokens", "8")


def test_without_prefix_caching_a_shared_prefix_is_read_again_for_every_request(vllm: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "kvlab", "ab", str(vllm / "model"), "--engine", "vllm", *PLAN, *LOAD, "--json"]
    argv += ["--num-prompts", "16", "--concurrency", "2", "--no-quality", "--no-prefix", "--lab", str(tmp_path / "lab")]
    argv += ["--engine-arg", "enforce-eager", "--a", "prefix-caching=true", "--b", "prefix-caching=false"]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment(vllm), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"]["code"] == "worse"
    assert [found["arms"][arm]["label"] for arm in "ab"] == ["prefix caching on", "prefix caching off"]
    record = json.loads((tmp_path / "lab" / "record.json").read_text())
    hits = {arm: [run["pool"]["prefix_hit_rate"] for run in record["runs"] if run["arm"] == arm] for arm in "ab"}
    # 15 of 16 requests find the 512 of 600 tokens that the first one left; the warm-up shares nothing.
    assert all(rate is not None and 0.6 < rate < 0.86 for rate in hits["a"])
    assert all(not rate for rate in hits["b"])
    ttft = next(row for row in found["performance"] if row["metric"] == "mean_ttft_ms")
    assert ttft["low"] > 0.1
