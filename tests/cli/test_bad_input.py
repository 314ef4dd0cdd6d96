"""Bad input, tried as a user would: one line that says what, where and what to do; exit 2; no traceback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

LLAMA_LOG = Path(__file__).parents[1] / "golden" / "llamacpp" / "q8_0_8192_auto4_unified.log"


def kvlab(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "kvlab", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=cwd)


def refused(*words: str | Path) -> str:
    """The one line on standard error of a command that exits 2 and prints nothing else."""
    done = kvlab(*words)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("[")]  # progress lines
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("kvlab: ")
    return lines[0]


@contextmanager
def answering(status: int, body: str, kind: str) -> Iterator[str]:
    """A server that says the same to everybody."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_missing_file(tmp_path: Path, write_qwen: Callable[..., Path]) -> None:
    write_qwen()
    line = refused("plan", tmp_path / "confg.json")
    assert "does not exist" in line
    assert "did you mean config.json?" in line


def test_a_folder_without_config(tmp_path: Path, write_qwen: Callable[..., Path]) -> None:
    (tmp_path / "README.md").write_text("nothing here")
    assert "README.md" in refused("plan", tmp_path)


def test_truncated_json(write_qwen: Callable[..., Path]) -> None:
    path = write_qwen()
    path.write_text(path.read_text()[:100])
    assert str(path) in refused("plan", path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("num_hidden_layers", -3), ("num_hidden_layers", 10**9), ("head_dim", 0), ("num_key_value_heads", "eight")],
)
def test_absurd_numbers_name_their_key(write_qwen: Callable[..., Path], key: str, value: object) -> None:
    line = refused("plan", write_qwen(**{key: value}))
    assert key in line
    assert str(value) in line


def test_a_gguf_cut_short(tmp_path: Path, gemma: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with gemma.open("rb") as whole:
        cut.write_bytes(whole.read(20_000_000))
    line = refused("plan", cut, "--engine", "llamacpp")
    assert "20,000,000" in line
    assert "253,113,024" in line  # what the whole file has


def test_an_unknown_gpu_names_the_nearest(write_qwen: Callable[..., Path]) -> None:
    assert "h100-80gb" in refused("plan", write_qwen(), "--gpu", "h100-80g")


def test_an_unknown_model_names_its_type_and_keys(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "warp-drive", "architectures": ["WarpDrive"], "flux_cache_size": 7}))
    assert "warp-drive" in refused("plan", path)


def test_a_context_above_the_models(write_qwen: Callable[..., Path]) -> None:
    line = refused("plan", write_qwen(), "--context", "1M", "--pool-gib", "10")
    assert "40,960" in line
    assert "1,048,576" in line


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["plna"], "plan"),
        (["plan", "x", "--contxt", "5"], "--context"),
        (["plan", "x", "--tp", "zero"], "whole number"),
        (["plan", "x", "--context", "lots"], "number of tokens"),
        (["plan"], "source"),
        (["check", "no-such.log"], "no-such.log"),
        (["compare", "a.json", "b.json"], "a.json"),
        (["report", "no-such-lab"], "no-such-lab"),
        (["bench", "nonsense://x"], "http"),
    ],
)
def test_wrong_words(words: list[str], hint: str) -> None:
    assert hint in refused(*words)


def test_a_log_that_no_engine_wrote(tmp_path: Path) -> None:
    path = tmp_path / "boot.log"
    path.write_text("hello\nworld\n")
    assert "--engine" in refused("check", path)


def test_a_device_is_no_log() -> None:
    assert "device" in refused("check", "/dev/zero")


def test_a_refused_connection() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and nobody listens there
        port = silent.getsockname()[1]
        line = refused("bench", f"http://127.0.0.1:{port}", "--num-prompts", "2")
    assert str(port) in line


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (500, '{"error": {"message": "the engine core died"}}', "application/json", "500"),
        (200, "<!doctype html><title>Sign in</title>", "text/html", "HTML"),
        (200, '{"data": [', "application/json", "/v1/models"),
    ],
)
def test_servers_that_are_none(status: int, body: str, kind: str, words: str) -> None:
    with answering(status, body, kind) as url:
        assert words in refused("bench", url, "--num-prompts", "2")
        assert words in refused("prefix", url)


def test_an_empty_prompts_file(tmp_path: Path) -> None:
    empty = tmp_path / "prompts.txt"
    empty.write_text("\n\n")
    with answering(200, '{"data": [{"id": "m"}]}', "application/json") as url:
        assert str(empty) in refused("bench", url, "--prompts", empty)


def test_an_output_that_cannot_be_written(tmp_path: Path, write_qwen: Callable[..., Path]) -> None:
    line = refused("plan", write_qwen(), "-o", tmp_path / "no" / "folder" / "plan.json")
    assert "folder" in line


