"""`kvlab serve`, `check` and `explain` on a real vLLM.

`make test-vllm VLLM=DIR` runs them, with DIR made by scripts/setup_vllm_cpu.sh. Some ten minutes on two cores: vLLM is
started five times. Not part of `make test`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from kvlab import api
from kvlab.ports import free_port

PLAN = ("--gpu", "cpu", "--pool-gib", "1", "--context", "2048")


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_is_heard() -> None:
    """A shell starts what it puts into the background deaf to it, and so are the commands that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def vllm() -> Path:
    folder = Path(os.environ["KVLAB_VLLM"])
    assert (folder / "venv" / "bin" / "vllm").exists(), "run scripts/setup_vllm_cpu.sh first"
    return folder


def environment(vllm: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{vllm / 'venv' / 'bin'}:{os.environ['PATH']}"}


def serve(vllm: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "kvlab", "serve", str(vllm / "model"), "--json", *words]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment(vllm)
    )


def document(process: subprocess.Popen[str]) -> dict[str, object]:
    """What is printed once the server is ready."""
    assert process.stdout is not None
    assert process.stderr is not None
    text = ""
    while not text.endswith("\n}\n"):
        line = process.stdout.readline()
        assert line, process.stderr.read()
        text += line
    found: dict[str, object] = json.loads(text)
    return found


def below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_the_plan_agrees_to_the_digit_and_ctrl_c_leaves_nothing(vllm: Path, tmp_path: Path) -> None:
    with serve(vllm, tmp_path, *PLAN, "--port", str(free_port())) as process:
        found = document(process)
        check = found["check"]
        assert isinstance(check, dict)
        rows = {row["name"]: row for row in check["rows"]}
        assert (rows["kv_tokens"]["seen"], rows["kv_tokens"]["verdict"]) == (55_356, "agrees")
        assert (rows["max_concurrency"]["seen"], rows["max_concurrency"]["verdict"]) == (27.03, "agrees")
        assert "differs" not in {row["verdict"] for row in check["rows"]}
        # The same by its own pages alone, as of a server elsewhere.
        plan = api.plan(vllm / "model", gpu="cpu", pool_gib=1, context=2048)
        pages = api.check(str(found["url"]), plan=plan)
        verdicts = {row.name: row.verdict for row in pages.rows}
        assert pages.engine.version == "0.32.0"
        assert {verdicts[name] for name in ("kv_tokens", "max_concurrency", "num_gpu_blocks")} == {"agrees"}
        assert "differs" not in verdicts.values()
        processes = below(process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not psutil.wait_procs(processes, timeout=10)[1]


def test_an_fp8_cache_runs_or_is_explained_from_the_real_log(vllm: Path, tmp_path: Path) -> None:
    flags = Path("/proc/cpuinfo").read_text()
    able = "avx512" in flags or "amx" in flags
    with serve(vllm, tmp_path, *PLAN, "--kv-dtype", "fp8", "--port", str(free_port())) as process:
        if able:
            check = document(process)["check"]
            assert isinstance(check, dict)
            assert "differs" not in {row["verdict"] for row in check["rows"]}
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            return
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "AVX-512" in errors.splitlines()[-1]
    found = api.explain(tmp_path / "kvlab-vllm.log")
    assert found.findings[0].code == "fp8_needs_avx512"


def test_too_large_a_context_is_refused_by_the_plan_and_explained_from_the_log(vllm: Path, tmp_path: Path) -> None:
    small = ("--gpu", "cpu", "--pool-gib", "0.1", "--context", "32768", "--port", str(free_port()))
    with serve(vllm, tmp_path, *small) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "would not serve: bfloat16 ends at 21,376 tokens" in errors.splitlines()[-1]
    assert not (tmp_path / "kvlab-vllm.log").exists()
    with serve(vllm, tmp_path, *small, "--force") as process:
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 2
    found = api.explain(tmp_path / "kvlab-vllm.log")
    assert found.findings[0].code == "context_larger_than_pool"
    plan = api.plan(vllm / "model", gpu="cpu", pool_gib=0.1, context=32768)
    assert plan.capacity is not None
    stated = api.check(tmp_path / "kvlab-vllm.log", plan=plan)
    assert {row.name: row.verdict for row in stated.rows}["longest_request_tokens"] == "agrees"


def test_a_port_in_use_is_explained_from_the_real_log(vllm: Path, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    with socket.socket() as taken, log.open("w") as out:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        argv = ["vllm", "serve", str(vllm / "model"), "--host", "127.0.0.1", "--port", port]
        subprocess.run(argv, stdout=out, stderr=subprocess.STDOUT, env=environment(vllm), timeout=600, check=False)
    assert "port_in_use" in {finding.code for finding in api.explain(log).findings}


def test_a_sigterm_while_loading_leaves_nothing(vllm: Path, tmp_path: Path) -> None:
    log = tmp_path / "kvlab-vllm.log"
    with serve(vllm, tmp_path, *PLAN, "--port", str(free_port())) as process:
        deadline = time.monotonic() + 300
        while not log.exists() or "Initializing a V1 LLM engine" not in log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        processes = below(process)
        assert len(processes) > 2  # the supervisor, the API server, the engine core
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not psutil.wait_procs(processes, timeout=20)[1]
