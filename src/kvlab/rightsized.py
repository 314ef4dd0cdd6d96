"""The verb `kvlab traffic`, typed."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from kvlab.core.errors import BadInput, EngineFailed
from kvlab.store import place

if TYPE_CHECKING:
    from kvlab.core.traffic import Traffic
    from kvlab.options import TrafficOptions
    from kvlab.workload.questions import Tell

    Given = str | PathLike[str]


def traffic(
    *files: Given,
    form: str | None = None,
    report: Given | None = None,
    tell: Tell | None = None,
    **asked: Unpack[TrafficOptions],
) -> Traffic:
    """Lengths, the context limit, prefix reuse and paging of traces; see `workload.questions.Questions` for `asked`.

    `report` is a folder for report.html and the charts; `tell` is told what is being done. Raises BadInput in one line
    for a file that cannot be read, or a question that the trace cannot answer; EngineFailed without the extra
    "traffic".
    """
    from importlib.util import find_spec

    missing = [name for name in ("numba", "polars") if find_spec(name) is None]
    if missing:
        raise EngineFailed(f"traffic needs {' and '.join(missing)}: pip install 'kvlab[traffic]'")
    from kvlab.request import stated
    from kvlab.rightsize import rightsize
    from kvlab.workload.questions import Questions

    folder = None if report is None else Path(place(report, "folder for --report"))
    if folder is not None and folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; name a folder for --report")  # before the work
    found = rightsize(files, form, stated(Questions, asked, "traffic"), tell or (lambda doing: None))
    if folder is not None:
        from kvlab.reporting.traffic_page import write_traffic

        write_traffic(found, folder)
    return found
