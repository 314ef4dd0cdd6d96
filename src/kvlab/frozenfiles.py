"""What `kvlab freeze` writes: the engine's own config file, the launch script, the lock; all of it or nothing."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from kvlab import deploy, store
from kvlab.core.errors import BadInput, KvlabError
from kvlab.core.plan import Plan
from kvlab.core.plan_lines import Difference
from kvlab.freezing import model_word
from kvlab.lockfile import NAME, Lock, compared, encode, read

MEASUREMENTS = "MEASUREMENTS.md"
MODEL = "KVLAB-MODEL"
"""Stands in a command for a local model while its path is taken out."""


class Freeze(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab freeze`: the files that were written, and what differs from the lock that was there before."""

    schema: Literal["kvlab/freeze@1"] = "kvlab/freeze@1"
    files: tuple[str, ...]
    lock: Lock
    replaced: bool
    changed: tuple[Difference, ...]


def config_files(plan: Plan) -> dict[str, str]:
    """The engine's own files and the launch script, in which a local model has its name and no path.

    The script is there for every engine: some have no config file, and an environment stands in none. Raises BadInput
    when the plan has no command.
    """
    if not plan.launch.argv:
        raise BadInput(f"the plan has no command to freeze: {plan.verdict.text}")
    word, name = model_word(plan), plan.source.name
    launch = plan.launch
    if word is not None:
        argv = tuple(MODEL if text == word else text for text in launch.argv)
        files = {
            file: text.replace(f'"{word}"', f'"{MODEL}"').replace(word, MODEL) for file, text in launch.files.items()
        }
        told = tuple(msgspec.structs.replace(flag, value=name) if flag.value == word else flag for flag in launch.flags)
        launch = msgspec.structs.replace(launch, argv=argv, files=files, flags=told)
    found = deploy.artefacts(msgspec.structs.replace(plan, launch=launch))
    kept = {file: text for file, text in found.items() if file in launch.files or file == deploy.SCRIPT}
    return {file: _named(text, name, file) for file, text in kept.items()}


def _named(text: str, name: str, file: str) -> str:
    """The text with the model's name; in the script a variable that says where it is."""
    if MODEL not in text:
        return text
    note = f"# the model: {name}, in the working folder"
    if file == deploy.SCRIPT:
        head, _, rest = text.partition("\n")
        return f"{head}\n{note}, or where MODEL says\n" + rest.replace(MODEL, f'"${{MODEL:-{name}}}"')
    return f"{note}; write its path where it is elsewhere\n" + text.replace(MODEL, name)


def previous(folder: Path, lock: Lock, *, force: bool) -> tuple[bool, tuple[Difference, ...]]:
    """Whether a lock is replaced in `folder`, and what differs from it.

    Raises BadInput without `force`, naming what would change; a lock that cannot be read is replaced by force alone.
    """
    if not (folder / NAME).exists():
        return False, ()
    try:
        changed = compared(read(folder / NAME), lock)
    except KvlabError as problem:
        if force:
            return True, ()
        raise BadInput(f"{problem}; --force replaces it") from None
    if force:
        return True, changed
    first = ", ".join(f"{one.name} {told(one.before)} -> {told(one.after)}" for one in changed[:3])
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    what = f"it would change {first}{more}" if changed else "the configuration is the same, the measurements may not be"
    raise BadInput(f"{folder / NAME} is there already ({what}); --force replaces it, another -o keeps it")


def told(value: object) -> str:
    """A value of a difference in words."""
    return "absent" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def write(files: dict[str, str], lock: Lock, folder: Path) -> tuple[str, ...]:
    """Writes the files and, last, the lock: all of them, or, when there is no room for one, none.

    Each is first written whole in a folder beside its place, so that the renames that follow need no room. Raises
    BadInput in one line.
    """
    contents = {name: text.encode() for name, text in files.items()} | {NAME: encode(lock)}
    for name in contents:
        if os.path.basename(name) != name or ((folder / name).exists() and not (folder / name).is_file()):
            raise BadInput(f"{folder / name} is no regular file; remove it, or choose another -o")
    made = not folder.exists()
    stage = folder / f"{store.TEMPORARY}{os.getpid()}-freeze"
    try:
        stage.mkdir(parents=True)
        for name, content in contents.items():
            store.write_atomic(stage / name, content)
        (stage / deploy.SCRIPT).chmod(0o755)
        for name in contents:
            os.replace(stage / name, folder / name)
    except OSError as error:
        raise BadInput(
            f"cannot write to {folder}: {error.strerror or error}; check its permissions and disk room"
        ) from None
    except BadInput as problem:
        raise BadInput(str(problem).replace(f"{stage}{os.sep}", f"{folder}{os.sep}")) from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if made:
            with suppress(OSError):  # only an empty folder goes
                folder.rmdir()
    store.sync_folder(folder)
    return tuple(contents)
