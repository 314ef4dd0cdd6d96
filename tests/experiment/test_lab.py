"""Lab folders that are none, or damaged: one line, nothing overwritten, nothing that waits."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from kvlab.core.errors import BadInput
from kvlab.lab import Lab


class Spec(msgspec.Struct, frozen=True):
    """Stands for an experiment's settings."""

    seed: int = 0


def claim(folder: Path) -> None:
    with Lab(folder).claimed(Spec()):
        pass


def test_a_lock_that_is_a_link_costs_no_file(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(BadInput, match="choose another --lab"):
        claim(tmp_path / "lab")
    assert (tmp_path / "precious").read_text() == "precious"


def test_places_that_are_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "lab" / ".lock").mkdir(parents=True)
    for name in ("file", "pipe", "file/x", "lab"):
        with pytest.raises(BadInput, match="choose another --lab"):
            claim(tmp_path / name)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"seed": "a"}'])
def test_a_damaged_lab_json_says_what_helps(tmp_path: Path, content: str) -> None:
    (tmp_path / "lab.json").write_text(content)
    (tmp_path / "runs").mkdir()
    with pytest.raises(BadInput, match="choose another --lab, or delete"):
        claim(tmp_path)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with Lab(tmp_path).claimed(Spec()), pytest.raises(BadInput, match="another kvlab works"):
        claim(tmp_path)
    claim(tmp_path)
