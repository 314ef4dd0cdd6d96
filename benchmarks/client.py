"""How closely the load client times a server with known delays, beside `vllm bench serve` on the same load.

    python benchmarks/client.py [--vllm PATH --tokenizer FOLDER]

The server (mock_server.py, a process of its own) records when it received each request and when it sent each token, on
the clock that all processes share. The error of a time to first token is what the client measured less what the server
took. Two loads: 64 streams at once in a closed loop, and 200 requests a second in an open loop. Exits 1 when kvlab
misses a target: median error below 2 ms, 99th percentile below 10 ms, requests sent within 1 % of the asked rate.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kvlab.load.runner import run_load
from kvlab.load.spec import LoadSpec, Prompt

RATE = 200.0
STREAMS = 64
FIRST_TOKEN, PER_TOKEN = 0.2, 0.02
MEDIAN_MS, P99_MS, RATE_SHARE = 2.0, 10.0, 0.01


class Load(NamedTuple):
    """One load: `rate` None is the closed loop."""

    name: str
    rate: float | None
    requests: int
    tokens: int


LOADS = (Load("64 streams, closed loop", None, 640, 32), Load("200 requests/s, open loop", RATE, 1000, 16))


class Outcome(NamedTuple):
    """What one client measured, against the server's record."""

    ttft_error_ms: np.ndarray[tuple[int], np.dtype[np.float64]]
    tpot_error_ms: float
    rate: float


def main() -> int:
    """Print the table; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description="kvlab's load client and vLLM's against a server with known delays")
    parser.add_argument("--vllm", default=os.environ.get("VLLM"), help="the vllm executable (default: $VLLM)")
    parser.add_argument("--tokenizer", help="a model folder: vllm bench serve makes its prompts with a tokenizer")
    options = parser.parse_args()
    missed = []
    with mock_server() as url:
        for load in LOADS:
            print(f"{load.name}: {load.requests} requests, {load.tokens} tokens each")
            ours = kvlab(url, load)
            show("kvlab", ours)
            missed += misses(load, ours)
            if options.vllm and options.tokenizer:
                theirs = vllm(url, load, options.vllm, options.tokenizer)
                show("vllm bench serve", theirs)
                ratios = [
                    np.percentile(ours.ttft_error_ms, p) / np.percentile(theirs.ttft_error_ms, p) for p in (50, 99)
                ]
                print(f"  kvlab / vllm: median error {ratios[0]:.2f}, p99 {ratios[1]:.2f}")
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def show(name: str, outcome: Outcome) -> None:
    """One line of the table."""
    median, p99 = np.percentile(outcome.ttft_error_ms, (50, 99))
    print(
        f"  {name:17} TTFT error median {median:6.2f} ms, p99 {p99:6.2f} ms;"
        f" mean TPOT error {outcome.tpot_error_ms:+.3f} ms; {outcome.rate:.2f} requests/s received"
    )


def misses(load: Load, outcome: Outcome) -> list[str]:
    """The targets that were not reached."""
    median, p99 = np.percentile(np.abs(outcome.ttft_error_ms), (50, 99))
    found = []
    if median >= MEDIAN_MS:
        found.append(f"{load.name}: median TTFT error {median:.2f} ms, target {MEDIAN_MS} ms")
    if p99 >= P99_MS:
        found.append(f"{load.name}: p99 TTFT error {p99:.2f} ms, target {P99_MS} ms")
    if load.rate is not None and abs(outcome.rate / load.rate - 1) > RATE_SHARE:
        found.append(f"{load.name}: {outcome.rate:.2f} requests/s sent, target {load.rate} within 1 %")
    return found


def kvlab(url: str, load: Load) -> Outcome:
    """The load by kvlab's client."""
    prompts = [Prompt(id=f"kvlab-{i}", text=f"kvlab-{i} " + "word " * 50, output_tokens=load.tokens)
               for i in range(load.requests)]  # fmt: skip
    warm_up = [Prompt(id="warm", text="warm up", output_tokens=2)] * STREAMS
    record(url)
    spec = LoadSpec(concurrency=STREAMS) if load.rate is None else LoadSpec(rate=load.rate, seed=1)
    result = run_load(url, prompts, spec, warm_up=warm_up)
    if load.rate is not None:
        late = np.percentile([(row.sent - row.scheduled) * 1000 for row in result.rows], (50, 99))
        print(f"  kvlab             sent {late[0]:.2f} ms (p99 {late[1]:.2f} ms) after the scheduled start")
    failed = [row.error for row in result.rows if row.error]
    if failed:
        raise SystemExit(f"kvlab: {len(failed)} requests failed: {failed[0]}")
    measured = {
        row.prompt_id: (row.first - row.sent, row.tpot)
        for row in result.rows
        if row.first is not None and row.tpot is not None
    }
    return outcome(measured, record(url))


def vllm(url: str, load: Load, executable: str, tokenizer: str) -> Outcome:
    """The same load by `vllm bench serve`."""
    shape = ["--max-concurrency", str(STREAMS)] if load.rate is None else ["--request-rate", str(load.rate)]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            executable, "bench", "serve", "--backend", "openai", "--base-url", url, "--model", "mock",
            "--tokenizer", tokenizer, "--dataset-name", "random", "--random-input-len", "50",
            "--random-output-len", str(load.tokens), "--num-prompts", str(load.requests), *shape,
            "--num-warmups", str(STREAMS), "--seed", "1", "--ignore-eos", "--disable-tqdm",
            "--request-id-prefix", "vllm-", "--save-result", "--save-detailed",
            "--result-dir", folder, "--result-filename", "result.json",
        ]  # fmt: skip
        record(url)
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        file = Path(folder, "result.json")
        if done.returncode or not file.exists():
            raise SystemExit(f"vllm bench serve failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        result = json.loads(file.read_text())
    measured = {
        f"vllm-{i}": (ttft, sum(itls) / (load.tokens - 1))
        for i, (ttft, itls) in enumerate(zip(result["ttfts"], result["itls"], strict=True))
    }
    return outcome(measured, record(url))


def outcome(measured: dict[str, tuple[float, float]], seen: Sequence[dict[str, object]]) -> Outcome:
    """What was measured (TTFT, TPOT by request, seconds) against the server's record."""
    # A warm-up request may carry the id of a measured one and came before it.
    truth = {str(entry["id"]): entry for entry in seen}
    ttft, tpot, received = [], [], []
    for name, (first, per_token) in measured.items():
        entry = truth[name]
        sent, start = entry["sent"], entry["received"]
        assert isinstance(sent, list)
        assert isinstance(start, float)
        ttft.append((first - (sent[0] - start)) * 1000)
        tpot.append((per_token - (sent[-1] - sent[0]) / (len(sent) - 1)) * 1000)
        received.append(start)
    rate = (len(received) - 1) / (max(received) - min(received))
    return Outcome(np.asarray(ttft), float(np.mean(tpot)), rate)


def record(url: str) -> list[dict[str, object]]:
    """The server's record, which this clears."""
    with urllib.request.urlopen(f"{url}/log", timeout=30) as answer:
        found: list[dict[str, object]] = json.load(answer)
    return found


@contextmanager
def mock_server() -> Iterator[str]:
    """mock_server.py on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = Path(__file__).with_name("mock_server.py")
    command = [sys.executable, str(script), "--port", str(port)]
    delays = ["--first-token", str(FIRST_TOKEN), "--per-token", str(PER_TOKEN)]
    process = subprocess.Popen([*command, *delays])
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(100):
            try:
                record(url)
                break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
