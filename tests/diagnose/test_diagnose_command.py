"""`kvlab diagnose` as it is typed."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from vllm_pages import bandwidth

from kvlab.cli import main
from page_server import serving

GOLDEN = Path(__file__).parents[1] / "golden"
SERIES = str(GOLDEN / "diagnose" / "vllm_log_scale2000.csv")


@pytest.fixture(autouse=True)
def own_signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`main` takes SIGTERM for itself."""
    monkeypatch.setenv("COLUMNS", "100")
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def test_the_verdict_comes_first_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", SERIES]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("scheduler_limit_bound")
    assert len(lines) <= 35


def test_the_longest_answer_is_one_screen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, page in zip("ab", bandwidth(), strict=True):
        (tmp_path / name).write_text(page)
    assert main(["diagnose", str(tmp_path / "a"), str(tmp_path / "b"), "--seconds", "30"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 36


def test_the_document_has_the_keys_of_the_contract(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["diagnose", SERIES, "--json", "-o", str(tmp_path / "out.json")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / "out.json").read_text())
    assert found["schema"] == "kvlab/diagnose@1"
    assert {"engine", "replicas", "verdict", "evidence", "missing", "interventions", "alerts"} <= found.keys()
    assert found["alerts"] == []
    assert all(one.keys() == {"metric", "value", "line"} for one in found["evidence"])
    assert all(one.keys() == {"rank", "do", "why", "expect", "verify"} for one in found["interventions"])


def test_pages_are_printed_like_those_of_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--list"]) == 0
    assert "prefix_recompute_bound" in capsys.readouterr().out
    assert main(["diagnose", "capacity_bound"]) == 0
    assert "No preemption is no proof of room" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give the URL"),
        (["capacity_bond"], "did you mean capacity_bound"),
        (["/no/such/file.prom"], "no scrape at"),
        ([SERIES, SERIES], "--seconds"),
        ([SERIES, SERIES, "--seconds", "3"], "given alone"),
        ([SERIES, "--save", "x.jsonl"], "--save"),
        ([SERIES, "--engine", "vlm"], "vllm"),
        ([SERIES, "--seconds", "0"], "above 0"),
        ([SERIES, "--seconds", "1e300"], "below ten years"),
        ([SERIES, "--plan", SERIES], "plan"),
        ([SERIES, "--traffic", SERIES], "traffic"),
        (["--list", SERIES], "--list"),
        (["http://127.0.0.1:9/"], "no server"),
        (["127.0.0.1:9"], "write http://127.0.0.1:9"),
        (["localhost:9/metrics"], "write http://localhost:9/metrics"),
        (["http://127.0.0.1:9/", SERIES], "give the URL"),
    ],
)
def test_wrong_input_is_one_line_and_2(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", *words]) == 2
    told = capsys.readouterr().err
    assert says.lower() in told.lower()
    assert [line for line in told.splitlines() if line.startswith("kvlab: ")] == [told.splitlines()[-1]]


def test_check_knows_an_address_without_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "127.0.0.1:9"]) == 2
    assert "write http://127.0.0.1:9" in capsys.readouterr().err


IDLE = {"/metrics": "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"}


def test_progress_says_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(IDLE) as url:
        assert main(["diagnose", url, "--seconds", "0.5"]) == 0
    assert capsys.readouterr().err == "[1/1] looking at the server for 0.5 s\n"


def test_no_color_is_no_colour_on_a_terminal() -> None:
    """https://no-color.org means colours alone: bold and dim may stay."""
    words = [sys.executable, "-P", "-m", "kvlab", "diagnose"]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    env.pop("NO_COLOR", None)
    with serving(IDLE) as url:
        for last in ([url, "--seconds", "0.5"], [str(GOLDEN / "metrics" / "vllm_0.32_capacity.csv"), "--seconds", "1"]):
            plain, coloured = (colours([*words, *last], {**env, **more}) for more in ({"NO_COLOR": "1"}, {}))
            assert plain == []
            assert coloured


def colours(words: list[str], env: dict[str, str]) -> list[str]:
    """The sequences that set a colour, of all that a terminal was sent."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, env=env, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        sent = b""
        with suppress(OSError):  # the terminal ends with its last writer
            while piece := os.read(ours, 65536):
                sent += piece
    os.close(ours)
    assert process.returncode == 0, sent
    codes = re.findall(r"\x1b\[([0-9;]*)m", sent.decode(errors="replace"))
    return [code for code in codes if any(re.fullmatch(r"[349][0-8]|10[0-7]", part) for part in code.split(";"))]
