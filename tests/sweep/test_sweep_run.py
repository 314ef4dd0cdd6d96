"""The whole sweep on a server whose capacity is known: what it finds, what it leaves, and how it is taken up again."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from queue_server import Places, queueing

import kvlab
from kvlab.cli import main
from kvlab.core.bracket import Search
from kvlab.core.errors import BadInput
from kvlab.core.objectives import objectives
from kvlab.core.sweep import Sweep
from kvlab.load.spec import Tls
from kvlab.settings import Step
from kvlab.sweeping import SweepSettings, fresh_seed

PLACES, SECONDS = 4, 0.1
"""40 requests a second."""


@pytest.fixture(scope="module")
def server() -> Iterator[Places]:
    with queueing(PLACES, SECONDS) as found:
        yield found


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """`main` takes SIGTERM for itself."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def settings(url: str, **changes: Any) -> SweepSettings:
    search = Search(over="concurrency", requests=8, most_requests=8, target=0.5)
    base = SweepSettings(
        source=url, search=search, objectives=objectives(["e2el:330"]), input_tokens=5, output_tokens=4, warm_up=1
    )
    return msgspec.structs.replace(base, **changes)


@pytest.fixture(scope="module")
def swept(server: Places, tmp_path_factory: pytest.TempPathFactory) -> tuple[Sweep, Path, list[Step], list[str]]:
    """A finished sweep, its lab, the steps that it told, and the prompts that the server got."""
    lab = tmp_path_factory.mktemp("sweeps") / "lab"
    steps: list[Step] = []
    before = len(server.prompts)
    found = kvlab.sweep(
        settings(server.url, price_per_hour=3.0), lab, report=lab.with_name("report"), on_step=steps.append
    )
    return found, lab, steps, server.prompts[before:]


def test_the_safe_load_and_the_knee_lie_where_the_server_has_them(swept: tuple[Sweep, Path, Any, Any]) -> None:
    """4 places of 0.1 s: 8 in flight take 0.2 s, 12 take 0.3 s, 16 take 0.4 s; beyond 4 throughput stays at 160."""
    found = swept[0]
    assert found.safe.code == found.verdict.code == "bracketed"
    assert found.safe.meets_at is not None
    assert found.safe.fails_at is not None
    assert 8 <= found.safe.meets_at <= 13
    assert 12 <= found.safe.fails_at <= 16
    at = next(one for one in found.points if one.load == found.safe.meets_at)
    assert at.output_throughput is not None
    assert at.output_throughput.value == pytest.approx(PLACES / SECONDS * 4, rel=0.25)
    assert at.pool.peak_waiting is not None
    assert at.pool.peak_waiting >= 3
    assert found.knee.load is not None
    assert found.knee.load.low is not None
    assert found.knee.load.high is not None
    assert found.knee.load.low <= PLACES <= found.knee.load.high
    assert found.safe.request_rate is not None
    assert found.safe.request_rate.value == pytest.approx(PLACES / SECONDS, rel=0.3)


def test_tokens_are_priced_at_the_safe_load(swept: tuple[Sweep, Path, Any, Any]) -> None:
    """3 $/h at 160 tokens a second is 5.21 $ per million; a prompt of 5 for each 4 out."""
    cost = swept[0].cost
    assert cost is not None
    assert cost.at == swept[0].safe.meets_at
    alone, shared = cost.ways
    assert alone.per_million_output is not None
    assert alone.per_million_output.value == pytest.approx(5.21, rel=0.3)
    assert shared.per_million_output is not None
    assert shared.per_million_output == shared.per_million_input
    assert shared.per_million_output.value < alone.per_million_output.value


def test_every_look_has_prompts_of_its_own(swept: tuple[Sweep, Path, Any, Any]) -> None:
    prompts = swept[3]
    assert len(set(prompts)) == len(prompts) > 40
    assert fresh_seed(0, "rate 1") != fresh_seed(0, "rate 2")
    assert fresh_seed(0, "rate 1") != fresh_seed(1, "rate 1")


def test_what_it_leaves(swept: tuple[Sweep, Path, Any, Any]) -> None:
    found, lab, steps, _ = swept
    document = json.loads((lab / "sweep.json").read_text())
    keys = {"schema", "over", "points", "objectives", "safe", "knee", "cost", "verdict"}
    assert document.keys() >= keys
    assert document["schema"] == "kvlab/sweep@1"
    assert document["verdict"].keys() == {"code", "text", "because"}
    assert msgspec.json.decode((lab / "sweep.json").read_bytes(), type=Sweep) == found
    assert len(list((lab / "looks").iterdir())) == len(found.points)
    (listed,) = kvlab.history(lab).entries
    assert (listed.kind, listed.time, listed.verdict) == ("sweep", found.finished, found.verdict.code)
    page = (lab.with_name("report") / "report.html").read_text()
    assert "<script" not in page
    again = kvlab.report(lab, lab.with_name("again"))
    assert again.read_text() == page
    assert kvlab.report(lab / "sweep.json", lab.with_name("again")) == again
    assert found.verdict.text.split(";")[0] in page
    charts = {path.name for path in (lab.with_name("report") / "charts").iterdir()}
    assert charts >= {"sweep-ttft.png", "sweep-tpot.png", "sweep-throughput.png", "sweep-goodput.png"}
    assert {step.phase for step in steps} >= {"", "prompts made", "warm-up requests", "requests"}


