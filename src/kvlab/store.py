"""Documents on disk: written whole or not at all, read only from regular files of believable size.

A file is synchronised to the disk before it gets its name, and its folder after that: what `write_atomic` has written
survives a power cut, and no name ever stands for half a file. A full disk, or a kill at any moment, leaves the old file
or the new one, and at most a temporary file that `sweep` removes.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar

import msgspec

from kvlab.core.errors import BadInput, shortened

T = TypeVar("T")

MOST_BYTES = 512 << 20
"""Largest file that is read into memory: far above a record with every request of a day."""

TEMPORARY = ".kvlab-"
"""How the names of temporary files begin; the number of the process that writes follows."""
_SCHEMA = re.compile(rb'"schema"\s*:\s*"(kvlab/[a-z-]+)@(\d{1,6})"')

_HELD_SECONDS = 5.0
"""How long another process may change a small file."""


class NewerFile(BadInput):
    """A document of a newer schema than this kvlab reads: nothing is wrong with it."""


def place(path: object, what: str) -> str:
    """The path as text. Raises BadInput, naming `what` was expected, for anything that is none."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise BadInput(f"the {what} is {shortened(repr(path), 60)}, which is no path; give the path of one")
    return name


def encode(document: object) -> bytes:
    """JSON with two spaces of indent and a final newline."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def write_atomic(path: str | os.PathLike[str], content: bytes, *, private: bool = False) -> None:
    """Writes beside `path`, then renames: a reader, or a crash, never sees half a file.

    A link stays a link: the file that it points to is replaced. A device or a pipe is written to as it is. A
    `private` file is its owner's alone; others have the permissions of the file that they replace, or of a new one.
    Raises BadInput, naming `path`, when it cannot be written.
    """
    name = os.fspath(path)
    if not name:
        raise BadInput("the output file has no name; give one, as in -o plan.json")
    try:
        _write(os.path.realpath(name) if os.path.islink(name) else name, content, private)
    except OSError as error:
        raise BadInput(
            f"cannot write {name}: {error.strerror or error}; check the folder, its permissions and disk room"
        ) from None
    except ValueError as error:  # a null character
        raise BadInput(f"cannot write {name!r}: {error}; choose another name") from None


@contextmanager
def held(path: str | os.PathLike[str]) -> Iterator[None]:
    """Holds the folder of the file at `path` against other kvlab processes that change the same file.

    Raises BadInput when another holds it for longer than such a change takes.
    """
    import time

    until = time.monotonic() + _HELD_SECONDS
    with ExitStack() as stack:
        with suppress(OSError):  # a folder that is not ours to read, or without locks: then the last one wins
            folder = os.path.dirname(os.path.realpath(path))
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            while not _locked(descriptor):
                if time.monotonic() > until:
                    raise BadInput(f"another process holds a lock on {folder}, where {path} is; end it, then try again")
                time.sleep(0.05)
        yield


def _locked(descriptor: int) -> bool:
    """Whether the lock is held now. Raises OSError where there are no locks."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def check_target(path: str | os.PathLike[str], option: str = "-o") -> None:
    """Raises BadInput when nothing could be written to `path`: to be asked before the work whose result goes there."""
    name = os.fspath(path)
    if "\0" in name:
        raise BadInput(f"{name!r} is no name of a file; choose another {option}")
    folder = os.path.dirname(os.path.realpath(name)) if name else ""
    if not name:
        raise BadInput(f"the output file has no name; give one, as in {option} FILE")
    if os.path.isdir(name):
        raise BadInput(f"{name} is a folder; name a file in it for {option}")
    if not os.path.isdir(folder):
        raise BadInput(f"there is no folder {folder} for the result; make it, or choose another {option}")
    if not os.access(folder, os.W_OK | os.X_OK) and not (os.path.exists(name) and not os.path.isfile(name)):
        raise BadInput(f"nothing can be written to the folder {folder}; choose another {option}")


def put_aside(path: str | os.PathLike[str], option: str) -> None:
    """Renames what lies at `path`, if anything does, to NAME.old. Raises BadInput when that cannot be."""
    name = os.fspath(path)
    try:
        if os.path.lexists(name):
            os.replace(name, f"{name}.old")
    except OSError as error:
        raise BadInput(
            f"cannot put {name} aside as {os.path.basename(name)}.old: {error.strerror}; choose another {option}"
        ) from None


