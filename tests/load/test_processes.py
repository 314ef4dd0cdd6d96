"""A load of several processes, and whether the client was what limited a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from scripted_server import DONE, Scripted, event, plain, serving, stream

from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.measure import RequestRow
from kvlab.load.bench import BenchSpec, bench
from kvlab.load.clock import BusyTimes
from kvlab.load.datasets import PromptsFile
from kvlab.load.processes import processes_for
from kvlab.load.runner import run_load
from kvlab.load.sending import Sent
from kvlab.load.spec import LoadSpec, Progress, Prompt
from kvlab.load.usage import client_use

PROMPTS = [Prompt(id=str(number), text=f"prompt {number}", output_tokens=2) for number in range(24)]
GOOD = stream(0.05, event("a"), event("b", "length"), DONE)
LOAD = (
    "import sys\n"
    "from kvlab.load.runner import run_load\n"
    "from kvlab.load.spec import LoadSpec, Prompt\n"
    "prompts = [Prompt(id=str(i), text='x', output_tokens=1) for i in range(50)]\n"
    "try:\n"
    "    run_load(sys.argv[1], prompts, LoadSpec(concurrency=8, processes=2))\n"
    "except KeyboardInterrupt:\n"
    "    sys.exit(42)\n"
)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.perf_counter() + 20
    while not true():
        assert time.perf_counter() < end
        time.sleep(0.02)


def test_a_closed_loop_of_several_processes() -> None:
    seen: list[Progress] = []
    with serving(GOOD) as server:
        result = run_load(server.url, PROMPTS, LoadSpec(concurrency=5, processes=2), progress=seen.append)
    assert server.most_in_flight == 5
    assert [row.prompt_id for row in result.rows] == [prompt.id for prompt in PROMPTS]
    assert sorted(body["prompt"] for body in server.bodies) == sorted(prompt.text or "" for prompt in PROMPTS)
    assert result.completed == 24
    assert result.client is not None
    assert result.client.processes == 2
    assert seen[-1] == Progress("load", 24, 24, 0)
    assert 0.24 < result.duration < 5


def test_an_open_loop_of_several_processes_keeps_its_times() -> None:
    with serving(GOOD) as server:
        one, two = (
            run_load(server.url, PROMPTS, LoadSpec(rate=60, burstiness=0.5, seed=4, processes=count))
            for count in (1, 2)
        )
    assert [row.scheduled for row in two.rows] == pytest.approx([row.scheduled for row in one.rows])
    assert all(row.sent >= row.scheduled for row in two.rows)
    assert two.rows[-1].scheduled == pytest.approx(0.4)
    assert two.client is not None
    assert two.client.late_p99 is not None


def test_the_key_and_the_password_reach_the_processes_and_no_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: list[str] = []
    with serving(GOOD) as server:

        def look(_: Progress) -> None:
            for child in psutil.Process().children():
                with suppress(psutil.Error):  # one may have ended
                    arguments.extend(child.cmdline())

        url = server.url.replace("http://", "http://me:s3cret-word@")
        run_load(url, PROMPTS, LoadSpec(concurrency=4, processes=2), progress=look)
    assert {headers.get("Authorization") for headers in server.headers} == {"Basic bWU6czNjcmV0LXdvcmQ="}
    assert arguments
    assert not any("s3cret" in argument for argument in arguments)


def test_what_the_server_refuses_is_refused_by_all() -> None:
    before = set(psutil.Process().children())
    with serving(plain("no such model", 404, "text/plain")) as server, pytest.raises(ServerRefused) as caught:
        run_load(server.url, PROMPTS, LoadSpec(concurrency=4, processes=2))
    assert str(caught.value) == f"all 24 requests to {server.url} failed; the first: http 404: no such model"
    assert set(psutil.Process().children()) <= before


def test_a_process_that_dies_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with serving(GOOD) as server, pytest.raises(BadInput, match=r"a client process died .* fewer --processes"):
        run_load(server.url, PROMPTS, LoadSpec(concurrency=4, processes=2))


def test_ctrl_c_ends_every_process() -> None:
    with serving(stream(event("a"), 60.0)) as server:
        process = subprocess.Popen([sys.executable, "-c", LOAD, server.url], stderr=subprocess.PIPE)
        wait_until(lambda: server.in_flight == 8)
        children = psutil.Process(process.pid).children()
        assert len(children) == 2
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert (process.returncode, errors) == (42, b"")
        _gone(children, server)


def test_processes_end_when_the_one_that_started_them_is_killed() -> None:
    with serving(stream(event("a"), 60.0)) as server:
        process = subprocess.Popen([sys.executable, "-c", LOAD, server.url], stderr=subprocess.DEVNULL)
        wait_until(lambda: server.in_flight == 8)
        children = psutil.Process(process.pid).children()
        process.kill()
        process.wait()
        _gone(children, server)


def _gone(children: list[psutil.Process], server: Scripted) -> None:
    wait_until(lambda: server.cancelled == 8)
    wait_until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))


@pytest.mark.parametrize(
    ("spec", "chains", "count"),
    [
        (LoadSpec(concurrency=8), 100, 1),
        (LoadSpec(concurrency=8, processes=3), 100, 3),
        (LoadSpec(concurrency=2, processes=3), 100, 2),
        (LoadSpec(rate=1, processes=3), 2, 2),
        (LoadSpec(concurrency=8, processes="auto"), 100, 1),
        (LoadSpec(rate=10, processes="auto"), 100, 1),
        (LoadSpec(concurrency=1024, processes="auto"), 2000, 3),
        (LoadSpec(rate=200, processes="auto"), 2000, 3),  # 200 x 100 tokens a second
    ],
)
def test_how_many_processes(spec: LoadSpec, chains: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    prompts = [Prompt(id=str(at), text="x", output_tokens=100) for at in range(chains)]
    assert processes_for(spec, prompts, chains) == count


def test_how_late_arrivals_are_noticed() -> None:
    """Turns of 100 ms in a run of 1 s: 5 of them. An arrival meets one with probability 1/2, and waits 50 ms then."""
    busy = BusyTimes()
    for _ in range(5):
        busy.add(0.1)
    assert busy.share(1.0) == pytest.approx(0.5)
    assert busy.mean_lag(1.0) == pytest.approx(0.025)
    assert busy.lag(1.0, 0.25) == pytest.approx(0.05)  # half of those that wait at all wait longer than half a turn
    assert busy.lag(1.0, 0.01) == pytest.approx(0.098)
    busy.clear()
    assert (busy.share(1.0), busy.lag(1.0, 0.01)) == (0.0, 0.0005)


def row(ttft: float) -> RequestRow:
    return RequestRow(index=0, prompt_id="p", scheduled=0, sent=0.001, first=ttft, ttft=ttft)


@pytest.mark.parametrize(
    ("busy", "lag", "duration", "verdict"),
    [
        (0.3, 0.001, 5.0, False),
        (0.85, 0.001, 5.0, True),
        (0.3, 0.02, 5.0, True),  # 20 ms of a median TTFT of 100 ms
        (0.3, 0.009, 5.0, False),
        (0.85, 0.02, 0.5, None),
    ],
)
def test_when_the_client_was_the_bottleneck(busy: float, lag: float, duration: float, verdict: bool | None) -> None:
    part = Sent(rows=(), ended=duration, cpu_seconds=busy * duration, busy_share=busy, lag_mean=0.0, lag_p99=lag)
    found = client_use([part], [row(0.1)] * 3, duration, waits=True)
    assert found.bottleneck is verdict
    assert found.late_p99 == pytest.approx(0.001)


def test_a_client_that_cannot_keep_up_says_so(tmp_path: Path) -> None:
    """A server that answers at once with thousands of chunks leaves the client no time."""
    file = tmp_path / "p.txt"
    file.write_text("\n".join(f"prompt {number}" for number in range(500)))
    flood = b"".join(event("x") for _ in range(4000))
    spec = BenchSpec(dataset=PromptsFile(path=str(file), output_tokens=5000), load=LoadSpec(concurrency=32), warm_up=0)
    with serving(stream(flood, event("x", "length"), DONE)) as server:
        result = bench(server.url, spec)
    own = result.metrics["kvlab"]
    assert isinstance(own, dict)
    assert own["client"]["processes"] == 1
    assert own["client"]["bottleneck"] is True, own["client"]
    assert any(remark.startswith("the client itself held this load back") for remark in result.remarks)
