"""A workload as one self-contained page and its charts as PNG files."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from kvlab import __version__
from kvlab.core.traffic import Traffic
from kvlab.reporting import at_once, traffic_words
from kvlab.reporting.charts.drawing import thin
from kvlab.reporting.charts.traffic import drawings
from kvlab.reporting.html import environment, written

_ROWS = 60
"""Of a table: a longer one is thinned, or its end is cut, and the page says so."""


def write_traffic(value: Traffic, folder: Path) -> Path:
    """Writes report.html and charts/NAME.png into `folder`; the path of the page."""
    for drawing in drawings(value):
        written(folder / "charts" / f"{drawing.name}.png", drawing.png())
    return written(folder / "report.html", page(value).encode())


def page(value: Traffic) -> str:
    """The report as one HTML document, without scripts and without anything that is fetched."""
    drawn = {drawing.name: (drawing, Markup(drawing.svg())) for drawing in drawings(value)}
    template = environment().get_template("traffic.html.j2")
    return template.render(
        traffic=value,
        charts=drawn,
        told=traffic_words,
        at_once=at_once,
        thin=thin,
        most=_ROWS,
        kvlab_version=__version__,
    )
