"""Whether the installed engine has the flags of a launch command, by its own list of options."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from kvlab import engines, store
from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.plan import Plan

_OPTION = re.compile(r"(?<![\w/-])--?[a-zA-Z][\w-]*")
_FEWEST = 20
"""Options below which a help text is no list of options but a complaint."""
_MOST_BYTES = 4 << 20
"""Of a help text; the rest is not read."""
_HELP_SECONDS = 180
"""How long an engine may take to print its options: Python engines import for a minute."""


def options(help_text: str) -> frozenset[str]:
    """Every option that a help text names, long and short, with dashes in the name."""
    return frozenset(_dashed(found) for found in _OPTION.findall(help_text))


def unknown(argv: Iterable[str], known: frozenset[str]) -> tuple[str, ...]:
    """Flags of a command that are not among the engine's options, in their order."""
    flags = [word.split("=", 1)[0] for word in argv if word.startswith("--")]
    return tuple(dict.fromkeys(flag for flag in flags if _dashed(flag) not in known))


def installed(plan: Plan, *, run: bool = True) -> frozenset[str] | None:
    """The options of the engine that this machine would start; None when it is not installed or prints none.

    The list is kept in the user's cache folder until the program changes; with `run` False nothing is started.
    """
    launcher = engines.launcher(plan.engine.name)
    program = launcher.binary(plan.ask)
    if program is None or not launcher.help_words or set(program) & set(launcher.unlisted):
        return None
    kept = _kept(plan.engine.name, program[0])
    if kept is not None and kept.is_file():
        return _enough(kept.read_text("utf-8", "replace"))
    text = _ask((*program, *launcher.help_words)) if run else ""
    if kept is not None and _enough(text) is not None:
        with suppress(OSError, BadInput):  # else the next check asks again
            kept.parent.mkdir(parents=True, exist_ok=True)
            store.write_atomic(kept, text.encode("utf-8", "replace"))
    return _enough(text)


def _dashed(option: str) -> str:
    lead = "--" if option.startswith("--") else "-"
    return lead + option.lstrip("-").replace("_", "-")


def _enough(text: str) -> frozenset[str] | None:
    found = options(text)
    return found if len(found) >= _FEWEST else None


def _kept(engine: str, program: str) -> Path | None:
    """Where the list of this very program is kept: by its path, size and date."""
    import hashlib

    try:
        stat = os.stat(program)
    except OSError:
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    mark = hashlib.sha256(f"{os.path.realpath(program)} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()
    return Path(home) / "kvlab" / f"{engine}-options-{mark[:16]}.txt"


def _ask(words: tuple[str, ...]) -> str:
    import signal
    import subprocess
    from threading import Timer

    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return ""

    def end() -> None:
        with suppress(ProcessLookupError):  # what it started may hold the pipe open
            os.killpg(process.pid, signal.SIGKILL)

    late = Timer(_HELP_SECONDS, end)
    with process:
        late.start()
        try:
            assert process.stdout is not None
            return process.stdout.read(_MOST_BYTES).decode("utf-8", "replace")
        finally:
            late.cancel()
            end()


def doubted(plan: Plan) -> Plan:
    """The plan with a doubt for each flag that the engine installed here does not list; asks the engine once."""
    known = installed(plan)
    if known is None:
        return plan
    text = "the engine installed here does not list this flag; it may be of another version"
    found = [Doubt(flag, text) for flag in unknown(plan.launch.argv, known)]
    return replace(plan, doubts=(*plan.doubts, *found)) if found else plan