def _write(target: str, content: bytes, private: bool) -> None:
    import tempfile

    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:
            file.write(content)
        return
    folder = os.path.dirname(target) or "."
    handle, temporary = tempfile.mkstemp(prefix=f"{TEMPORARY}{os.getpid()}-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o600 if private else _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(folder)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Makes a rename in `folder` last. Where a folder cannot be synchronised, the file itself still is whole."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sweep(folder: str | os.PathLike[str]) -> int:
    """Removes temporary files in and below `folder` whose writers were killed; how many. Those of a living one stay."""
    import shutil

    removed = 0
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            writer = name.removeprefix(TEMPORARY).partition("-")[0] if name.startswith(TEMPORARY) else ""
            if writer.isdecimal() and not _lives(int(writer)):
                path = os.path.join(place, name)
                with suppress(OSError):
                    shutil.rmtree(path) if name in folders else os.unlink(path)
                    removed += 1
    return removed


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return True


def _mode(target: str) -> int:
    """The permissions of the file that is replaced, or those of a new one."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        current = os.umask(0)
        os.umask(current)
        return 0o666 & ~current


def open_regular(path: str | os.PathLike[str], what: str, *, piped: bool = False) -> int:
    """A descriptor of the file at `path`, for reading.

    Raises BadInput for what is missing, cannot be opened, or is no regular file: a pipe would block, and a device never
    end. With `piped`, a pipe that this process was started with (/dev/stdin, /dev/fd/N) is read: it has a writer.
    """
    name = os.fspath(path)
    if name.startswith(("http:/", "https:/")):
        # Not repeated: a user name and password may stand in it.
        raise BadInput(f"an address was given where a {what} belongs; give the {what} as a file")
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise BadInput(f"no {what} at {name}; check the path") from None
    except (OSError, ValueError) as error:
        if _exists(name) and not os.path.isfile(name):
            raise _no_file(name, what) from None
        raise BadInput(f"cannot read {shortened(name, 200)}: {getattr(error, 'strerror', None) or error}") from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    if piped and stat.S_ISFIFO(mode) and _inherited(name):
        os.set_blocking(descriptor, True)
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise BadInput(f"{name} is a folder; name the {what} in it")
    raise _no_file(name, what)


def _inherited(name: str) -> bool:
    """Whether a name stands for a descriptor of this process, as a shell's <(...) does."""
    number = name.removeprefix("/dev/fd/")
    return name == "/dev/stdin" or (number != name and number.isascii() and number.isdigit())


def _exists(name: str) -> bool:
    try:
        return os.path.exists(name)
    except ValueError:
        return False


def _no_file(name: str, what: str) -> BadInput:
    hint = ", or pipe it in and give -" if what == "log" else ""
    return BadInput(f"{name} is a device, a pipe or a socket, not a regular file; give the {what} itself{hint}")


def read_bytes(path: str | os.PathLike[str], what: str, most: int = MOST_BYTES, *, piped: bool = False) -> bytes:
    """The content of a regular file of at most `most` bytes, or of what `open_regular` takes as `piped`.

    Raises BadInput otherwise, naming `what` it should be.
    """
    with os.fdopen(open_regular(path, what, piped=piped), "rb") as file:
        try:
            content = file.read(most + 1) if os.fstat(file.fileno()).st_size <= most else None
        except OSError as error:
            raise BadInput(f"cannot read {os.fspath(path)}: {error.strerror}") from None
    if content is None or len(content) > most:
        raise BadInput(f"{os.fspath(path)} is larger than {most:,} bytes, more than any {what} has; check the path")
    return content


def read(path: str | os.PathLike[str], kind: type[T], what: str) -> T:
    """The document at `path`. Raises BadInput naming what is wrong with it, and where."""
    return decoded(read_bytes(path, what, piped=True), kind, os.fspath(path), what)


def decoded(content: bytes, kind: type[T], name: str, what: str) -> T:
    """The document that a file called `name` holds; as `read`."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if newer := _newer(content, kind):
            raise NewerFile(f"{name} was written by a newer kvlab ({newer}); upgrade kvlab") from None
        raise BadInput(f"{name} is not a {what} of this version: {error}") from None
    except RecursionError:
        raise BadInput(f"{name} is not a {what}: its JSON is nested too deeply") from None


def schema_in(content: bytes) -> str | None:
    """The schema that a document states, without its number: "kvlab/lab"; None where it states none."""
    written = _SCHEMA.search(content)  # the first in the file is that of the document itself: it is its first key
    return None if written is None else written[1].decode()


def _newer(content: bytes, kind: object) -> str | None:
    """The document's schema and the one that is read here, when its number is the higher one; else None."""
    reads = _SCHEMA.search(msgspec.json.encode({"schema": schema_of(kind)}))
    written = _SCHEMA.search(content)  # the first in the file is that of the document itself: it is its first key
    if reads is None or written is None or written[1] != reads[1] or int(written[2]) <= int(reads[2]):
        return None
    return f"its schema is {written[1].decode()}@{int(written[2])}, this one reads @{int(reads[2])}"


def schema_of(kind: object) -> object:
    """The schema that documents of a kind have ("kvlab/lab@1"); None where it states none."""
    fields = msgspec.structs.fields(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else ()
    return next((field.default for field in fields if field.encode_name == "schema"), None)
