"""The command line's promises: one JSON document, exit codes, no colour where none is wanted."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import kvlab
from kvlab.cli import load_verb, names
from kvlab.core.plan import Plan

GOLDEN = Path(__file__).parents[1] / "golden" / "llamacpp"


def run(*words: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "kvlab", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})


def test_json_is_one_document_and_nothing_else(qwen: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    done = run("plan", qwen, "--pool-gib", "4.78", "--context", "32k", "--json", "-o", out)
    assert done.returncode == 0
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document == json.loads(out.read_text())
    assert document["schema"] == "kvlab/plan@1"
    assert document["kv"]["context"] == 32768
    promised = {"source", "engine", "layout", "kv", "ledger", "capacity", "alternatives", "verdict", "launch", "doubts"}
    assert promised <= document.keys()
    assert document["capacity"].keys() >= {"pool_bytes", "block_size", "num_blocks", "tokens", "max_concurrency"}


def test_a_saved_plan_reads_back_as_the_same_value(qwen: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    assert run("plan", qwen, "--pool-gib", "4.78", "--json", "-o", out).returncode == 0
    assert msgspec.json.decode(out.read_bytes(), type=Plan) == kvlab.plan(qwen, pool_gib=4.78)


def test_strict_is_a_gate(qwen: Path) -> None:
    assert run("plan", qwen, "--pool-gib", "6", "--context", "32k", "--strict").returncode == 0
    assert run("plan", qwen, "--pool-gib", "1", "--context", "32k", "--strict").returncode == 1
    assert run("plan", qwen, "--strict").returncode == 1


def test_check_strict(gemma: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    arguments = ("plan", gemma, "--engine", "llamacpp", "--context", "8192", "--parallel", "2", "--json", "-o", plan)
    assert run(*arguments, "--kv-dtype", "q4_0").returncode == 0
    log = GOLDEN / "q4_0_8192_np2.log"
    assert run("check", log, "--plan", plan, "--strict").returncode == 0
    assert run(*arguments, "--kv-dtype", "q8_0").returncode == 0
    done = run("check", log, "--plan", plan, "--strict", "--json")
    assert done.returncode == 1
    verdicts = {row["name"]: row["verdict"] for row in json.loads(done.stdout)["rows"]}
    assert verdicts["kv_full_bytes"] == "differs"
    assert verdicts["n_ctx"] == "agrees"


def test_check_without_a_plan_says_what_the_log_says() -> None:
    done = run("check", GOLDEN / "q4_0_8192_np2.log", "--json")
    assert done.returncode == 0
    rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["slots"]["seen"] == 2
    assert rows["slots"]["planned"] is None


def test_no_colour_when_not_a_terminal(qwen: Path) -> None:
    for env in ({}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b[" not in run("plan", qwen, "--pool-gib", "4", env=env).stdout


@pytest.mark.parametrize("name", names())
def test_every_command_explains_itself_on_80_columns(name: str) -> None:
    done = run(name, "--help", env={"COLUMNS": ""})
    assert done.returncode == 0
    assert "--json" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_help_names_every_command_on_80_columns() -> None:
    text = run("--help", env={"COLUMNS": "0"}).stdout
    assert all(f"\n  {name} " in text for name in names())
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, run("--help", env={"COLUMNS": "40"}).stdout.splitlines())) <= 40


@pytest.mark.parametrize("name", names())
def test_every_option_with_a_value_states_its_default(name: str) -> None:
    parser = argparse.ArgumentParser()
    load_verb(name).arguments(parser)
    silent = [
        action.option_strings[0]
        for action in parser._actions
        if action.option_strings and action.nargs != 0 and not re.search("default|repeatable", action.help or "")
    ]
    assert set(silent) <= {"--attach"}  # another thing to do, not a value with a default


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({"PYTHONIOENCODING": "ascii"}, "modèle-模型-\U0001f9ea.json"),
        ({"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, "model.json"),
    ],
)
def test_an_ascii_output_gets_ascii(qwen: Path, env: dict[str, str], name: str) -> None:
    config = qwen.rename(qwen.with_name(name))
    for words in (("plan", config, "--pool-gib", "4"), ("gpus", "h100-80gb"), ("engines",), ("--help",)):
        argv = [sys.executable, "-m", "kvlab", *map(str, words)]
        plain = subprocess.run(argv, capture_output=True, env={**os.environ, **env}, check=False)
        assert plain.returncode == 0, plain.stderr
        assert plain.stdout.isascii()
        assert b"Traceback" not in plain.stderr
    done = run("plan", config, "--pool-gib", "4", "--json", env=env)
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["source"]["name"].endswith(config.name)


@pytest.mark.parametrize("name", ["gpus", "engines"])
def test_lists(name: str) -> None:
    assert len(json.loads(run(name, "--json").stdout)) >= 2
    assert run(name).returncode == 0


def test_the_gpus_end_with_this_machine_and_name_what_they_read() -> None:
    rows = json.loads(run("gpus", "--json").stdout)
    assert rows[-1]["name"] == "cpu"
    assert [row.name for row in kvlab.gpus()] == [row["name"] for row in rows]
    text = run("gpus", env={"COLUMNS": "100"}).stdout
    assert re.search(r"^b200-180gb .* fp16 bf16 fp8 fp4", text, re.M)
    assert re.search(r"^cpu  +[\d.]+ GiB", text, re.M)
    narrow = run("gpus", env={"COLUMNS": "40"}).stdout.splitlines()
    assert max(map(len, narrow)) <= 40
    assert "79.11 GiB" in next(line for line in narrow if line.startswith("h100-80gb "))


def test_the_engines_say_where_they_are_or_how_to_get_them() -> None:
    rows = {row["name"]: row for row in json.loads(run("engines", "--json").stdout)}
    assert rows["llamacpp"]["installed"]
    assert Path(rows["llamacpp"]["where"][0]).exists()
    for row in rows.values():
        assert row["installed"] == (row["where"] is not None)
        assert bool(row["missing"]) != row["installed"]
    assert "kvlab.engines.llamacpp.embedded" in run("engines", env={"COLUMNS": "200"}).stdout


def test_verbs_are_python_calls_of_the_same_name() -> None:
    import kvlab.api
    import kvlab.engines
    import kvlab.reporting.html  # no submodule may shadow a verb

    for verb in ("plan", "check", "bench", "compare", "ab", "quality", "prefix", "report", "demo", "gpus"):
        assert getattr(kvlab, verb) is getattr(kvlab.api, verb)
        assert verb in kvlab.__all__
    assert kvlab.__all__ == sorted(kvlab.__all__)


@pytest.mark.parametrize("redirect", [">/dev/full", ">&-", ">&- 2>&-"])
def test_nowhere_to_print(qwen: Path, redirect: str) -> None:
    script = f'"$0" -m kvlab plan "$1" --json {redirect}'
    done = subprocess.run(["bash", "-c", script, sys.executable, str(qwen)], capture_output=True, text=True)
    assert done.returncode == (2 if "full" in redirect else 0)
    assert "Traceback" not in done.stderr


def test_a_device_is_written_to_and_not_replaced(qwen: Path) -> None:
    assert run("plan", qwen, "--json", "-o", "/dev/null").returncode == 0
    assert not Path("/dev/null").is_file()


def test_odd_columns(qwen: Path) -> None:
    for columns in ("abc", "0", "1", "-5", ""):
        assert run("plan", "--help", env={"COLUMNS": columns}).returncode == 0
        assert run("plan", qwen, env={"COLUMNS": columns}).returncode == 0


def test_planning_a_config_imports_nothing_heavy(qwen: Path) -> None:
    heavy = "numpy scipy aiohttp rich altair gguf huggingface_hub psutil yaml asyncio"
    script = (
        "import sys; from kvlab.cli import main; main(['plan', sys.argv[1], '--json']);"
        "sys.stderr.write(' '.join(sorted(set(sys.argv[2].split()) & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(qwen), heavy], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode == 0
