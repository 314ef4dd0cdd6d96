"""What is shown when an experiment has ended: the verdict, and where its report lies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.core.record import Record

if TYPE_CHECKING:
    from rich.console import RenderableType


def finished(record: Record, lab: Path) -> RenderableType:
    """The A/B result and the path of the report."""
    from rich.console import Group
    from rich.text import Text

    from kvlab.reporting import terminal_ab

    assert record.ab is not None  # a finished experiment has been judged
    return Group(terminal_ab.ab(record.ab), Text(f"\nreport: {lab / 'report.html'}   records: {lab}/"))
