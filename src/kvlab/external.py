"""`kvlab bench --runner`: another load generator does the measuring, and its file becomes kvlab's result file."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from kvlab import __version__, readers, store, supervised
from kvlab.core.errors import BadInput, EngineFailed, shortened
from kvlab.core.masking import masked
from kvlab.core.measure import RequestRow
from kvlab.core.result import BENCH_SCHEMA, Result, rows_beside
from kvlab.core.runner import Runner, Task
from kvlab.load.connections import api_key

OnCount = Callable[[int, int], None]

_COUNTS = re.compile(r"(\d+)/(\d+)|successful=(\d+)")
_ABOUT = """
import sys
from importlib import metadata
for name in sys.argv[1].split(","):
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue
    print(found.version)
    for module in sys.argv[2].split(","):
        if module and found.locate_file(module.replace(".", "/") + ".py").exists():
            print(module)
    break
"""
"""Asks a Python what is installed, without importing any of it."""


class Installed(msgspec.Struct, frozen=True):
    """A load generator on this machine: how it is called, and its version (None: it was not seen)."""

    argv: tuple[str, ...]
    version: str | None


def find(runner: Runner, given: str | None = None) -> Installed:
    """The runner's program, on PATH or as `given`. Raises BadInput when it is not there."""
    import shutil

    program = shutil.which(given or runner.program)
    asked = f"{given} is no program that can be run" if given else f"{runner.program} is not on PATH"
    what = f"a Python with {runner.packages[0]}" if runner.modules else f"the {runner.program} program"
    advice = f"install {runner.packages[0]}, or give --runner-bin, the path of {what}"
    if program is None:
        raise BadInput(f"{asked}; {advice}")
    python = program if runner.modules else _python_of(Path(program))
    version, modules = _about(python, runner) if python else (None, ())
    if not runner.modules:
        return Installed((program,), version)
    if not modules:
        raise BadInput(f"{program} has no {runner.packages[0]}; {advice}")
    return Installed((program, "-m", modules[0]), version)


def _python_of(program: Path) -> str | None:
    """The interpreter of an installed script; None for a program of another kind."""
    with program.open("rb") as file:
        first = file.readline(500)
    words = first[2:].split() if first.startswith(b"#!") else []
    return words[0].decode(errors="replace") if words and b"python" in words[0] else None


def _about(python: str, runner: Runner) -> tuple[str | None, tuple[str, ...]]:
    command = (python, "-c", _ABOUT, ",".join(runner.packages), ",".join(runner.modules))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None, ()
    words = done.stdout.split()
    return (words[0], tuple(words[1:])) if words else (None, ())


def aim(url: str, model: str | None) -> tuple[str, str]:
    """The server's address without a path, and the model's name there.

    Raises ServerRefused when it does not answer, BadInput for a user name and password, which no runner can be handed.
    """
    from kvlab.load import clock
    from kvlab.load.address import authorization, shown
    from kvlab.load.connections import Connections
    from kvlab.load.server import contact

    if authorization(url) is not None:
        raise BadInput(
            f"other load generators take no user name and password for {shown(url)}; give KVLAB_API_KEY, or leave out"
            " --runner"
        )

    async def main(_: Callable[[], float]) -> tuple[str, str]:
        async with Connections(30.0, url) as connections:
            server = await contact(connections.fresh, url, model)
        return server.url, server.model

    return clock.run(main)


def measure(runner: Runner, task: Task, *, program: str | None = None, on_count: OnCount | None = None) -> Measured:
    """Runs the load generator and reads its file. All that it started has ended when this returns or raises.

    Raises BadInput when it is not installed or cannot do the task, EngineFailed with its last line when it fails.
    """
    refused = runner.refuses(task)
    if refused is not None:
        raise BadInput(f"{runner.title} {refused}")
    installed, key = find(runner, program), api_key()
    task = msgspec.structs.replace(task, keyed=key is not None)
    with tempfile.TemporaryDirectory(prefix="kvlab-") as name:
        folder = Path(name)
        for written, text in runner.files(task).items():
            (folder / written).write_text(text)
        log = folder / "log"

        def watch() -> None:
            if on_count is not None:
                on_count(_done(log, task.num_prompts), task.num_prompts)

        argv = (*installed.argv, *runner.argv(task))
        code = supervised.run(argv, log, env=_environment(runner, key), cwd=folder, watch=watch)
        file = folder / runner.result
        if code or not file.is_file():
            raise EngineFailed(_why(runner, code, log, key))
        return Measured(
            runner=runner.name,
            version=installed.version,
            argv=(runner.program, *installed.argv[1:], *runner.argv(task)),
            task=task,
            result=readers.read(file),
            raw=_without(key, file.read_bytes()),
            suffix=file.suffix,
        )


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What another load generator measured; `raw` is its own file, `argv` holds no secret."""

    runner: str
    version: str | None
    argv: tuple[str, ...]
    task: Task
    result: Result
    raw: bytes
    suffix: str


def _without(key: str | None, content: bytes) -> bytes:
    """The file without the key, should the generator have written it down with the rest of its configuration."""
    return content if key is None else content.replace(key.encode(), b"***")


def _environment(runner: Runner, key: str | None) -> dict[str, str]:
    """With kvlab's key in the runner's variable, and no other: OpenAI's is for OpenAI, not for whatever is measured."""
    kept = {name: value for name, value in os.environ.items() if name not in (runner.key, "OPENAI_API_KEY")}
    return kept if key is None else kept | {runner.key: key}