def test_a_finished_sweep_sends_nothing_again(server: Places, swept: tuple[Sweep, Path, Any, Any]) -> None:
    found, lab, _, _ = swept
    before = len(server.prompts)
    again = kvlab.sweep(settings(server.url, price_per_hour=6.0), lab)  # a price changes no look
    assert len(server.prompts) == before
    assert again.points[0].per_million_output is not None
    assert found.points[0].per_million_output is not None
    ratio = again.points[0].per_million_output.value / found.points[0].per_million_output.value
    assert ratio == pytest.approx(2.0)
    assert again.safe == found.safe


def test_other_objectives_take_up_the_looks_that_they_share(
    server: Places, swept: tuple[Sweep, Path, Any, Any]
) -> None:
    lab = swept[1]
    before, kept = len(server.prompts), len(list((lab / "looks").iterdir()))
    search = Search(over="concurrency", requests=8, most_requests=8, target=0.5, points=(1, 2, 3))
    found = kvlab.sweep(settings(server.url, objectives=(), search=search), lab)
    assert [one.load for one in found.points] == [1, 2, 3]
    assert len(list((lab / "looks").iterdir())) == kept + 1  # 3 is new
    # One to warm up, the first of each of 3 places, and 3 turns of each of them.
    assert len(server.prompts) == before + 1 + 3 + 9
    assert found.verdict.code == "no_knee"
    assert "no knee" not in found.verdict.text.lower()  # the head says it already
    assert found.safe.code == "no_objectives"


def test_other_requests_are_another_sweep(server: Places, swept: tuple[Sweep, Path, Any, Any]) -> None:
    with pytest.raises(BadInput, match="input_tokens was 5 and is 6"):
        kvlab.sweep(settings(server.url, input_tokens=6), swept[1])


def command(url: str, lab: Path) -> list[str]:
    words = f"sweep {url} --points 1,2,4,8 --num-prompts 10 --input-tokens 5 --output-tokens 4 --warm-up 1 --json"
    return [sys.executable, "-m", "kvlab", *words.split(), "--lab", str(lab)]


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_it_goes_on_where_it_was_stopped(
    stop: signal.Signals, code: int, server: Places, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = tmp_path / "lab"
    server.held_from = len(server.prompts) + 1 + 10 + 1  # all of the first look, and the second one's first
    process = subprocess.Popen(command(server.url, lab), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(lab.glob("looks/1-*.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, stop)
    _, said = process.communicate(timeout=60)
    server.held_from = None
    assert process.returncode == code
    if stop is signal.SIGINT:
        assert f"the same command takes {lab} up again" in said
    kept = {path: path.stat().st_mtime_ns for path in lab.glob("looks/*.json")}
    assert len(kept) == 1
    assert main(command(server.url, lab)[3:]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["load"] for one in document["points"]] == [1, 2, 4, 8]
    assert all(path.stat().st_mtime_ns == moment for path, moment in kept.items())
    assert len(document["sittings"]) == 2


def test_a_rate_below_the_capacity_is_served_and_counted_by_littles_law(server: Places, tmp_path: Path) -> None:
    search = Search(over="rate", points=(15,), requests=30, most_requests=30)
    found = kvlab.sweep(settings(server.url, search=search, objectives=()), tmp_path / "lab")
    one = found.points[0]
    assert one.in_flight is not None
    assert 0.7 * 15 * SECONDS < one.in_flight.value < 2 * 15 * SECONDS  # a busy machine makes requests longer
    assert one.request_throughput is not None
    assert one.request_throughput.value == pytest.approx(15, rel=0.25)


def test_a_password_in_the_address_is_kept_nowhere(server: Places, tmp_path: Path) -> None:
    search = Search(over="rate", points=(40,), requests=4, most_requests=4)
    url = server.url.replace("http://", "http://someone:sesame@")
    found = kvlab.sweep(settings(url, search=search, objectives=()), tmp_path / "lab", report=tmp_path / "report")
    assert found.source == server.url
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"sesame" not in path.read_bytes()


def test_looks_at_an_unchecked_server_are_remarked_whoever_judges_them(
    certificate: tuple[Path, ssl.SSLContext], tmp_path: Path
) -> None:
    """Also by a later sitting that sends nothing; and of plain http nothing is said."""
    believed = Tls(insecure=True)
    search = Search(over="concurrency", points=(1.0, 2.0), requests=4, most_requests=4)
    with queueing(2, 0.02, certificate[1]) as server:
        asked = settings(server.url, search=search, objectives=())
        found = [kvlab.sweep(msgspec.structs.replace(asked, tls=tls), tmp_path / "s") for tls in (believed, Tls())]
    with queueing(2, 0.02) as server:
        plain = settings(server.url, search=search, objectives=(), tls=believed)
        found.append(kvlab.sweep(plain, tmp_path / "plain"))
    said = [any("certificate was not checked" in line for line in one.verdict.because) for one in found]
    assert said == [True, True, False]
