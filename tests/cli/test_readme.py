"""What the README shows of `kvlab plan` is what the command prints."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kvlab import cli

ROOT = Path(__file__).parents[2]
CONFIGS = {"Qwen3-8B/config.json": "Qwen__Qwen3-8B.json", "config.json": "meta-llama__Llama-3.1-70B.json"}


def shown() -> list[tuple[list[str], list[str]]]:
    """Each example of `kvlab plan`: its arguments, and the pieces of its output that stand between blank lines."""
    blocks = (part.split("\n```\n")[0] for part in (ROOT / "README.md").read_text().split("```console\n$ kvlab ")[1:])
    found = []
    for block in blocks:
        command, _, output = block.replace("\\\n", " ").partition("\n")
        found.append((shlex.split(command), output.split("\n\n")))
    return found


@pytest.mark.parametrize(("words", "pieces"), shown(), ids=lambda part: part[1] if part[0] == "plan" else "")
def test_an_example_is_what_is_printed(
    words: list[str],
    pieces: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    config = tmp_path / words[1]
    config.parent.mkdir(exist_ok=True)
    config.write_bytes((ROOT / "tests" / "golden" / "configs" / CONFIGS[words[1]]).read_bytes())
    assert cli.main(words) == 0
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert len(pieces) >= 2
    for piece in pieces:
        assert piece.strip() in printed
