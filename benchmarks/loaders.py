"""kvlab's load client beside vllm bench serve, guidellm and AIPerf: one server with known delays, one run.

    python benchmarks/loaders.py --tokenizer FOLDER [--vllm PATH] [--guidellm PATH] [--aiperf PATH]

The server (mock_server.py) records when it received each request and sent each token. For every client, in a process of
its own: the error of its times to first token with 64 streams in a closed loop; the processor seconds of all its
processes for 1,000 streamed tokens more (a run of 3,200 requests less one of 160, so that starting up counts little);
and the highest rate of 100, 200, 400 and 800 requests a second that the server saw held within 1 %. The last lines are
kvlab's figure over the best of the others, where less than 1 is better for kvlab; for the rate it is the other way
round. Exits 1 when kvlab is behind.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from client import STREAMS, mock_server, record
from kvlab.core.runner import Task
from kvlab.load.runner import run_load
from kvlab.load.spec import LoadSpec, Prompt
from kvlab.runners import runner

RATES = (100, 200, 400, 800)
SECONDS = 3
"""Of a step at one rate."""
TOKENS = 32
FEW, MANY = 160, 3200
WITHIN = 0.01
LONGEST = 120.0
"""Seconds that the steps of one client may take together."""
Firsts = dict[str, float]
"""Measured seconds to the first token, by the request's mark in the server's record."""


class Figures(NamedTuple):
    """Of one client. `rate` 0: not even the first step was held."""

    median_ms: float
    p99_ms: float
    cpu: float
    rate: int


class Run(NamedTuple):
    """One process of a client: what it measured, what the server saw, and the processor seconds."""

    firsts: Firsts
    seen: Sequence[dict[str, Any]]
    cpu: float


class Client(NamedTuple):
    """How a client is started in a folder for a task, and how its times to first token are read from there."""

    name: str
    argv: Callable[[Task, Path], Sequence[str]]
    firsts: Callable[[Path], Firsts]
    mark: str
    """The key of the server's record that the client's requests can be told by."""


def main() -> int:
    """Print the table and the ratios; 1 when kvlab is behind."""
    parser = argparse.ArgumentParser(description="kvlab's load client beside others, on a server with known delays")
    parser.add_argument("--tokenizer", default=os.environ.get("KVLAB_TOKENIZER"), help="a model folder")
    for name in OTHERS:
        parser.add_argument(f"--{name}", default=os.environ.get(f"KVLAB_{name.upper()}"), help=f"the {name} program")
    parser.add_argument("--as-kvlab", nargs=2, metavar=("TASK", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_kvlab:
        return as_kvlab(*options.as_kvlab)
    clients = [OURS]
    clients += [other(name, path) for name in OTHERS if (path := getattr(options, name)) is not None]
    found = {}
    with mock_server() as url:
        task = Task(
            url=url, model="mock", tokenizer=options.tokenizer or "", num_prompts=1, input_tokens=50,
            output_tokens=TOKENS, concurrency=STREAMS, seed=1,
        )  # fmt: skip
        print(f"{'client':10} {'TTFT error, median':>19} {'p99':>10} {'CPU s / 1,000 tokens':>22} {'rate held':>10}")
        for client in clients:
            found[client.name] = figures = measured(client, task)
            print(
                f"{client.name:10} {figures.median_ms:16.2f} ms {figures.p99_ms:7.2f} ms {figures.cpu:22.3f}"
                f" {figures.rate:8}/s",
                flush=True,
            )
    return ratios(found)


def ratios(found: dict[str, Figures]) -> int:
    """One line a figure; 1 when kvlab is behind in one."""
    ours, others = found.pop(OURS.name), list(found.items())
    behind = 0
    for at, what in enumerate(("TTFT error, median", "TTFT error, p99", "CPU seconds for 1,000 tokens")):
        if others:
            name, best = min(((name, figures[at]) for name, figures in others), key=lambda pair: pair[1])
            behind |= ours[at] > best
            print(f"{what}: kvlab / {name} = {ours[at] / best:.2f}")
    if others:
        name, most = max(((name, figures.rate) for name, figures in others), key=lambda pair: pair[1])
        behind |= ours.rate < most
        print(f"highest rate held: {name} / kvlab = {most / ours.rate:.2f}" if ours.rate else "kvlab held no rate")
    return int(behind)


def measured(client: Client, task: Task) -> Figures:
    """A client's figures: two closed loops, then rates until one is missed."""
    few, many = (run(client, changed(task, num_prompts=count)) for count in (FEW, MANY))
    errors = np.abs(ttft_errors(client, many))
    best = highest(client, task)
    median, p99 = np.percentile(errors, (50, 99))
    return Figures(float(median), float(p99), (many.cpu - few.cpu) / ((MANY - FEW) * TOKENS) * 1000, best)


