"""What is shown while a long command works: every bar says what it counts, and an interruption how to go on."""

from __future__ import annotations

import argparse
import io
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvlab.cli import load_verb, main, progress
from kvlab.cli.commands import traffic
from kvlab.load.spec import Progress
from kvlab.settings import Step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, *steps: Step) -> str:
    """What a terminal was sent, without control sequences."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with progress.steps() as show:
        for step in steps:
            show(step)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())


def test_the_second_bar_says_what_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Progress("warm-up", 1, 4)
    text = drawn(monkeypatch, Step(2, 7, "arm A, block 1 of 4: load", counted.done, counted.total, counted.text))
    assert re.search(r"arm A, block 1 of 4: load .* 2/7", text)
    assert re.search(r"  warm-up requests .* 1/4", text)


@pytest.mark.parametrize("columns", ["0", "1", "40"])
def test_bars_stand_odd_widths(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", columns)
    with progress.steps() as show:
        show(Step(2, 7, "arm A, block 1 of 4: answers for the quality gate", 1, 4, "warm-up requests"))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "2/7" in text
    assert "1/4" in text


def test_a_count_without_steps_is_one_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    text = drawn(monkeypatch, Step(0, 1, "requests with shared prefixes", 3, 16))
    assert re.search(r"requests with shared prefixes .* 3/16", text)
    assert "0/1" not in text


def test_lines_name_each_phase_once(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.steps() as show:
        for done in range(3):
            at = Progress("load", done, 3, failed=done)
            show(Step(0, 7, "arm A: load", at.done, at.total, at.text))
        show(Step(1, 7, "arm A: answers"))
    assert capsys.readouterr().err == "[1/7] arm A: load: requests\n[2/7] arm A: answers\n"


def test_an_interrupted_experiment_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kvlab.api.demo", interrupted)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["demo", "--lab", str(tmp_path)]) == 130
    finally:
        signal.signal(signal.SIGTERM, handler)
    said = capsys.readouterr().err
    assert (
        f"the same command takes {tmp_path} up again and repeats only the step that was cut; delete the folder to"
        " start over" in said
    )
    assert said.count("\n") == 1


def test_labs_of_the_demo_are_ignored_by_git(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes((Path(__file__).parents[2] / ".gitignore").read_bytes())
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    labs = ["kvlab-demo/record.json", "kvlab-demo-2/record.json"]
    asked = subprocess.run(["git", "check-ignore", *labs], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert asked.stdout.split() == labs


def test_a_trace_that_takes_long_says_what_is_done_to_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    row = '{"timestamp": %d, "input_length": 1024, "output_length": 8, "hash_ids": [%d, %d]}\n'
    trace.write_text("".join(row % (1000 * at, at % 3, at) for at in range(3, 23)))
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    seen: list[str] = []
    words = ["--pool", "4,8", "--prefill-speed", "1000", "--decode-step", "20", "--json"]
    parser = argparse.ArgumentParser()
    load_verb("traffic").arguments(parser)
    traffic._found(parser.parse_args([str(trace), *words[:-1]]), seen.append)
    assert seen == [
        "reading trace.jsonl",
        "replaying it on caches of every size",
        "simulating a pool of 4 blocks (1 of 2)",
        "simulating a pool of 8 blocks (2 of 2)",
    ]
    assert main(["traffic", str(trace), *words]) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "simulating a pool of 8 blocks (2 of 2)" in text
