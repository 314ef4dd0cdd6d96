"""The real load generators, where they are installed: each is named by a variable, the tokenizer's folder by another.

    KVLAB_TOKENIZER=... KVLAB_VLLM=.../vllm KVLAB_GUIDELLM=.../guidellm KVLAB_AIPERF=.../aiperf \
        KVLAB_SGLANG=.../python pytest tests/runners/test_real_runners.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvlab.ports import free_port
from kvlab.readers import read

ROOT = Path(__file__).parents[2]
TOOLS = {name: os.environ.get(f"KVLAB_{name.upper()}") for name in ("vllm", "guidellm", "aiperf", "sglang")}
TOKENIZER = os.environ.get("KVLAB_TOKENIZER")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server with known delays: 50 ms to the first token, 10 ms for each further one."""
    port = free_port()
    delays = ("--first-token", "0.05", "--per-token", "0.01")
    process = subprocess.Popen((sys.executable, ROOT / "benchmarks" / "mock_server.py", "--port", str(port), *delays))
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{url}/log", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_real_run(name: str, server: str, tmp_path: Path) -> None:
    tool = TOOLS[name]
    if tool is None or TOKENIZER is None:
        pytest.skip(f"KVLAB_{name.upper()} and KVLAB_TOKENIZER name no {name} to run")
    output = tmp_path / "result.json"
    command = (
        sys.executable, "-m", "kvlab", "bench", server, "--runner", name, "--runner-bin", tool,
        "--tokenizer", TOKENIZER, "--input-tokens", "40", "--output-tokens", "12", "--num-prompts", "24",
        "--concurrency", "4", "--warm-up", "1", "-o", str(output),
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr
    result = read(output)
    assert (result.metrics["completed"], result.metrics["total_output_tokens"]) == (24, 288)
    assert 50 <= result.metrics["mean_ttft_ms"] < 150
    assert result.metrics["mean_tpot_ms"] == pytest.approx(10, abs=2)
    assert json.loads(output.read_text())["kvlab"]["runner"]["version"]
    assert len(result.lists.get("ttft_ms", ())) == (0 if name == "sglang" else 24)