@pytest.mark.parametrize(("verb", "name"), [("plan", ""), ("plan", "."), ("plan", "no/x.json"), ("compare", "")])
def test_an_output_that_is_no_file(tmp_path: Path, write_qwen: Callable[..., Path], verb: str, name: str) -> None:
    words: list[str | Path] = [write_qwen()] if verb == "plan" else ["a.json", "b.json"]
    assert refused(verb, *words, "-o", name and tmp_path / name)


@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_pipes_and_devices_are_no_inputs(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = Path(name) if name.startswith("/") else tmp_path / name
    for words in (("plan", path), ("check", path), ("check", LLAMA_LOG, "--plan", path), ("compare", path, path)):
        assert str(path) in refused(*words)
    assert str(path) in refused("bench", "http://127.0.0.1:9", "--prompts", path)


def test_the_log_of_another_engine(tmp_path: Path, write_qwen: Callable[..., Path]) -> None:
    plan = tmp_path / "plan.json"
    kvlab("plan", write_qwen(), "--pool-gib", "10", "-o", plan)
    assert "is a log of" in refused("check", LLAMA_LOG, "--plan", plan)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--engine-arg", "kv-cache-dtyp=fp8"], "--kv-dtype"),
        (["--engine-arg", "hf-overrides={"], "JSON object"),
        (["--engine-version", "abc"], "0.32.0"),
        (["--engine", "llamacpp", "--engine-version", "0.0"], "b11549"),
        (["--context", "9" * 400], "--context"),
    ],
)
def test_arguments_that_an_engine_would_not_take(write_qwen: Callable[..., Path], words: list[str], hint: str) -> None:
    line = refused("plan", write_qwen(), *words)
    assert hint in line
    assert len(line) < 400


@pytest.mark.parametrize("host", ["127.0.0.1:9", "a" * 64 + ".example", "127.0.0.1:99999"])
def test_a_password_in_an_address_is_not_repeated(host: str) -> None:
    for words in (["bench", "--num-prompts", "1"], ["prefix"], ["check"], ["quality", f"http://me:s3cret@{host}2"]):
        assert "s3cret" not in refused(*words, f"http://me:s3cret@{host}")


def test_a_lab_with_other_settings_is_left_alone(tmp_path: Path, gemma: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "thesis.txt").write_text("years of work")
    asked = ("--engine", "llamacpp", "--engine-arg", "embedded=true", "--b", "kv-dtype=q8_0", "--context", "1024")
    done = kvlab("ab", gemma, *asked, "--pool-gib", "0.1", "--lab", tmp_path / "lab")
    assert done.returncode == 2
    assert "thesis.txt" in done.stderr
    assert (tmp_path / "lab" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    "words",
    [
        ("diagnose", "HTTP://user:SECRET@127.0.0.1:9"),
        ("check", " user:SECRET@host"),
        ("diagnose", "http://user:pa/SECRET@h"),
        ("check", "x", "http://user:SECRET@h"),
        ("http://user:SECRET@h",),
        ("traffic", "HTTP://user:SECRET@h"),
        ("diagnose", "x", "--seconds", "http://u:SECRET@h"),
        ("explain", "x", "--apikey", "sk-SECRETAPI"),
    ],
)
def test_no_password_of_an_argument_is_repeated(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    from kvlab.cli import main

    assert main(list(words)) == 2
    said = capsys.readouterr().err
    assert "SECRET" not in said
    assert "***" in said


def test_progress_obeys_no_terminal_command(capsys: pytest.CaptureFixture[str]) -> None:
    from kvlab.cli.stderr import say

    say("waiting: http://u:SECRET@h answered 500: boom \x1b[31m")
    assert capsys.readouterr().err == "waiting: http://u:***@h answered 500: boom ?[31m\n"


@pytest.mark.parametrize(
    "words",
    [
        ("diagnose", "in", "-o", "in"),
        ("diagnose", "in", "-o", "./link"),
        ("traffic", "x", "in", "-o", "hard"),
        ("traffic", "x", "--fix", "out", "-o", "out"),
        ("check", "x", "--plan", "in", "-o", "in"),
        ("diagnose", "http://127.0.0.1:9", "--save", "same", "-o", "same"),
        ("diagnose", "http://127.0.0.1:9", "--save", "in", "--plan", "in"),
        ("compare", "in", "x", "-o", "in"),
        ("plan", "in", "-o", "in"),
        ("serve", "in", "--log", "in"),
        ("serve", "x", "--log", "out", "-o", "out"),
    ],
)
def test_no_output_replaces_an_input(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kvlab.cli import main

    monkeypatch.chdir(tmp_path)
    Path("in").write_text("kept")
    Path("link").symlink_to("in")
    Path("hard").hardlink_to("in")
    assert main(list(words)) == 2
    said = capsys.readouterr().err
    assert "would replace" in said or "both write" in said
    assert Path("in").read_text() == "kept"
    assert not Path("out").exists()


def test_a_device_is_written_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kvlab.cli import main

    assert main(["gpus", "h100-80gb", "-o", "/dev/null"]) == 0
    assert main(["check", str(LLAMA_LOG), "-o", str(tmp_path / "check.json")]) == 0
