"""The verbs that keep and show what was found, typed: freeze, verify, history, report."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from kvlab.core.errors import BadInput
from kvlab.store import place

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvlab.core.plan import Plan
    from kvlab.frozenfiles import Freeze
    from kvlab.settings import ArmName, OnStep
    from kvlab.timeline import History
    from kvlab.verifying import Verify, VerifyOptions

    Given = str | PathLike[str]
    OnBytes = Callable[[int, int], None]

_TRAFFIC = "kvlab/traffic"
_SWEEP = "kvlab/sweep"


def freeze(
    lab: Given | None = None,
    output: Given = ".",
    *,
    plan: Given | Plan | None = None,
    arm: ArmName | None = None,
    force: bool = False,
    progress: OnBytes | None = None,
) -> Freeze:
    """Writes the engine's config file, kvlab.lock and MEASUREMENTS.md of an arm of a lab, or of a plan, into `output`.

    `arm` None: B if it was better, else A. Raises BadInput, before a file is written, for a lab that is not finished,
    one and another, and a lock that is there already (unless `force`).
    """
    from kvlab import freezing, frozenfiles
    from kvlab.core.plan import Plan
    from kvlab.lockfile import NAME
    from kvlab.reporting.measurements import page
    from kvlab.store import read

    if (lab is None) == (plan is None):
        raise BadInput("freeze takes a lab or --plan FILE, one of the two")
    if lab is not None:
        lock, planned = freezing.of_lab(Path(place(lab, "lab")), arm, progress)
    else:
        if arm is not None:
            raise BadInput("a plan has no arms: leave --arm out")
        planned = plan if isinstance(plan, Plan) else read(place(plan, "plan"), Plan, "plan")
        lock = freezing.of_plan(planned, progress=progress)
    folder = Path(place(output, "folder for -o"))
    files = frozenfiles.config_files(planned)
    replaced, changed = frozenfiles.previous(folder, lock, force=force)
    names = (*files, frozenfiles.MEASUREMENTS, NAME)
    written = frozenfiles.write({**files, frozenfiles.MEASUREMENTS: page(lock, names)}, lock, folder)
    paths = tuple(str(folder / name) for name in written)
    return frozenfiles.Freeze(files=paths, lock=lock, replaced=replaced, changed=changed)


def verify(lock: Given = "kvlab.lock", *, on_step: OnStep | None = None, **options: Unpack[VerifyOptions]) -> Verify:
    """Runs what a lock froze again and compares: plan, log, performance and answers; an unfinished one is taken up.

    See `verifying.VerifyOptions` for `options`. Raises KvlabError when the configuration cannot be planned or started.
    """
    from kvlab import verifying

    return verifying.verify(verifying.asked(lock, options), on_step or (lambda step: None))


def history(*folders: Given) -> History:
    """Runs, results, freezes and verifies in and below `folders` (none: the working folder), the oldest first."""
    from kvlab.timeline import collect

    return collect([Path(place(folder, "folder")) for folder in folders] or [Path()])


def report(record: Given, folder: Given | None = None) -> Path:
    """Renders the lab of an experiment or of a sweep, its record.json or sweep.json, or a document of `kvlab traffic`,
    as report.html and charts.

    `folder` is where; left out, the lab, or where the document lies. Raises BadInput for what is none of these.
    """
    from kvlab import store
    from kvlab.core.record import Record
    from kvlab.core.sweep import Sweep
    from kvlab.core.traffic import Traffic
    from kvlab.lab import RECORD
    from kvlab.reporting.html import write_charts, write_report
    from kvlab.resuming import refuse_unfinished
    from kvlab.sweeping import SWEEP

    path = Path(place(record, "record"))
    swept = (path / SWEEP).is_file()
    if path.is_dir() and not swept:
        refuse_unfinished(path)
    source = path / (SWEEP if swept else RECORD) if path.is_dir() else path
    target = Path(folder) if folder is not None else source.parent
    what = "record of a lab or document of kvlab traffic"
    content = store.read_bytes(source, what, piped=True)
    if store.schema_in(content) == _TRAFFIC:
        from kvlab.reporting.traffic_page import write_traffic

        return write_traffic(store.decoded(content, Traffic, str(source), "document of kvlab traffic"), target)
    if store.schema_in(content) == _SWEEP:
        from kvlab.reporting.sweep_page import write_sweep

        return write_sweep(store.decoded(content, Sweep, str(source), "document of kvlab sweep"), target)
    loaded = store.decoded(content, Record, str(source), what)
    write_charts(loaded, target / "charts")
    return write_report(loaded, target)
