"""A sweep as one self-contained page and its charts as PNG files."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from kvlab.core.sweep import Sweep
from kvlab.reporting import terminal_sweep
from kvlab.reporting.charts.sweep import drawings
from kvlab.reporting.html import environment, written


def write_sweep(value: Sweep, folder: Path) -> Path:
    """Writes report.html and charts/NAME.png into `folder`; the path of the page."""
    for drawing in drawings(value):
        written(folder / "charts" / f"{drawing.name}.png", drawing.png())
    return written(folder / "report.html", page(value).encode())


def page(value: Sweep) -> str:
    """The report as one HTML document, without scripts and without anything that is fetched."""
    drawn = {drawing.name: (drawing, Markup(drawing.svg())) for drawing in drawings(value)}
    return environment().get_template("sweep.html.j2").render(sweep=value, charts=drawn, told=terminal_sweep)
