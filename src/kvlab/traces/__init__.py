"""Trace files: one reader a file of this folder, found by its `TraceReader` value."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from kvlab.core.errors import BadInput, shortened
from kvlab.core.trace import Trace, TraceReader
from kvlab.traces._lines import lines

_LOOK = 1 << 16


@cache
def readers() -> dict[str, TraceReader]:
    """Every reader by the name of its file, sorted."""
    here = Path(__file__).parent
    names = sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("_"))
    found = {name: vars(import_module(f"{__name__}.{name}")) for name in names}
    return {
        name.replace("_", "-"): next(value for value in values.values() if isinstance(value, TraceReader))
        for name, values in found.items()
    }


def read(path: Path, form: str | None = None) -> Trace:
    """Reads a trace of any known format, plain, .gz or .zst; `form` names the format where its lines do not tell.

    Raises BadInput in one line for a file that is missing, of no known format, or without a row that can be used.
    """
    from kvlab.core.errors import nearest

    if form is not None:
        if form not in readers():
            raise BadInput(f"no trace format {form!r}; {nearest(form, readers())}")
        return readers()[form].read(path)
    head = _head(path)
    if not head.strip():
        raise BadInput(f"{path} is empty; give a trace with a row a request")
    found = next((reader for reader in readers().values() if reader.recognises(head)), None)
    if found is None:
        known = ", ".join(reader.title for reader in readers().values())
        raise BadInput(f"{path} is no trace that kvlab reads ({known}); it begins {shortened(head.strip(), 80)!r}")
    return found.read(path)


def _head(path: Path) -> str:
    for _, line in lines(path, _LOOK):
        if line.strip():
            return line.decode("utf-8", "replace").removeprefix("\ufeff")
    return ""
