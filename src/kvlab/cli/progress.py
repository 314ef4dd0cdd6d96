"""How far a long command is, on standard error: bars on a terminal, one line a step elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kvlab.load.spec import Progress
from kvlab.settings import OnStep, Step


@contextmanager
def steps() -> Iterator[OnStep]:
    """A display for an experiment: which step of how many, and how far into it."""
    if not sys.stderr.isatty():
        yield _Lines().step
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        whole = bars.add_task("planning", total=None)
        part = bars.add_task("", total=None, visible=False)

        def show(step: Step) -> None:
            bars.update(whole, completed=step.number, total=step.steps, description=step.text)
            bars.update(part, completed=step.done, total=step.total or None, visible=step.total > 0)

        yield show


class _Lines:
    def __init__(self) -> None:
        self._last = ""

    def step(self, step: Step) -> None:
        if step.text != self._last:
            self._last = step.text
            sys.stderr.write(f"[{min(step.number + 1, step.steps)}/{step.steps}] {step.text}\n")
            sys.stderr.flush()


@contextmanager
def load() -> Iterator[Callable[[Progress], None]]:
    """A display for one load run: prompts made, warm-up, requests done and failed."""
    with steps() as show:

        def tell(progress: Progress) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            show(Step(0, 1, f"{progress.phase}{failed}", progress.done, progress.total))

        yield tell


@contextmanager
def counted(text: str) -> Iterator[Callable[[int, int], None]]:
    """A display for a plain count."""
    with steps() as show:
        yield lambda done, total: show(Step(0, 1, text, done, total))
