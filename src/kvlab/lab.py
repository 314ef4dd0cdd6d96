"""The lab folder: every step of an experiment as a file, so that an interrupted one can be taken up again.

A step counts as done when its file is there, and `store.write_atomic` lets a file appear only when it is whole and on
the disk. So a kill, a full disk or a power cut costs the step that was at work and no other. A field that an older
kvlab did not write has the default that stands at its definition; a file of a newer schema is refused.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from kvlab import store
from kvlab.core.errors import BadInput

T = TypeVar("T")

SPEC = "lab.json"
RECORD = "record.json"
REPORT = "report.html"
MODELS = "model"
"""Where a lab keeps a model file of its own."""
_LOCK = ".lock"


class Lab:
    """One folder. A step whose file exists is not done again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where a file of the lab lies; its folder is made. Raises BadInput when that cannot be."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"cannot make {path.parent}: {error.strerror or error}; check its permissions and disk room"
            ) from None
        return path

    def has(self, name: str) -> bool:
        """Whether that step is done."""
        return (self.folder / name).exists()

    def kind(self) -> str:
        """What the lab is of, by the schema of its settings without its number; "unknown" for damaged settings."""
        try:
            found = store.read(self.folder / SPEC, dict[str, object], "lab file")
        except BadInput:
            return "unknown"
        return str(found.get("schema", "unknown")).partition("@")[0]

    def save(self, name: str, document: object) -> None:
        """Writes a step's result, whole or not at all."""
        store.write_atomic(self.path(name), store.encode(document))

    def load(self, name: str, kind: type[T]) -> T:
        """Reads a step's result. Raises BadInput when the file is damaged."""
        try:
            return store.read(self.folder / name, kind, "lab file")
        except store.NewerFile:
            raise
        except BadInput as problem:
            raise BadInput(f"{problem}; delete that file, and the same command does its step again") from None

    def once(self, name: str, kind: type[T], make: Callable[[], T]) -> T:
        """The step's result: read when it is there, else made and saved."""
        if self.has(name):
            return self.load(name, kind)
        made = make()
        self.save(name, made)
        return made

    def _lock(self) -> IO[bytes]:
        """The file that one process locks: neither a link, which may lead to a file of the user, nor a pipe."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            return os.fdopen(os.open(self.folder / _LOCK, flags, 0o666), "rb")
        except OSError as error:
            raise BadInput(
                f"cannot work in {self.folder}: {error.strerror} ({error.filename}); choose another --lab"
            ) from None

    def _own(self, name: str) -> bool:
        """Whether a file of that name may lie in a lab before its settings do."""
        return name in (_LOCK, MODELS) or name.startswith(store.TEMPORARY)

    def _spec(self, kind: type[T]) -> T:
        wanted = _schema(kind)
        if wanted is not None and self.kind() not in ("unknown", wanted):
            raise BadInput(f"{self.folder} is a folder of another command ({self.kind()}); choose another --lab")
        try:
            return store.read(self.folder / SPEC, kind, "lab file")
        except store.NewerFile:
            raise
        except BadInput as problem:
            raise BadInput(f"{problem}; choose another --lab, or delete {self.folder}") from None

    @contextmanager
    def claimed(self, spec: msgspec.Struct, *, may_change: frozenset[str] = frozenset()) -> Iterator[None]:
        """Holds the lab for one process and one experiment.

        Raises BadInput when another kvlab works in it, or when it holds an experiment whose settings differ in more
        than the fields of `may_change`.
        """
        with self._lock() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadInput(f"another kvlab works in {self.folder}; wait for it, or choose another --lab") from None
            store.sweep(self.folder)
            if self.has(SPEC):
                changed = _changed(self._spec(type(spec)), spec)
                if changed.keys() - may_change:
                    raise BadInput(
                        f"{self.folder} holds an experiment with other settings ({_first(changed, may_change)}); choose"
                        " another --lab or delete it"
                    )
                if changed:
                    self.save(SPEC, spec)
            else:
                others = [name for name in os.listdir(self.folder) if not self._own(name)]
                if others:
                    raise BadInput(
                        f"{self.folder} is not empty and no lab ({others[0]} is in it); choose another --lab"
                    )
                self.save(SPEC, spec)
            yield


def _schema(kind: type[T]) -> str | None:
    """The schema of a kind of settings without its number; None for one that states none."""
    found = store.schema_of(kind)
    return found.partition("@")[0] if isinstance(found, str) else None


def _changed(before: msgspec.Struct, after: msgspec.Struct) -> dict[str, tuple[object, object]]:
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in after.__struct_fields__}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _first(changed: dict[str, tuple[object, object]], may_change: frozenset[str]) -> str:
    """The first setting that stands in the way, down to the field: "load.concurrency was 8 and is 4"."""
    name, (before, after) = next(item for item in changed.items() if item[0] not in may_change)
    if isinstance(before, msgspec.Struct) and type(before) is type(after):
        inner, (before, after) = next(iter(_changed(before, after).items()))
        name = f"{name}.{inner}"
    return f"{name} was {before} and is {after}"
