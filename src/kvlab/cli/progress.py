"""How far a long command is, on standard error: bars on a terminal, one line a step elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.cli.stderr import say
from kvlab.load.spec import Progress
from kvlab.settings import OnStep, Step

if TYPE_CHECKING:
    from kvlab.core.plan import Plan
    from kvlab.serving import Look

_ROOM_FOR_BARS = 70
"""Columns from which a bar and the time fit beside the words."""
_LINE_EVERY = 30.0
"""Seconds between two lines of status where standard error is no terminal."""


@contextmanager
def steps() -> Iterator[OnStep]:
    """A display for an experiment: which step of how many, and how far into it."""
    if not sys.stderr.isatty():
        yield _Lines().step
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    from kvlab.reporting.terminal import screen

    console = screen(stderr=True)
    # On a narrow screen the words wrap and the bar goes; the counts stay whole.
    counts = MofNCompleteColumn(table_column=Column(no_wrap=True))
    bar = (BarColumn(16), counts, TimeElapsedColumn()) if console.width >= _ROOM_FOR_BARS else (counts,)
    with Progress(
        TextColumn("{task.description}", markup=False, table_column=Column()), *bar, console=console, transient=True
    ) as bars:
        whole = bars.add_task("planning", total=None)
        part = bars.add_task("", total=None, visible=False)

        def show(step: Step) -> None:
            several = step.steps > 1
            bars.update(whole, completed=step.number, total=step.steps, description=step.text, visible=several)
            label = step.phase or ("requests" if several else step.text)
            bars.update(
                part,
                completed=step.done,
                total=step.total or None,
                description=f"  {label}" if several else label,
                visible=step.total > 0 or not several,
            )

        yield show


class _Lines:
    def __init__(self) -> None:
        self._last = ""

    def step(self, step: Step) -> None:
        counted = step.phase.partition(",")[0]  # a line for every failure would be a log
        text = ": ".join(filter(None, (step.text, counted)))
        if text != self._last:
            self._last = text
            say(f"[{min(step.number + 1, step.steps)}/{step.steps}] {text}")


@contextmanager
def load() -> Iterator[Callable[[Progress], None]]:
    """A display for one load run: prompts made, warm-up, requests done and failed."""
    with steps() as show:
        yield lambda progress: show(Step(0, 1, "", progress.done, progress.total, progress.text))


@contextmanager
def counted(text: str) -> Iterator[Callable[[int, int], None]]:
    """A display for a plain count."""
    with steps() as show:
        yield lambda done, total: show(Step(0, 1, text, done, total))


@contextmanager
def doing() -> Iterator[Callable[[str], None]]:
    """On a terminal what is being done, and for how long; elsewhere nothing, for most of it is done at once."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from kvlab.reporting.terminal import screen
    from kvlab.reporting.words import plain

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=screen(stderr=True), transient=True) as display:
        task = display.add_task("reading", total=None)
        yield lambda text: display.update(task, description=plain(text)[:100])


@contextmanager
def starting(plan: Plan, log: Path) -> Iterator[Callable[[str], None]]:
    """The engine's last line while it loads, on a terminal; elsewhere that it loads."""
    from kvlab import engines

    title = engines.engine(plan.engine.name).title
    if not sys.stderr.isatty():
        say(f"starting {title}; its log: {log}")
        yield lambda line: None
        return
    from rich.markup import escape

    from kvlab.core.masking import masked
    from kvlab.reporting.terminal import screen
    from kvlab.reporting.words import plain

    with screen(stderr=True).status(f"starting {title}") as display:
        yield lambda line: display.update(f"starting {title}: {escape(plain(masked(line.strip()))[:100])}")


@contextmanager
def status(pool: float | None) -> Iterator[Callable[[Look, Look | None], None]]:
    """How a server is doing, of whose cache `pool` tokens are known; without a terminal a line when that changes."""
    from kvlab import serving

    if not sys.stderr.isatty():
        last, said = -_LINE_EVERY, ""

        def line(now: Look, before: Look | None) -> None:
            nonlocal last, said
            text = serving.status(now, before, pool)
            if now.at - last >= _LINE_EVERY and text != said:  # an idle server says it once
                last, said = now.at, text
                say(text)

        yield line
        return
    from kvlab.reporting.terminal import screen

    with screen(stderr=True).status("") as display:
        yield lambda now, before: display.update(serving.status(now, before, pool))


@contextmanager
def resumable(lab: Path) -> Iterator[None]:
    """While an experiment works in `lab`: an interruption says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        advice = (
            f"the same command takes {lab} up again and repeats only the step that was cut; delete the folder to start"
            " over"
        )
        raise KeyboardInterrupt(advice if lab.exists() else "") from None
