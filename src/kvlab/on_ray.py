"""Files of one workload read on Ray: each task reads one file, and answers with its lengths and its (sampled) blocks.

No text leaves the machine that reads it. The traces are merged by time here, as those of a run without Ray are, so the
result is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kvlab.core.errors import BadInput, EngineFailed, KvlabError, shortened

if TYPE_CHECKING:
    from kvlab.core.trace import Reading, Trace

LOCAL = "local"
_PATIENCE = 5.0
"""Seconds."""
_STORE = 512 << 20
"""Bytes of shared memory of a Ray that is started here; what is more goes to disk."""


class _Read(NamedTuple):
    """What a task does. Ray sends it to the workers, which need kvlab too."""

    form: str | None
    reading: Reading

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """{"part", "path"} -> {"part", "trace": the columns, "refusal": why there are none}."""
        import pickle

        from kvlab import traces

        try:
            trace = traces.read(Path(row["path"]), self.form, traces.of_part(self.reading, row["part"]))
        except KvlabError as refusal:
            return {"part": row["part"], "trace": b"", "refusal": str(refusal)}
        return {"part": row["part"], "trace": pickle.dumps(trace), "refusal": ""}


def read(paths: Sequence[Path], form: str | None, reading: Reading, address: str) -> list[Trace]:
    """The traces of the files, in their order. Raises BadInput for a file, EngineFailed when Ray does not answer."""
    import pickle

    rows = [{"part": part, "path": str(path.resolve())} for part, path in enumerate(paths)]
    with _running(address, len(paths)) as ray:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = False
        work = _Read(form, reading._replace(processes=1))
        try:
            tasks = ray.data.from_items(rows, override_num_blocks=len(rows))
            done = tasks.map(lambda row: work(row)).take_all()
        except ray.exceptions.RayError as problem:
            last = (str(problem).strip().splitlines() or [type(problem).__name__])[-1]
            raise EngineFailed(
                f"a task on Ray at {address} failed ({shortened(last, 160)}); do its workers have kvlab[traffic]?"
            ) from None
    done.sort(key=lambda row: int(row["part"]))
    for row in done:
        if row["refusal"]:
            raise BadInput(row["refusal"])
    return [pickle.loads(row["trace"]) for row in done]


def _check(address: str) -> None:
    """Raises EngineFailed when nobody listens there: Ray itself would try for minutes."""
    import socket

    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if not host or not port.isdecimal():
            raise BadInput(f"--ray {shortened(address)} is no address; give HOST:PORT, ray://HOST:PORT, or {LOCAL}")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as problem:
        raise EngineFailed(f"no Ray answers at {address} ({problem}); start one, or give --ray {LOCAL}") from None


@contextmanager
def _ended() -> Iterator[Callable[[], None]]:
    """Ends what was started within and still runs: Ray's agents outlive its shutdown. Call it to note who runs now."""
    import psutil

    own = psutil.Process()
    before, seen = set(own.children(recursive=True)), set()

    def note() -> None:
        seen.update(own.children(recursive=True))

    try:
        yield note
    finally:
        note()
        _, alive = psutil.wait_procs(seen - before, timeout=1)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=_PATIENCE)


@contextmanager
def _running(address: str, files: int) -> Iterator[Any]:
    """Ray, connected; a local one is stopped at the end, whatever ends it, and leaves nothing behind."""
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise EngineFailed("--ray needs Ray: pip install 'kvlab[ray]'")
    if address != LOCAL:
        _check(address)
    import logging
    import tempfile

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # it would report to its makers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address == LOCAL:  # else it takes 127.0.0.1 for the host's address; read when Ray is imported
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    import ray
    import ray.data

    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    said: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    with tempfile.TemporaryDirectory(prefix="kvlab-ray-", ignore_cleanup_errors=True) as folder, _ended() as note:
        try:
            if address == LOCAL:
                said |= {"num_cpus": max(2, min(files, len(os.sched_getaffinity(0)))), "include_dashboard": False}
                said |= {"_node_ip_address": "127.0.0.1", "_temp_dir": folder, "object_store_memory": _STORE}
            ray.init(address=address, **said)
            yield ray
        except (ConnectionError, ValueError, RuntimeError, TimeoutError) as problem:
            why = shortened(" ".join(str(problem).split()), 160)
            raise EngineFailed(f"Ray at {address} does not answer ({why}); name HOST:PORT, or {LOCAL}") from None
        finally:
            note()
            ray.shutdown()
