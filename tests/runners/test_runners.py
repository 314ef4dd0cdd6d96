"""Other load generators: called as they are called, their files read, nothing left running, no key where others see it.

The programs here are scripts that note how they were called and leave a file that the real tool once wrote;
test_real_runners.py calls the real ones.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from kvlab import external
from kvlab.cli import main
from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.runner import Task
from kvlab.load.compare import compare
from kvlab.readers import read
from kvlab.runners import runner, runners

GOLDEN = Path(__file__).parent.parent / "golden" / "results"
FILES = {
    "vllm": GOLDEN / "vllm_0.32-detailed.json",
    "guidellm": GOLDEN / "guidellm_0.8.1-concurrent_4.json",
    "aiperf": GOLDEN / "aiperf_0.13_aiperf.json",
    "sglang": GOLDEN / "sglang_0.5.5_recorded.jsonl",
}
TASK = Task(
    url="http://127.0.0.1:9",
    model="mock",
    tokenizer="tokenizer",
    num_prompts=24,
    input_tokens=50,
    output_tokens=12,
    concurrency=4,
    seed=3,
    warm_up=2,
)
Program = Callable[[str, str], Path]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Writes a program that does `then` (Python), in a folder of its own."""

    def write(name: str, then: str) -> Path:
        path = tmp_path / "bin" / runner(name).program
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!{sys.executable}\nimport json, os, pathlib, shutil, sys, time\n{then}\n")
        path.chmod(0o755)
        return path

    return write


