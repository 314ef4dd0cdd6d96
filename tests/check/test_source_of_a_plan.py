"""Where check finds the model of a plan, which holds no folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kvlab.cli import main

CHECK = Path(__file__).parents[1] / "golden" / "check"
CONFIG = CHECK / "gemma-3-270m.json"
LOG = CHECK / "vllm_0.32.0_cpu_block_size_32.log"


def planned(folder: Path, source: Path) -> Path:
    file = folder / "plan.json"
    argv = ["plan", str(source), "--gpu", "cpu", "--engine", "vllm", "--pool-gib", "1", "--context", "2048"]
    assert main([*argv, "--json", "-o", str(file)]) == 0
    return file


def checked(capsys: pytest.CaptureFixture[str], plan: Path, *more: str) -> dict[str, list[str]]:
    capsys.readouterr()
    assert main(["check", str(LOG), "--plan", str(plan), "--json", *more]) == 0
    found: dict[str, list[str]] = json.loads(capsys.readouterr().out)
    return found


def test_a_plan_holds_no_folder_and_check_says_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, work = tmp_path / "somebody", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    source = Path(shutil.copy(CONFIG, home))
    monkeypatch.chdir(work)
    plan = planned(work, source)
    assert "somebody" not in plan.read_text()
    (remark,) = checked(capsys, plan)["remarks"][:1]
    assert remark == (
        "the plan was not made again with the log's settings: gemma-3-270m.json is neither in this folder nor beside"
        " the plan (a plan keeps a model's name and not its folder): give --source FOLDER/gemma-3-270m.json"
    )
    again = "with that, all 4 rows that the log states agree"
    assert checked(capsys, plan, "--source", str(source))["remarks"][0].startswith(again)


def test_a_model_beside_the_plan_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    beside, work = tmp_path / "beside", tmp_path / "work"
    beside.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    plan = planned(beside, Path(shutil.copy(CONFIG, beside)))
    assert checked(capsys, plan)["remarks"][0].startswith("with that, all 4 rows that the log states agree")
