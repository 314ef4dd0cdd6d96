"""Record -> one self-contained page, and its charts as PNG files.

The page needs no network and no script: styles and charts are inline, and a content security policy forbids the rest.
Every text of a model, a prompt, an answer or a log is escaped, and its control characters are written out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kvlab import store
from kvlab.core.record import Record
from kvlab.core.units import seconds, size
from kvlab.reporting import charts, figures, planned, sections, tiered, words


def write_report(record: Record, folder: Path) -> Path:
    """Write report.html into `folder`, which is made when absent. The file appears whole or not at all."""
    return written(folder / "report.html", page(record).encode())


def write_charts(record: Record, folder: Path) -> list[Path]:
    """Write each chart of the report as NAME.png into `folder`."""
    return [written(folder / f"{drawing.name}.png", drawing.png()) for drawing in charts.drawings(record)]


def page(record: Record) -> str:
    """The report as one HTML document. Parts that the record lacks are left out or said to be missing."""
    drawn = {drawing.name: drawing for drawing in charts.drawings(record)}
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            record=record,
            ab=record.ab,
            arms=sorted(record.ab.arms.items()) if record.ab else [],
            charts={name: (drawing, Markup(drawing.svg())) for name, drawing in drawn.items()},
            sections=sections,
        )
    )


def environment() -> Environment:
    """Templates whose every expression is escaped and harmless."""
    environment = Environment(
        loader=PackageLoader("kvlab.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    environment.globals.update(words=words, figures=figures, planned=planned, tiered=tiered, size=size, seconds=seconds)
    return environment


def _harmless(value: Any) -> Any:
    """What every {{ expression }} passes through: text loses its power over the page's direction and encoding."""
    return words.plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def written(path: Path, content: bytes) -> Path:
    """Writes a file whole or not at all; its folder is made. The path again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    store.write_atomic(path, content)
    return path