def lives(pid: int) -> bool:
    """A zombie has ended; its new parent has not looked yet."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def leaves(name: str, noted: Path) -> str:
    """Notes arguments and environment, and leaves the recorded file where the tool would."""
    where = runner(name).result
    return (
        f"pathlib.Path({str(noted)!r}).write_text(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
        f"os.makedirs(os.path.dirname({where!r}) or '.', exist_ok=True)\n"
        f"shutil.copy({str(FILES[name])!r}, {where!r})"
    )


def test_every_runner_is_known_by_its_file() -> None:
    assert sorted(runners()) == ["aiperf", "guidellm", "sglang", "vllm"]
    with pytest.raises(BadInput, match="no runner called 'guidelm'; did you mean guidellm"):
        runner("guidelm")


def test_the_help_names_every_runner() -> None:
    from kvlab.cli.command import Parser
    from kvlab.cli.runner import arguments

    parser = Parser("kvlab bench")
    parser.add_argument("url")
    arguments(parser)
    assert all(name in parser.format_help() for name in runners())


@pytest.mark.parametrize("name", ["aiperf", "guidellm", "vllm"])
def test_its_file_becomes_kvlabs(name: str, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted, output = tmp_path / "noted", tmp_path / "result.json"
    path = program(name, leaves(name, noted))
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    measured = external.measure(runner(name), TASK)
    external.save(measured, output)
    written, original = read(output), read(FILES[name])
    assert written.format == "kvlab"
    assert written.metrics == original.metrics
    assert written.own == original.own
    assert json.loads(output.read_text())["kvlab"]["runner"]["name"] == name
    argv, _ = json.loads(noted.read_text())
    assert json.loads(output.read_text())["kvlab"]["runner"]["argv"] == [name, *argv]
    # The tool's own file lies beside it, and says the same.
    assert output.with_suffix(f".{name}.json").read_bytes() == FILES[name].read_bytes()


@pytest.mark.parametrize(
    "line",
    ["  50%|#####     | 12/24 [00:00<00:00, 23.30it/s]", "Processed 12/24", "successful=12", "3/9 files\\n12/24"],
)
def test_its_progress_is_told(line: str, program: Program, tmp_path: Path) -> None:
    shown = f"print('{line}', end='\\r', flush=True)\n"
    path = program("vllm", shown + leaves("vllm", tmp_path / "noted"))
    counts: list[tuple[int, int]] = []
    external.measure(runner("vllm"), TASK, program=str(path), on_count=lambda done, total: counts.append((done, total)))
    assert counts[-1] == (12, 24)


def test_rows_are_those_of_the_tool(program: Program, tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    path = program("guidellm", leaves("guidellm", tmp_path / "noted"))
    external.save(external.measure(runner("guidellm"), TASK, program=str(path)), output)
    rows = {row.metric: row for row in compare(FILES["guidellm"], output).rows}
    for metric in ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "output_throughput"):
        assert rows[metric].change == pytest.approx(0)
        assert rows[metric].low is not None


def test_arguments_say_what_was_asked() -> None:
    said = {name: " ".join(found.argv(TASK)) for name, found in runners().items()}
    assert "--random-input-len 50 --random-output-len 12 --num-prompts 24 --max-concurrency 4" in said["vllm"]
    assert "--random-output-len 12 --random-range-ratio 1 --num-prompts 24 --max-concurrency 4" in said["sglang"]
    assert "--profile kind=concurrent,streams=4" in said["guidellm"]
    assert "count=24" in said["guidellm"]
    config = json.loads(runner("aiperf").files(TASK)["aiperf.yaml"])["benchmark"]
    assert config["phases"][-1] == {
        "name": "profiling",
        "kind": "profiling",
        "requests": 24,
        "type": "concurrency",
        "concurrency": 4,
    }
    import msgspec

    open_loop = msgspec.structs.replace(TASK, concurrency=None, rate=7.5, endpoint="chat", ignore_eos=False)
    assert "--request-rate 7.5" in " ".join(runner("vllm").argv(open_loop))
    assert "--ignore-eos" not in runner("vllm").argv(open_loop)
    assert "--disable-ignore-eos" in runner("sglang").argv(open_loop)
    assert "kind=poisson,rate=7.5" in runner("guidellm").argv(open_loop)
    with pytest.raises(BadInput, match="guidellm always asks for full answers"):
        external.measure(runner("guidellm"), open_loop)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_key_goes_by_the_environment(
    name: str, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, output = tmp_path / "noted", tmp_path / "result.json"
    found = runner(name)
    # guidellm writes its configuration into its file: the key may be part of it.
    spill = f"text = pathlib.Path({found.result!r}).read_text()\n" + (
        f"pathlib.Path({found.result!r}).write_text(text.replace('mock', os.environ[{found.key!r}]))"
    )
    path = program(name, leaves(name, noted) + "\n" + spill)
    if found.modules:
        monkeypatch.setattr(external, "find", lambda *_: external.Installed((str(path),), None))
    monkeypatch.setenv("KVLAB_API_KEY", "sk-very-secret")
    external.save(external.measure(found, TASK, program=str(path)), output)
    argv, environment = json.loads(noted.read_text())
    assert environment[found.key] == "sk-very-secret"
    assert "sk-very-secret" not in " ".join(argv)
    written = list(tmp_path.glob("result*"))
    assert len(written) >= 2
    assert all(b"sk-very-secret" not in file.read_bytes() for file in written)


def test_a_key_of_openai_goes_to_no_server(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`vllm bench serve` and SGLang's client send OPENAI_API_KEY to whatever address they are given."""
    noted = tmp_path / "noted"
    path = program("vllm", leaves("vllm", noted))
    monkeypatch.delenv("KVLAB_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    external.measure(runner("vllm"), TASK, program=str(path))
    _, environment = json.loads(noted.read_text())
    assert "sk-of-openai" not in environment.values()


def test_what_goes_wrong_is_one_line(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAB_API_KEY", "sk-very-secret")
    failing = program("guidellm", "print('starting')\nsys.exit('ValueError: no route for ' + os.environ[" +
                      "'GUIDELLM__SPEC__BACKEND__API_KEY'])")  # fmt: skip
    with pytest.raises(EngineFailed, match=r"^guidellm exited with 1: ValueError: no route for \*\*\*$"):
        external.measure(runner("guidellm"), TASK, program=str(failing))
    boxed = "print('10:00 ERROR All 4 requests failed')\nprint('│ Reason: all failed, see │\\n│ the log │')\n"
    gone = program("aiperf", boxed + "print('Log File: ' + os.getcwd() + '/out/aiperf.log')\nsys.exit(1)")
    with pytest.raises(EngineFailed, match=r"^AIPerf exited with 1: 10:00 ERROR All 4 requests failed$"):
        external.measure(runner("aiperf"), TASK, program=str(gone))
    silent = program("vllm", "print('done')")
    with pytest.raises(EngineFailed, match="vllm bench serve ended without a result file: done"):
        external.measure(runner("vllm"), TASK, program=str(silent))


def test_a_password_in_the_address_is_refused() -> None:
    with pytest.raises(BadInput, match=r"no user name and password for http://h:1; give KVLAB_API_KEY"):
        external.aim("http://me:s3cret@h:1", None)


def test_what_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="guidellm is not on PATH; install guidellm, or give --runner-bin"):
        external.find(runner("guidellm"))
    with pytest.raises(BadInput, match="nowhere is no program that can be run"):
        external.find(runner("vllm"), str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match="has no sglang; install sglang, or give --runner-bin, the path of a Python"):
        external.find(runner("sglang"), sys.executable)


@pytest.mark.parametrize("module", ["benchmark/serving.py", "bench_serving.py"])
def test_sglangs_two_names(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package is seen without being imported: SGLang's import takes seconds, and a GPU."""
    about = tmp_path / "sglang-0.5.6.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.6\n")
    source = tmp_path / "sglang" / module
    source.parent.mkdir(parents=True)
    source.write_text("raise SystemExit(1)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = external.find(runner("sglang"), sys.executable)
    assert found.argv == (sys.executable, "-m", f"sglang.{module[:-3].replace('/', '.')}")
    assert found.version == "0.5.6"


def test_options_that_others_lack_are_not_dropped(program: Program) -> None:
    path = program("vllm", "sys.exit(1)")
    command = (sys.executable, "-m", "kvlab", "bench", "http://127.0.0.1:9", "--runner", "vllm", "--runner-bin", path)
    done = subprocess.run((*command, "--prompts", "p.jsonl"), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is kvlab's own and not passed on to vllm bench serve" in done.stderr


def test_what_is_not_asked_for_has_the_defaults_of_kvlab_bench(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, output = tmp_path / "noted", tmp_path / "result.json"
    path = program("vllm", leaves("vllm", noted))
    monkeypatch.setattr(external, "aim", lambda url, model: (url, "mock"))
    words = ["bench", "http://127.0.0.1:9", "--runner", "vllm", "--runner-bin", str(path), "-o", str(output), "--json"]
    assert main(words) == 0
    said = " ".join(json.loads(noted.read_text())[0])
    assert "--random-input-len 1024 --random-output-len 128 --num-prompts 64 --max-concurrency 8" in said


def test_an_interrupted_run_leaves_nothing(program: Program, tmp_path: Path) -> None:
    """Ctrl-C in a terminal: the program, and what it started, are gone, and the exit code is 130."""
    pids = tmp_path / "pids"
    path = program(
        "guidellm",
        "import signal, subprocess\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '300'])\n"
        f"pathlib.Path({str(pids) + '.new'!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(pids) + '.new'!r}, {str(pids)!r})\n"
        "time.sleep(300)",
    )
    script = (
        "import sys\nfrom kvlab import external\nfrom kvlab.runners import runner\nfrom kvlab.core.runner import Task\n"
        "task = Task(url='http://127.0.0.1:9', model='m', tokenizer='t', num_prompts=1, input_tokens=1,"
        " output_tokens=1, concurrency=1)\n"
        "try:\n    external.measure(runner('guidellm'), task, program=sys.argv[1])\n"
        "except KeyboardInterrupt:\n    raise SystemExit(130)\n"
    )
    started = subprocess.Popen((sys.executable, "-c", script, str(path)), start_new_session=True)
    deadline = time.monotonic() + 30
    while not pids.exists():
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.05)
    both = [int(pid) for pid in pids.read_text().split()]
    os.kill(started.pid, signal.SIGINT)
    assert started.wait(30) == 130
    assert not [pid for pid in both if lives(pid)]
