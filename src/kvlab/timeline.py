"""`kvlab history`: what was run, frozen and verified in some folders, in time, with engine versions and metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from kvlab import lockfile, readers, store
from kvlab.core.errors import BadInput, KvlabError, nearest
from kvlab.core.quality import Quality
from kvlab.core.record import Record, Run
from kvlab.core.sweep import Sweep
from kvlab.core.vllm_result import is_metric
from kvlab.gate import QUALITY
from kvlab.lab import RECORD, SPEC, Lab
from kvlab.observe import read_log
from kvlab.sweeping import SWEEP
from kvlab.verifying import RESULT, Verify

DEEPEST = 5
"""Folders below a given one that are looked into."""
_MOST_BYTES = 16 << 20
"""Largest result file: a line per request is beside it, not in it."""
_SKIPPED = ("charts", "model", "node_modules", "__pycache__")
_Read = Callable[[Path, str, Path], "list[Entry]"]
Kind = Literal["experiment", "run", "bench", "sweep", "quality", "freeze", "verify"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened. `time` is UTC in ISO 8601; None where no file says it."""

    time: str | None
    kind: Kind
    path: str
    """The file, below the folder that was given."""
    engine: str | None = None
    version: str | None = None
    """Of the engine, by its log; None: not seen."""
    label: str = ""
    """Arm and cache dtype, or what else tells it from its neighbours."""
    metrics: dict[str, float] = {}
    """Under the names of vLLM's result file."""
    verdict: str | None = None


class LeftOutFile(msgspec.Struct, frozen=True):
    """A file of kvlab that could not be read, and why."""

    path: str
    reason: str


