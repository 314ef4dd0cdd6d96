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

    `plan` is one of `kvlab plan`, or its file: its pool, its speed, and its bytes a token where none are given.
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
    found = rightsize(files, form, stated(Questions, _planned(asked), "traffic"), tell or (lambda doing: None))
    if folder is not None:
        from kvlab.reporting.traffic_page import write_traffic

        write_traffic(found, folder)
    return found


def _planned(asked: TrafficOptions) -> dict[str, object]:
    """The options with the plan read, and what else it tells."""
    from kvlab.core.plan import Plan
    from kvlab.store import read

    found: dict[str, object] = dict(asked)
    given = asked.get("plan")
    if given is None:
        return found
    plan = given if isinstance(given, Plan) else read(place(given, "plan"), Plan, "plan")
    known = {"bytes_per_token": plan.kv.bytes_per_token or None, "model_context": plan.kv.context}
    return {**found, **{name: value for name, value in known.items() if found.get(name) is None}, "plan": plan}
