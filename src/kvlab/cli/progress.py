"""How far a long command is, on standard error: bars on a terminal, one line a step elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kvlab.cli.stderr import say
from kvlab.load.spec import Progress
from kvlab.settings import OnStep, Step

_ROOM_FOR_BARS = 70
"""Columns from which a bar and the time fit beside the words."""


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
