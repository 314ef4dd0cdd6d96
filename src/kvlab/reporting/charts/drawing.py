"""One chart definition, rendered twice: SVG that follows the page's colours, and PNG on white."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any, Final, TypeVar

import altair as alt
import msgspec
import vl_convert

from kvlab.core.record import Record
from kvlab.reporting import words

Item = TypeVar("Item")

INK: Final = "#1c2430"
MUTED: Final = "#5a6675"
GRID: Final = "#d9dee5"
BAND: Final = "#c3cbd6"
PAGE: Final = "#fefefd"
ARM_A: Final = "#0a62a9"
ARM_B: Final = "#b5520a"
SERIES: Final = (ARM_A, ARM_B, "#197a5a", "#7a4fa5", "#856a02", "#7c8897")
"""Told apart by people with any of the common colour deficiencies, and dark enough for white digits."""

_VARIABLES: Final = {
    INK: "ink", MUTED: "muted", GRID: "grid", BAND: "band", PAGE: "page", ARM_A: "a", ARM_B: "b",
    **{colour: f"series-{index}" for index, colour in enumerate(SERIES) if index > 1},
}  # fmt: skip
WIDTH: Final = 600
"""Plot width in pixels that fits a page of 720 with its axis."""

_AXIS: Final = {
    "labelColor": INK, "titleColor": MUTED, "titleFontWeight": "normal", "gridColor": GRID, "domainColor": MUTED,
    "tickColor": MUTED, "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 320, "labelFlush": False,
}  # fmt: skip
_CONFIG: Final[dict[str, Any]] = {
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "aria": False,
    "background": "transparent",
    "padding": 4,
    "axis": _AXIS,
    "view": {"stroke": None},
    "text": {"color": INK, "fontSize": 12},
    "legend": {
        "orient": "top", "title": None, "labelColor": INK, "labelFontSize": 12, "labelLimit": 480,
        "symbolStrokeWidth": 2,
        "symbolBaseStrokeColor": MUTED,
    },
    "header": {"labelColor": INK, "labelFontSize": 12, "title": None, "labelLimit": 260},
}  # fmt: skip
_ON_WHITE: Final = {**_CONFIG, "background": "#ffffff", "padding": 16}
_IDENTIFIER = re.compile(r"(?<=id=\")(?:clip|gradient_)\d+(?=\")|(?<=url\(#)(?:clip|gradient_)\d+(?=\))")


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A named chart: `title` heads it, `text` says in words what it shows, for those who cannot see it."""

    name: str
    title: str
    text: str
    chart: Any
    """Any Altair chart."""

    def svg(self) -> str:
        """SVG to place inside a page: colours are CSS variables (--chart-*), nothing is fetched, ids are its own."""
        svg = vl_convert.vegalite_to_svg(self.chart.to_dict(), config=_CONFIG, allowed_base_urls=[])
        return _accessible(_own_ids(_page_colours(svg), self.name), self.title, self.text)

    def svg_file(self) -> bytes:
        """SVG that stands alone, on white, with its title."""
        return str(vl_convert.vegalite_to_svg(self._titled(), config=_ON_WHITE, allowed_base_urls=[])).encode()

    def png(self) -> bytes:
        """PNG at twice the size, on white."""
        return bytes(vl_convert.vegalite_to_png(self._titled(), config=_ON_WHITE, scale=2, allowed_base_urls=[]))

    def _titled(self) -> dict[str, Any]:
        title = alt.TitleParams(self.title, anchor="start", color=INK, fontSize=15, offset=12)
        found: dict[str, Any] = self.chart.properties(title=title).to_dict()
        return found


def _page_colours(svg: str) -> str:
    for colour, name in _VARIABLES.items():
        svg = svg.replace(f'"{colour}"', f'"var(--chart-{name}, {colour})"')
    return svg


def _own_ids(svg: str, name: str) -> str:
    # Vega counts its ids on through the life of the process: number them anew, and keep charts of one page apart.
    known: dict[str, str] = {}
    return _IDENTIFIER.sub(lambda match: known.setdefault(match.group(), f"{name}-{len(known)}"), svg)


def _accessible(svg: str, title: str, text: str) -> str:
    # The namespace declarations are needed only outside HTML.
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg, count=2)
    name = escape(f"{title}. {text}", quote=True)
    head, _, rest = svg.partition(">")
    return f'{head} role="img" aria-label="{name}"><title>{escape(title)}</title>{rest}'


def arm_name(record: Record, arm: str) -> str:
    """The arm's letter with its label: "A: f16, 4 slots"."""
    named = record.ab.arms.get(arm) if record.ab else None
    return f"{arm.upper()}: {words.plain(named.label)}" if named else arm.upper()


def arm_names(record: Record) -> dict[str, str]:
    """Arms that ran, with their names, A before B."""
    return {arm: arm_name(record, arm) for arm in sorted({run.arm for run in record.runs})}


def thin(items: Sequence[Item], most: int) -> list[Item]:
    """At most about `most` items, evenly spaced, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / (most - 1)
    return [items[round(index * step)] for index in range(most)]


def data(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Rows as inline data: nothing is fetched."""
    return alt.InlineData(values=rows)


def by_arm(names: dict[str, str], legend: alt.Legend) -> alt.Color:
    """Colour by the field "arm", the same for an arm in every chart."""
    colours = [ARM_A if arm == "a" else ARM_B for arm in names]
    return alt.Color("arm:N", scale=alt.Scale(domain=list(names.values()), range=colours), legend=legend)


def untitled(stroke: float = 2) -> alt.Legend:
    """A legend whose entries say enough; its symbols are solid, whatever the marks are."""
    return alt.Legend(title=None, symbolOpacity=1, symbolStrokeWidth=stroke)