class History(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab history`, the oldest first; what has no time stands first."""

    schema: Literal["kvlab/history@1"] = "kvlab/history@1"
    folders: tuple[str, ...]
    entries: tuple[Entry, ...]
    left_out: tuple[LeftOutFile, ...] = ()


def collect(folders: Sequence[Path]) -> History:
    """Everything of kvlab in and below `folders`. Raises BadInput for what is no folder."""
    entries: list[Entry] = []
    left_out: list[LeftOutFile] = []
    for folder in folders:
        if not folder.is_dir():
            raise BadInput(f"{folder} is no folder; give one that holds labs, results or a kvlab.lock")
        for place, names in _places(folder):
            for read, name in _readers(place, names):
                try:
                    entries += read(place, name, folder)
                except KvlabError as problem:
                    left_out.append(LeftOutFile(_below(place / name, folder), str(problem)))
    entries.sort(key=lambda entry: (entry.time or "", entry.path))
    return History(folders=tuple(map(str, folders)), entries=tuple(entries), left_out=tuple(left_out))


def series(history: History, metric: str) -> tuple[Entry, ...]:
    """The entries that have the metric. Raises BadInput, naming the nearest, when none has."""
    found = tuple(entry for entry in history.entries if metric in entry.metrics)
    if not found:
        known = sorted({name for entry in history.entries for name in entry.metrics})
        hint = nearest(metric, known) if known else "there is no measurement in these folders"
        raise BadInput(f"no entry has the metric {metric!r}; {hint}")
    return found


def _places(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders with their files; what is below the runs of a lab is read with the lab."""
    for place, folders, names in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        inside = SPEC in names
        folders[:] = sorted(
            name
            for name in folders
            if depth < DEEPEST and not name.startswith(".") and name not in _SKIPPED and not (inside and name == "runs")
        )
        yield Path(place), sorted(names)


def _readers(place: Path, names: list[str]) -> Iterator[tuple[_Read, str]]:
    if RECORD in names:
        yield _record, RECORD
    elif RESULT in names:
        yield _verify, RESULT
    elif SPEC in names and Lab(place).kind() in ("kvlab/lab", "kvlab/verify-lab"):
        yield _unfinished, SPEC
    elif SPEC in names and SWEEP in names:
        yield _sweep, SWEEP
    elif SPEC in names and QUALITY in names:
        yield _quality, QUALITY
    for name in names:
        if name == lockfile.NAME or name.endswith(".lock.json"):
            yield _lock, name
        elif name.endswith(".json") and SPEC not in names and _is_result(place / name) and not _copied(place, name):
            yield _bench, name


def _record(place: Path, name: str, root: Path) -> list[Entry]:
    record = store.read(place / name, Record, "record of a lab")
    path = _below(place, root)
    versions: dict[str, tuple[str | None, str | None, str]] = {}
    for arm, found in (record.ab.arms if record.ab else {}).items():
        version = found.check.engine.version if found.check else None
        if version == found.plan.engine.version:  # the plan's stands there when the log states none
            version = _logged(place, found.plan.engine.name, [run for run in record.runs if run.arm == arm])
        versions[arm] = (found.plan.engine.name, version, f"{arm.upper()}: {found.label}")
    entries = [_run(place, run, path, versions.get(run.arm), record.created) for run in record.runs]
    verdict = record.ab.verdict.code if record.ab else None
    engine = next(iter(versions.values()), (None, None, ""))[0]
    label = " against ".join(label for _, _, label in versions.values())
    finished = record.finished or record.created
    entries.append(Entry(time=finished, kind="experiment", path=path, engine=engine, label=label, verdict=verdict))
    return entries


def _logged(place: Path, engine: str, runs: Sequence[Run]) -> str | None:
    """The engine's version by the log of the first run that still has one; None where no line states it."""
    for run in runs:
        log = place / run.folder / "engine.log"
        try:
            if log.stat().st_size <= _MOST_BYTES:
                return read_log(str(log), engine).version
        except (OSError, KvlabError):
            continue
    return None


def _run(place: Path, run: Run, path: str, known: tuple[str | None, str | None, str] | None, created: str) -> Entry:
    engine, version, label = known or (None, None, run.arm.upper())
    return Entry(
        time=_dated(_document(place / run.folder / "result.json")) or created,
        kind="run",
        path=os.path.join(path, run.folder) if run.folder else path,
        engine=engine,
        version=version,
        label=label,
        metrics=_metrics(run.metrics),
    )


def _unfinished(place: Path, name: str, root: Path) -> list[Entry]:
    """A lab without a record: its finished runs, and that it is not finished."""
    path = _below(place, root)
    runs = [store.read(file, Run, "run of a lab") for file in sorted(place.glob("runs/*/run.json"))]
    document = _document(place / name)
    asked = document.get("a")
    engine = str(asked["engine"]) if isinstance(asked, dict) and "engine" in asked else None
    entries = [_run(place, run, path, (engine, None, run.arm.upper()), "") for run in runs]
    time = max((entry.time or "" for entry in entries), default="") or None
    verdict = f"unfinished, {len(runs)} {'run' if len(runs) == 1 else 'runs'} done"
    kind: Kind = "experiment" if Lab(place).kind() == "kvlab/lab" else "verify"
    return [*entries, Entry(time=time, kind=kind, path=path, engine=engine, verdict=verdict)]


def _verify(place: Path, name: str, root: Path) -> list[Entry]:
    found = store.read(place / name, Verify, "verify")
    arm = "" if found.arm is None else f"{found.arm.upper()}: "
    return [
        Entry(
            time=found.finished,
            kind="verify",
            path=_below(place, root),
            engine=found.engine.name,
            version=found.engine.version,
            label=f"{arm}{found.label}",
            metrics={level.metric: level.value for level in found.results},
            verdict=found.verdict.code,
        )
    ]


def _lock(place: Path, name: str, root: Path) -> list[Entry]:
    lock = lockfile.read(place / name)
    arm = "" if lock.arm is None else f"{lock.arm.upper()}: "
    return [
        Entry(
            time=lock.created,
            kind="freeze",
            path=_below(place / name, root),
            engine=lock.engine.name,
            version=lock.engine.version,
            label=f"{arm}{lock.label}",
            metrics={level.metric: level.value for level in lock.results},
            verdict=None if lock.verdict is None else lock.verdict.code,
        )
    ]


def _sweep(place: Path, name: str, root: Path) -> list[Entry]:
    """A finished sweep: no metrics, since those of its steady time are not those of a run."""
    found = store.read(place / name, Sweep, "sweep")
    safe = [] if found.safe.meets_at is None else [f"safe at {found.safe.meets_at:g}"]
    knee = [] if found.knee.load is None else [f"knee at {found.knee.load.value:.3g}"]
    return [
        Entry(
            time=found.finished,
            kind="sweep",
            path=_below(place, root),
            engine=found.engine,
            label=", ".join([found.over, *safe, *knee]),
            verdict=found.verdict.code,
        )
    ]


def _quality(place: Path, name: str, root: Path) -> list[Entry]:
    found = store.read(place / name, Quality, "quality gate")
    parts = ", ".join(f"{part.name} {part.verdict}" for part in found.parts)
    verdict = None if found.gate is None else found.gate.verdict
    return [Entry(time=found.finished, kind="quality", path=_below(place, root), label=parts, verdict=verdict)]


def _copied(place: Path, name: str) -> bool:
    """Whether it is the own file of another load generator, X.guidellm.json beside the X.json that kvlab made of it."""
    stem, _, tool = name.removesuffix(".json").rpartition(".")
    own = _document(place / f"{stem}.json").get("kvlab") if stem else None
    ran = own.get("runner") if isinstance(own, dict) else None
    return isinstance(ran, dict) and ran.get("name") == tool


def _bench(place: Path, name: str, root: Path) -> list[Entry]:
    result = readers.read(place / name)
    document = _document(place / name)
    own = document.get("kvlab")
    engine = own.get("engine") if isinstance(own, dict) else None
    return [
        Entry(
            time=_dated(document),
            kind="bench",
            path=_below(place / name, root),
            engine=engine if isinstance(engine, str) else None,
            label=str(document.get("label") or result.format),
            metrics=_metrics(result.metrics),
        )
    ]


def _is_result(path: Path) -> bool:
    """Whether a file may be a result file, by a word that all of their formats have; plans and configs lack it."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return False
        content = path.read_bytes()
    except OSError:
        return False
    return b'"request_throughput"' in content and b'"kvlab/' not in content.replace(b'"kvlab/bench@', b"")


def _document(path: Path) -> Mapping[str, object]:
    """The JSON object at `path`; empty for what is none."""
    try:
        found: object = store.read(path, dict[str, object], "file")
    except KvlabError:
        return {}
    return found if isinstance(found, dict) else {}


def _dated(document: Mapping[str, object]) -> str | None:
    """When a result was written. `date` is that of the clock on the wall, as `vllm bench serve` writes it."""
    try:
        found = datetime.strptime(str(document.get("date")), "%Y%m%d-%H%M%S")
    except ValueError:
        return None
    return found.astimezone(UTC).isoformat(timespec="seconds")


def _metrics(found: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in found.items() if is_metric(name)}


def _below(path: Path, root: Path) -> str:
    return os.path.join(*path.relative_to(root).parts) if path != root else root.name or "."
