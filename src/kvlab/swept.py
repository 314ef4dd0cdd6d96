"""The verb `kvlab sweep`, typed."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.store import place

if TYPE_CHECKING:
    from kvlab.core.plan import Plan
    from kvlab.core.sweep import Sweep
    from kvlab.settings import OnStep
    from kvlab.sweeping import SweepSettings

    Given = str | PathLike[str]


def sweep(
    settings: SweepSettings,
    lab: Given,
    *,
    plan: Given | Plan | None = None,
    report: Given | None = None,
    on_step: OnStep | None = None,
) -> Sweep:
    """Finds the load up to which a server meets its objectives, the knee of its throughput, and what tokens cost there.

    `settings.source` is the address of a running server, or a model that is launched as `settings.ask` says; `plan`
    is what to compare a running one with. An unfinished sweep in the folder `lab` is taken up. `report` is a folder
    for report.html and the charts. Raises KvlabError when the source cannot be planned, the engine or the server
    fails, or the lab is taken.
    """
    from kvlab.core.plan import Plan
    from kvlab.store import read
    from kvlab.sweeping import run_sweep

    planned = plan if isinstance(plan, Plan) or plan is None else read(place(plan, "plan"), Plan, "plan")
    if settings.ask is not None and planned is None:
        from kvlab.planning import make_plan
        from kvlab.request import checked, suited
        from kvlab.source import load

        loaded = load(settings.source)
        planned = make_plan(loaded, suited(checked(settings.ask), loaded.origin.kind), settings.source)
    found = run_sweep(settings, Path(place(lab, "lab")), plan=planned, on_step=on_step or (lambda step: None))
    if report is not None:
        from kvlab.reporting.sweep_page import write_sweep

        write_sweep(found, Path(place(report, "folder for --report")))
    return found