def _done(log: Path, total: int) -> int:
    """Requests done, as far as the program's own progress says."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        tail = file.read().decode(errors="replace")
    counts = [int(done or alone) for done, whole, alone in _COUNTS.findall(tail) if alone or int(whole) == total]
    return min(counts[-1], total) if counts else 0


def _why(runner: Runner, code: int, log: Path, key: str | None) -> str:
    printed = [line for line in log.read_text(errors="replace").splitlines() if line.strip(" │╰╯╭─|")]
    # A box holds a sentence in pieces; a path into the folder of this run leads nowhere once it is gone.
    lines = [line for line in printed if line[0] not in "│╭╰" and str(log.parent) not in line] or printed
    last = masked(lines[-1].split("\r")[-1].strip() if lines else "it printed nothing")
    if key is not None:
        last = last.replace(key, "***")
    how = f"exited with {code}" if code else "ended without a result file"
    return f"{runner.title} {how}: {shortened(last, 300)}"


def document(measured: Measured) -> dict[str, object]:
    """The result file to write: vLLM's keys, and in `kvlab` who measured, how, and what has no name of vLLM's."""
    task, result = measured.task, measured.result
    kind = "openai-chat" if task.endpoint == "chat" else "openai"
    return {
        "date": time.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": kind,
        "backend": kind,
        "label": None,
        "model_id": task.model,
        "tokenizer_id": task.tokenizer if task.tokenizer == task.model else Path(task.tokenizer).name,
        "num_prompts": task.num_prompts,
        "request_rate": "inf" if task.rate is None else task.rate,
        "burstiness": 1.0,
        "max_concurrency": task.concurrency,
        **result.metrics,
        "kvlab": {
            "schema": BENCH_SCHEMA,
            "version": __version__,
            "runner": {"name": measured.runner, "version": measured.version, "argv": measured.argv},
            "seed": task.seed,
            "loop": "closed" if task.rate is None else "open",
            "latency_from": result.latency_from,
            "ignore_eos": task.ignore_eos,
            "warm_up": task.warm_up,
            "own": msgspec.to_builtins(result.own),
        },
    }


def save(measured: Measured, path: Path) -> dict[str, object]:
    """Writes the result file, beside it the generator's own (X.guidellm.json), and a row per request if it kept them.

    Returns the document. Raises BadInput when the folder cannot be written to.
    """
    written = document(measured)
    store.check_target(path)
    store.write_atomic(path.with_suffix(f".{measured.runner}{measured.suffix}"), measured.raw)
    rows = _rows(measured.result.lists)
    if rows:
        store.write_atomic(rows_beside(path), b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    store.write_atomic(path, store.encode(written))
    return written


def _rows(lists: dict[str, tuple[float, ...]]) -> list[RequestRow]:
    """Requests as kvlab writes them; none when the file does not say when each began and ended."""
    ttft, first, done = (lists.get(name, ()) for name in ("ttft_ms", "first_at", "done_at"))
    if not ttft or not len(ttft) == len(first) == len(done):
        return []
    start = min(at - wait / 1000 for at, wait in zip(first, ttft, strict=True))
    inputs, outputs, tpots = (lists.get(name, ()) for name in ("input_tokens", "output_tokens", "tpot_ms"))
    rows = []
    for at, wait in enumerate(ttft):
        sent = first[at] - wait / 1000 - start
        rows.append(
            RequestRow(
                index=at,
                prompt_id=str(at),
                scheduled=sent,
                sent=sent,
                first=first[at] - start,
                done=done[at] - start,
                ttft=wait / 1000,
                tpot=tpots[at] / 1000 if len(tpots) == len(ttft) else None,
                e2e=done[at] - start - sent,
                prompt_tokens=int(inputs[at]) if len(inputs) == len(ttft) else None,
                output_tokens=int(outputs[at]) if len(outputs) == len(ttft) else None,
            )
        )
    return rows
