"""`kvlab serve` on the embedded engine, and the look at a GPU that others use."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from kvlab import api
from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.observation import Observation, Seen
from kvlab.core.plan import Plan
from kvlab.detect import GpuProcess, LocalGpu
from kvlab.launch import Server, start
from kvlab.ports import free_port
from kvlab.preflight import refuse_dirty, seen_by
from kvlab.serving import Look, joined, make_room, status

GIB = 2**30


def words(gemma: Path, *more: str) -> list[str]:
    arm = ["--engine", "llamacpp", "--context", "1024", "--parallel", "1", "--engine-arg", "embedded=true"]
    return [sys.executable, "-m", "kvlab", "serve", str(gemma), *arm, *more]


@contextmanager
def serving(gemma: Path, folder: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, object]]]:
    """A `kvlab serve --json` that is ready, with what it printed; its end is the caller's."""
    port = free_port()
    argv = words(gemma, "--port", str(port), "--json", *more)
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            text = ""
            while not text.endswith("\n}\n"):
                line = process.stdout.readline()
                assert line, process.stderr and process.stderr.read()
                text += line
            yield process, json.loads(text)
        finally:
            process.kill()


def below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def all_gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=20)[1]


@pytest.mark.e2e
def test_it_starts_checks_and_stops_everything(gemma: Path, tmp_path: Path) -> None:
    with serving(gemma, tmp_path) as (process, found):
        check = found["check"]
        assert isinstance(check, dict)
        assert {row["verdict"] for row in check["rows"]} == {"agrees"}
        assert (tmp_path / "kvlab-llamacpp.log").stat().st_size > 0
        url = str(found["url"])
        attach = [sys.executable, "-m", "kvlab", "serve", "--attach", url, "--json"]
        with subprocess.Popen(attach, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as other:
            assert other.stderr is not None
            assert "running 0" in other.stderr.readline()
            other.send_signal(signal.SIGINT)
            said, errors = other.communicate(timeout=20)
        assert f"{url} goes on" in errors
        seen = json.loads(said)
        assert (seen["engine"], seen["pid"], other.returncode) == ("llamacpp", None, 130)
        assert {row["name"]: row["seen"] for row in seen["check"]["rows"]}["n_ctx_slot"] == 1024
        processes = below(process)
        assert processes
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "everything that was started has been stopped" in errors
        assert all_gone(processes)


@pytest.mark.e2e
def test_an_engine_that_dies_ends_it_with_one_line(gemma: Path, tmp_path: Path) -> None:
    with serving(gemma, tmp_path) as (process, _):
        engine = next(child for child in reversed(below(process)) if not child.children())
        engine.kill()
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 2
        assert "died while it was serving" in errors.splitlines()[-1]


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_loading_leaves_nothing(gemma: Path, tmp_path: Path, number: signal.Signals) -> None:
    argv = words(gemma, "--port", str(free_port()))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        deadline = time.monotonic() + 60
        while not (processes := below(process)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        process.communicate(timeout=30)
        assert not [child for child in processes if child.is_running()]  # gone before kvlab is
    assert process.returncode == 130


@pytest.mark.e2e
def test_a_port_in_use_is_one_line(gemma: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        argv = words(gemma, "--port", str(taken.getsockname()[1]))
        done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    assert f"(pid {os.getpid()})" in done.stderr.splitlines()[-1]


ATTACH = [sys.executable, "-m", "kvlab", "serve", "--json", "--attach"]


@pytest.mark.e2e
def test_a_server_elsewhere_is_read_by_its_address_and_its_piped_log(
    gemma: Path, tmp_path: Path, llama_server: Server
) -> None:
    plan = [str(gemma), "--engine", "llamacpp", "--context", "8192", "--parallel", "4"]
    argv = [*ATTACH, llama_server.url, "--log", "-", *plan]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(llama_server.log.read_bytes())  # and the pipe stays open, as with kubectl logs -f
        process.stdin.flush()
        text = b""
        while not text.endswith(b"\n}\n"):
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            text += line
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    check = json.loads(text)["check"]
    assert {row["verdict"] for row in check["rows"]} == {"agrees"}
    assert [remark for remark in check["remarks"] if "another start" in remark] == []
    assert process.returncode == 130
    assert llama_server.alive()


@pytest.mark.e2e
def test_a_server_that_still_loads_is_waited_for_and_missed_when_it_goes(gemma: Path, tmp_path: Path) -> None:
    log, port = tmp_path / "pod.log", free_port()
    log.write_text("")
    argv = [*ATTACH, f"http://127.0.0.1:{port}", "--engine", "llamacpp", "--log", str(log)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watcher:
        assert watcher.stderr is not None
        assert watcher.stdout is not None
        assert "waiting: no server at" in watcher.stderr.readline()
        plan = api.plan(gemma, engine="llamacpp", context=1024, parallel=1, engine_args={"embedded": "true"})
        with start(plan, log, port=port):
            said = ""
            while not said.endswith("\n}\n"):
                said += watcher.stdout.readline()
        _, errors = watcher.communicate(timeout=60)
    assert {row["name"]: row["seen"] for row in json.loads(said)["check"]["rows"]}["kv_full_cells"] == 1024
    assert watcher.returncode == 2
    assert "has stopped answering" in errors.splitlines()[-1]


def test_a_server_that_will_not_come_is_explained_from_its_log() -> None:
    log = Path(__file__).parents[1] / "golden" / "logs" / "quantised_values_need_flash_attention.llamacpp_real.log"
    for words, given in (([str(log)], ""), (["-"], log.read_text())):
        argv = [*ATTACH, f"http://127.0.0.1:{free_port()}", "--log", *words]
        done = subprocess.run(argv, capture_output=True, text=True, input=given, timeout=60)
        assert done.returncode == 2
        assert "does not serve: a quantised value cache needs flash attention" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--attach", "http://127.0.0.1:9", "--print"], "leave one of them out"),
        (["--log", "-"], "goes with --attach"),
        (["--attach", "http://127.0.0.1:9"], "no server at"),
        (["--attach", "http://127.0.0.1:9", "--log", "no/such.log"], "no log at no/such.log"),
        (["--attach", "http://127.0.0.1:9", "--log", "-"], "no server at"),  # what is piped in has ended
    ],
)
def test_what_cannot_be_is_one_line(gemma: Path, more: list[str], said: str) -> None:
    argv = [sys.executable, "-m", "kvlab", "serve", str(gemma), "--engine", "llamacpp", "--context", "512", *more]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[-1]


def test_a_log_of_another_start_is_said() -> None:
    def said(**numbers: float | str) -> Observation:
        seen = (Seen(name=name, value=value, unit="", line=name) for name, value in numbers.items())
        return Observation(engine="vllm", version=None, seen=tuple(seen))

    seen, remarks = joined(said(kv_tokens=55_356, kv_cache_dtype="auto"), said(kv_tokens=3232, kv_cache_dtype="fp8"))
    assert [item.value for item in (seen.get("kv_tokens"), seen.get("kv_cache_dtype")) if item] == [3232, "auto"]
    assert remarks == ("kv tokens: the log says 55,356 and the server 3,232: it may be the log of another start",)
    assert joined(said(max_concurrency=27.03), said(max_concurrency=27.0297))[1] == ()


def test_printing_starts_nothing(gemma: Path, tmp_path: Path) -> None:
    argv = words(gemma, "--print", "--json")
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    # what would run here: the embedded server, not a llama-server that is not installed
    assert json.loads(done.stdout)["argv"][1:5] == ["-m", "kvlab.engines.llamacpp.embedded", "--model", str(gemma)]
    assert list(tmp_path.iterdir()) == []


def gpu(used: int, *processes: GpuProcess) -> LocalGpu:
    return LocalGpu(
        index=0,
        vendor="nvidia",
        name="NVIDIA L4",
        table_name="l4-24gb",
        total_bytes=24 * GIB,
        used_bytes=used,
        free_bytes=24 * GIB - used,
        driver="570.86.15",
        runtime="CUDA 12.8",
        processes=processes,
    )


def test_a_gpu_that_others_use_is_named_with_what_they_hold() -> None:
    trainer = GpuProcess(pid=4711, name="python", bytes=9 * GIB)
    with pytest.raises(BadInput) as caught:
        refuse_dirty([gpu(9 * GIB + 2**28, trainer)])
    said = str(caught.value)
    assert "GPU 0 (NVIDIA L4) is in use: python (pid 4711) holds 9.00 GiB; 14.75 GiB of 24.00 GiB are free" in said
    assert "--force" in said
    hidden = GpuProcess(pid=5, name=None, bytes=None)  # the driver will not say (WDDM, MIG)
    with pytest.raises(BadInput, match="an amount that the driver does not state"):
        refuse_dirty([gpu(2**29, hidden)])
    with pytest.raises(BadInput, match=r"2\.00 GiB are held"):
        refuse_dirty([gpu(2 * GIB)])  # another container's processes are not to be seen


def test_only_gpus_that_the_engine_will_use_count(qwen: Path, gemma: Path) -> None:
    node = [msgspec.structs.replace(gpu(0), index=index) for index in range(8)]

    def used(plan: Plan, visible: str | None) -> list[int]:
        return [one.index for one in seen_by(plan, node, visible)]

    two = api.plan(qwen, gpu="l4-24gb", tp=2, context=4096)
    assert used(two, None) == [0, 1]
    assert used(two, "6,7") == [6, 7]
    assert used(two, "") == []
    assert used(two, "GPU-8932f937-d72c,1") == list(range(8))  # by UUID: which is which is not known
    llama = api.plan(gemma, engine="llamacpp", context=1024)
    assert used(llama, None) == list(range(8))  # it spreads a model over all that it sees
    assert used(llama, "3") == [3]


def test_a_request_without_a_gpu_is_planned_for_the_one_here(
    qwen: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kvlab import cli, detect

    other = msgspec.structs.replace(gpu(0), index=1, table_name="h100-80gb")
    monkeypatch.setattr(detect, "local_gpus", lambda: (gpu(0), other))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    words = ["serve", str(qwen), "--context", "4096", "--print"]
    assert cli.main(words) == 0
    assert "planned for this machine's l4-24gb" in capsys.readouterr().err
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert cli.main(words) == 0
    assert "planned for this machine's h100-80gb" in capsys.readouterr().err
    assert cli.main([*words, "--gpu", "a100-80gb"]) == 0
    assert "planned for" not in capsys.readouterr().err


def test_a_desktop_is_no_reason_to_refuse() -> None:
    refuse_dirty([gpu(400 * 2**20, GpuProcess(pid=900, name="Xorg", bytes=120 * 2**20))])
    refuse_dirty([])


def test_a_status_says_only_what_was_seen() -> None:
    before = {"running": 2.0, "waiting": 0.0, "prompt_tokens_total": 100.0, "generation_tokens_total": 50.0}
    now = {"running": 4.0, "waiting": 1.0, "prompt_tokens_total": 1100.0, "generation_tokens_total": 450.0}
    assert status(Look(0.0, before), None) == "running 2 · waiting 0"
    assert status(Look(2.0, now), Look(0.0, before)) == ("running 4 · waiting 1 · prompt 500 tok/s · output 200 tok/s")
    restarted = now | {"prompt_tokens_total": 5.0, "generation_tokens_total": 460.0, "kv_used_ratio": 0.5}
    assert status(Look(12.0, restarted), Look(2.0, now)) == ("running 4 · waiting 1 · cache 50% used · output 1 tok/s")
    counted = {"prefix_queries_tokens_total": 200.0, "prefix_hits_tokens_total": 30.0, "preemptions_total": 3.0}
    asked = {"prefix_queries_tokens_total": 100.0, "prefix_hits_tokens_total": 5.0, "preemptions_total": 3.0}
    assert status(Look(1.0, counted), Look(0.0, asked)) == "preemptions 3 · prefix hits 25%"
    assert status(Look(0.0, {}), None) == "no metric that kvlab knows"
    tokens = Look(0.0, {"kv_used_tokens": 1536.0})
    assert (status(tokens, None), status(tokens, None, 2048)) == ("cache 1,536 tokens used", "cache 75% used")


def test_no_rate_is_said_while_requests_run_and_none_of_their_tokens_is_counted() -> None:
    counted = {"prompt_tokens_total": 1100.0, "generation_tokens_total": 450.0}
    at_work, idle = {"running": 4.0, "waiting": 1.0} | counted, {"running": 0.0, "waiting": 0.0} | counted
    assert status(Look(2.0, at_work), Look(0.0, at_work)) == "running 4 · waiting 1"
    assert status(Look(2.0, idle), Look(0.0, idle)) == "running 0 · waiting 0 · prompt 0 tok/s · output 0 tok/s"


def test_a_status_of_a_busy_server_fits_80_columns() -> None:
    names = ("prompt_tokens_total", "generation_tokens_total", "prefix_queries_tokens_total")
    before = dict.fromkeys((*names, "prefix_hits_tokens_total"), 0.0)
    now = dict.fromkeys(names, 246_912.0) | {"prefix_hits_tokens_total": 246_912.0, "preemptions_total": 12_345.0}
    busy = now | {"running": 1024.0, "waiting": 12_000.0, "kv_used_ratio": 1.0}
    text = status(Look(2.0, busy), Look(0.0, before))
    assert len(text) < 78
    assert text.startswith("running 1024 · waiting 12000 · cache 100% used · prompt 123,456 tok/s")


def test_an_idle_server_is_told_of_once_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from kvlab.cli import progress

    idle = {"running": 0.0, "waiting": 0.0}
    with progress.status(None) as tell:
        for at in range(0, 300, 2):
            tell(Look(float(at), idle), None)
        tell(Look(301.0, idle | {"running": 1.0}), None)
    assert capsys.readouterr().err.splitlines() == ["running 0 · waiting 0", "running 1 · waiting 0"]


def test_a_place_that_takes_no_log_is_one_line_before_the_start(gemma: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    for name in ("pipe", ".", "", "file/x"):
        done = subprocess.run(
            words(gemma, "--log", name, "--port", str(free_port())),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr


def test_what_lies_where_the_log_goes_is_kept(gemma: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("precious")
    (tmp_path / "engine.log").symlink_to("notes")
    plan = api.plan(gemma, engine="llamacpp", context=1024, engine_args={"embedded": "true"})
    make_room(plan, tmp_path / "engine.log", free_port())
    assert not (tmp_path / "engine.log").exists()
    assert (tmp_path / "engine.log.old").read_text() == "precious"
    with pytest.raises(EngineFailed, match="from 1 to 65535"):
        make_room(plan, tmp_path / "engine.log", 99_999_999)