def highest(client: Client, task: Task) -> int:
    """The highest rate that was held; when the middle one is missed, the lower one is tried, else the higher ones."""
    best, start, rates = 0, time.monotonic(), list(RATES[1:])
    while rates:
        rate = rates.pop(0)
        step = changed(task, num_prompts=rate * SECONDS, output_tokens=4, concurrency=None, rate=float(rate))
        received = sorted(entry["received"] for entry in run(client, step).seen)[-step.num_prompts :]
        held = (len(received) - 1) / (received[-1] - received[0])
        print(f"  {client.name}: asked for {rate}/s, the server saw {held:.1f}/s", file=sys.stderr, flush=True)
        if abs(held / rate - 1) <= WITHIN:
            best = rate
        elif rate == RATES[1]:
            rates = [RATES[0]]
        else:
            break
        if rates and best and time.monotonic() - start > LONGEST:
            print(f"  {client.name}: no time for {rates[0]}/s", file=sys.stderr, flush=True)
            break
    return best


def changed(task: Task, **values: object) -> Task:
    """The task with other values."""
    import msgspec

    return msgspec.structs.replace(task, **values)


def run(client: Client, task: Task) -> Run:
    """One process of a client from start to end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record(task.url)
        argv = client.argv(task, folder)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            argv, cwd=folder, env=environment(client.name), capture_output=True, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"{client.name} failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Run(client.firsts(folder), record(task.url), cpu)


def environment(client: str) -> dict[str, str]:
    """Nothing is sent to anyone else. AIPerf takes a folder for a Hub id when it is told to stay offline."""
    quiet = {"VLLM_NO_USAGE_STATS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return os.environ | quiet | ({} if client == "aiperf" else {"HF_HUB_OFFLINE": "1"})


def ttft_errors(client: Client, run: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Measured less what the server took, in ms."""
    truth = {str(entry[client.mark]): entry["sent"][0] - entry["received"] for entry in run.seen if entry["sent"]}
    return np.asarray([(first - truth[mark]) * 1000 for mark, first in run.firsts.items() if mark in truth])


def as_kvlab(task: str, out: str) -> int:
    """kvlab's client alone, as the process whose time is taken."""
    import msgspec

    asked = msgspec.json.decode(task, type=Task)
    prompts = [
        Prompt(id=f"kvlab-{i}", text=f"kvlab-{i} " + "word " * asked.input_tokens, output_tokens=asked.output_tokens)
        for i in range(asked.num_prompts)
    ]
    closed = LoadSpec(concurrency=asked.concurrency) if asked.rate is None else None
    spec = closed or LoadSpec(rate=asked.rate, burstiness=math.inf)
    result = run_load(asked.url, prompts, spec)
    firsts = {row.prompt_id: row.first - row.sent for row in result.rows if row.first is not None}
    Path(out).write_text(json.dumps(firsts))
    return int(len(firsts) < asked.num_prompts)


def our_argv(task: Task, folder: Path) -> Sequence[str]:
    """This script, as kvlab alone."""
    import msgspec

    return (sys.executable, __file__, "--as-kvlab", msgspec.json.encode(task).decode(), str(folder / "firsts.json"))


def our_firsts(folder: Path) -> Firsts:
    """What `as_kvlab` wrote."""
    found: Firsts = json.loads((folder / "firsts.json").read_text())
    return found


OURS = Client("kvlab", our_argv, our_firsts, "id")


def other(name: str, program: str) -> Client:
    """A client that kvlab's runners know, with even gaps at a rate: theirs are random otherwise, and miss by chance."""
    known = runner(name)

    def argv(task: Task, folder: Path) -> Sequence[str]:
        for file, text in known.files(task).items():
            (folder / file).write_text(text.replace('"poisson"', '"constant"'))
        words = [word.replace("kind=poisson", "kind=constant") for word in known.argv(task)]
        even = () if task.rate is None else ("--burstiness", "1e9")
        return (program, *words, *(("--request-id-prefix", "vllm-", *even) if name == "vllm" else ()))

    return Client(name, argv, OTHERS[name], "prompt" if name == "guidellm" else "id")


def vllm_firsts(folder: Path) -> Firsts:
    """Request i carries the id vllm-i."""
    return {f"vllm-{i}": first for i, first in enumerate(json.loads((folder / "result.json").read_text())["ttfts"])}


def guidellm_firsts(folder: Path) -> Firsts:
    """Its file keeps what was sent; a prompt that came twice says nothing."""
    import zlib

    rows = json.loads((folder / "result.json").read_text())["benchmarks"][0]["requests"]["successful"]
    found: dict[str, list[float]] = {}
    for row in rows:
        prompt = json.loads(row["request_args"])["body"]["prompt"]
        mark = str(zlib.crc32(prompt.encode()))
        found.setdefault(mark, []).append(row["time_to_first_token_ms"] / 1000)
    return {mark: firsts[0] for mark, firsts in found.items() if len(firsts) == 1}


def aiperf_firsts(folder: Path) -> Firsts:
    """Its rows name the id that the request carried."""
    rows = map(json.loads, (folder / "out" / "profile_export.jsonl").read_text().splitlines())
    return {
        row["metadata"]["x_request_id"]: row["metrics"]["time_to_first_token"]["value"] / 1000
        for row in rows
        if row["metadata"]["benchmark_phase"] == "profiling"
    }


OTHERS = {"vllm": vllm_firsts, "guidellm": guidellm_firsts, "aiperf": aiperf_firsts}

if __name__ == "__main__":
    sys.exit(main())
