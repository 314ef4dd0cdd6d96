"""A real llama-server driven into the states that it can reach: the verdict from its address alone, in seconds."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from clients import clients, words

import kvlab
from kvlab import recordings
from kvlab.core.diagnosis import Diagnosis
from kvlab.launch import Command, Server
from kvlab.ports import free_port

pytestmark = pytest.mark.e2e
SLOTS = 2


@pytest.fixture(scope="module")
def url(gemma: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two slots of 2,048 tokens."""
    port = free_port()
    flags = ("--ctx-size", "4096", "--parallel", str(SLOTS), "--threads", "1", "--metrics", "--slots")
    argv = (sys.executable, "-m", "kvlab.engines.llamacpp.embedded", "--model", str(gemma), *flags, "--port", str(port))
    folder = tmp_path_factory.mktemp("engine")
    with Server(Command(engine="llamacpp", argv=argv, env={}, port=port), folder / "engine.log") as server:
        server.wait_ready(timeout=60)
        yield server.url


def settled(url: str, tpot_seconds: float = 0.05) -> Diagnosis:
    """The verdict within a minute: a busy machine may take more than one window to count a single prompt."""
    for seconds in (6, 12, 40):
        found = kvlab.diagnose(url, seconds=seconds, tpot_seconds=tpot_seconds)
        if found.verdict != "not_enough_evidence":
            break
    return found


def holds(found: Diagnosis, verdict: str) -> str:
    return next(other.holds for other in found.others if other.verdict == verdict)


def test_idle(url: str, tmp_path: Path) -> None:
    found = kvlab.diagnose(url, seconds=1.5, save=str(tmp_path / "idle.jsonl"))
    assert (found.engine, found.verdict, found.confidence) == ("llamacpp", "idle", "firm")
    again = kvlab.diagnose(tmp_path / "idle.jsonl")
    assert (again.verdict, again.looks) == ("idle", found.looks)
    assert len(recordings.read(str(tmp_path / "idle.jsonl"))) == found.looks


def test_ctrl_c_answers_130(url: str) -> None:
    argv = [sys.executable, "-m", "kvlab", "diagnose", url, "--seconds", "60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()  # it looks
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert process.returncode == 130
    assert told.splitlines()[-1].startswith("kvlab: interrupted")


def test_more_clients_than_slots(url: str) -> None:
    with clients(url, "gemma", 3 * SLOTS, lambda source: words(source, 40), 16):
        found = settled(url)
    assert found.verdict == "scheduler_limit_bound"
    assert f"of the {SLOTS} that may" in " ".join(found.because)
    assert holds(found, "healthy") == "no"


def test_shared_prefixes_that_are_lost(url: str) -> None:
    """The same long text in every prompt, behind a line that changes: nothing is found again."""
    shared = words(Random(7), 120)

    with clients(url, "gemma", SLOTS, lambda source: f"{words(source, 6)}. {shared}", 2):
        found = settled(url)
    assert found.verdict == "prefix_recompute_bound"
    assert any("put what is the same in every prompt first" in step.do for step in found.interventions)


def test_one_client_with_short_prompts(url: str) -> None:
    with clients(url, "gemma", 1, lambda source: words(source, 4), 24):
        found = settled(url, tpot_seconds=30.0)
    assert found.verdict == "healthy"
    assert holds(found, "prefix_recompute_bound") == "no"
