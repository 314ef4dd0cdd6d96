"""The questions of `kvlab plan` beside the plan: which GPUs, prices, shares, the matrix, artefacts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LLAMA_70B = Path(__file__).parents[1] / "golden" / "configs" / "meta-llama__Llama-3.1-70B.json"
LLAMA_8B = LLAMA_70B.with_name("meta-llama__Llama-3.1-8B.json")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user without prices of his own."""
    return tmp_path / "home"


def plan(home: Path, *words: str | Path, model: Path = LLAMA_70B) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home), "COLUMNS": "80", "NO_COLOR": "1"}
    env.pop("KVLAB_PRICES", None)
    argv = [sys.executable, "-m", "kvlab", "plan", str(model), *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, env=env)


def test_users_without_a_gpu_ask_which_gpus(home: Path) -> None:
    gpus = "h100-80gb,a100-80gb"
    done = plan(home, "--users", "16", "--context", "32k", "--gpu", gpus, "--price", "h100=2.49", "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["schema"] == "kvlab/plan@1"
    assert document["candidates"]["sorted_by"] == "price"
    first = document["candidates"]["rows"][0]
    assert first["gpu"] == "h100-80gb"
    assert first["usd_per_hour"] == pytest.approx(2.49 * first["gpus"])
    assert first["tp"] * first["pp"] * first["dp"] == first["gpus"]
    assert "cheapest" in document["verdict"]["text"]


def test_the_screen_shows_one_table_with_its_legend(home: Path) -> None:
    done = plan(home, "--users", "16", "--context", "32k", "--gpu", "h100-80gb,a100-80gb", "--limit", "2")
    assert done.returncode == 0
    text = done.stdout
    assert "What serves 16 requests of 32,768 tokens" in text
    assert "2 more rows (--limit); 2 kinds of GPU tried" in " ".join(text.split())
    assert "fewest machines (of 8) first, then fewest GPUs, then least memory, shared memory last" in " ".join(
        text.split()
    )
    headline, hint = text.partition("Cache")[0], text.partition("to plan it alone, add ")[2]
    assert f"{hint.split()[1]} (" in " ".join(headline.split())
    assert max(map(len, text.partition("What serves")[2].partition("Cache of one")[0].splitlines())) <= 80


def test_one_is_written_in_the_singular_and_what_is_not_tried_is_named(home: Path) -> None:
    done = plan(home, "--users", "1", "--context", "8k", "--gpu", "h200-141gb,v100*,m3-max-36gb")
    text = " ".join(done.stdout.split())
    assert "What serves 1 request of 8,192 tokens" in text
    assert "1 kind of GPU tried" in text
    assert "not known to run on them: v100-16gb, v100-32gb (compute capability below 7.5); m3-max-36gb (Apple" in text


def test_the_pareto_table_of_users_has_the_context_and_says_what_holds(home: Path) -> None:
    done = plan(home, "--users", "16", "--gpu", "h200-141gb,", "--pareto", "--context", "32k")
    table = done.stdout.partition("What no other choice beats")[2].partition("Speed")[0]
    text = " ".join(table.split())
    assert "memory and dtype, among what holds 16 requests" in text
    assert "context" in table
    assert "32,768" in table
    assert "holds: 16 requests at both ends" in text


def test_the_hint_is_one_that_kvlab_takes(home: Path) -> None:
    split = ("--engine", "llamacpp", "--kv-dtype-k", "q8_0", "--kv-dtype-v", "q4_0", "--context", "8k")
    shown = plan(home, *split, "--users", "60", "--gpu", "m3-max-36gb,", model=LLAMA_8B).stdout
    note = " ".join(shown.partition("planned below: ")[2].partition("\n\n")[0].split())
    assert "servers that share the requests" in note
    hint = note.partition("to plan it alone, add ")[2].split()
    assert hint[2:6] == ["--kv-dtype-k", "q8_0", "--kv-dtype-v", "q4_0"]
    alone = plan(home, "--engine", "llamacpp", "--context", "8k", *hint, model=LLAMA_8B)
    assert alone.stdout.startswith("Fits")


def test_a_refused_command_says_what_makes_it_start(home: Path) -> None:
    words = ("--gpu", "l4-24gb", "--context", "32k", "--overhead-gib", "1.5")
    launch = plan(home, *words, model=LLAMA_8B).stdout.partition("the engine refuses this as it is")[2]
    assert "it starts with --kv-dtype fp8: add it here for that command" in " ".join(launch.split())
    again = plan(home, *words, "--kv-dtype", "fp8", model=LLAMA_8B).stdout
    assert "the engine refuses this as it is" not in again
    assert "--kv-cache-dtype fp8" in again


def test_nothing_is_written_where_nothing_holds(home: Path, tmp_path: Path) -> None:
    done = plan(home, "--users", "64", "--context", "128k", "--gpu", "t4*", "--tp", "1", "--write", tmp_path / "deploy")
    assert done.returncode == 2
    assert "no command to write" in done.stderr
    assert not (tmp_path / "deploy").exists()


def test_prices_come_from_the_users_file(home: Path, tmp_path: Path) -> None:
    (home / "kvlab").mkdir(parents=True)
    (home / "kvlab" / "prices.toml").write_text('"h100-80gb" = 3.0\n')
    asked = ("--users", "16", "--context", "32k", "--gpu", "h100-80gb,", "--json")
    rows = json.loads(plan(home, *asked).stdout)["candidates"]["rows"]
    assert rows[0]["usd_per_hour"] == 3.0 * rows[0]["gpus"]
    # The command line wins over the file, a named file over the usual one.
    rows = json.loads(plan(home, *asked, "--price", "h100-80gb=1").stdout)["candidates"]["rows"]
    assert rows[0]["usd_per_hour"] == rows[0]["gpus"]
    (tmp_path / "mine.toml").write_text('"h100-80gb" = 2\n')
    rows = json.loads(plan(home, *asked, "--prices", tmp_path / "mine.toml").stdout)["candidates"]["rows"]
    assert rows[0]["usd_per_hour"] == 2 * rows[0]["gpus"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--users", "4", "--price", "h100-80gb"), "--price 'h100-80gb' is no price"),
        (("--users", "4", "--price", "h100-80gb=-1"), "is no price"),
        (("--users", "4", "--price", "h1000-80gb=1"), "no GPU called 'h1000-80gb'"),
        (("--users", "4", "--prices", "missing.toml"), "no file of prices at missing.toml"),
        (("--users", "4", "--gpu", "voodoo*"), "no GPU matches 'voodoo*'"),
        (("--users", "4", "--limit", "0"), "at least 1"),
        (("--gpu", "h100-80gb", "--share", "-3"), "--share"),
        (("--gpu", "h100-80gb", "--share", "100%"), "below 100"),
        (("--share", "20"), "--share needs the GPU"),
        (("--matrix",), "--matrix needs memory"),
    ],
)
def test_what_cannot_be_answered_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = plan(home, "--context", "8k", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_shares_add_up(home: Path) -> None:
    done = plan(home, "--gpu", "b200-180gb", "--context", "8k", "--share", "10", "--share", "5%", "--json")
    document = json.loads(done.stdout)
    memory = next(line["bytes"] for line in document["ledger"] if line["name"] == "gpu_memory")
    others = next(line["bytes"] for line in document["ledger"] if line["name"] == "others")
    assert others == pytest.approx(-(10 * 2**30 + 0.05 * memory), rel=1e-6)
    assert "10 GiB and 5% of it left to other programs" in document["verdict"]["text"]


def test_the_matrix_and_the_pareto_table_are_keys_of_the_plan(home: Path) -> None:
    words = ("--gpu", "h200-141gb", "--context", "32k", "--matrix", "--pareto", "--price", "h200-141gb=3.2")
    document = json.loads(plan(home, *words, "--json").stdout)
    assert {"kv_dtype", "context", "tp", "concurrency", "low", "high"} <= document["matrix"][0].keys()
    assert all(row["usd_per_hour"] == pytest.approx(3.2 * row["gpus"]) for row in document["pareto"]["rows"])
    shown = plan(home, *words).stdout
    assert "Requests at once (estimated)" in shown
    assert "What no other choice beats" in shown


def test_speed_is_three_lines(home: Path) -> None:
    shown = plan(home, "--gpu", "h200-141gb", "--tp", "2", "--context", "8k", "--users", "32").stdout
    speed = shown.partition("Speed (estimated roofline")[2].partition("Memory of")[0]
    rows = [line for line in speed.splitlines()[1:] if line[:1] not in ("", " ")]
    assert [row.split("  ")[0] for row in rows[:3]] == ["1 request", "32 requests", "prefill"]


def test_write_leaves_standard_output_to_the_plan(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    done = plan(home, "--gpu", "h200-141gb", "--tp", "2", "--context", "8k", "--write", folder, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema"] == "kvlab/plan@1"
    written = sorted(path.name for path in folder.iterdir())
    assert written == ["docker-compose.yaml", "kubernetes.yaml", "launch.sh", "vllm_config.yaml"]
    assert done.stderr.count("kvlab: wrote ") == 4
    (tmp_path / "file").write_text("")
    done = plan(home, "--gpu", "h200-141gb", "--context", "8k", "--write", tmp_path / "file" / "x")
    assert done.returncode == 2
    assert "choose another folder for --write" in done.stderr
