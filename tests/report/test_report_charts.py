from __future__ import annotations

import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hostile import hostile
from msgspec.structs import replace
from sample import record

from kvlab.core.plan import LedgerLine
from kvlab.reporting import charts, html
from kvlab.reporting.charts.drawing import thin

_DRAWINGS = {drawing.name: drawing for drawing in charts.drawings(record())}


def test_every_chart_is_drawn_from_a_whole_record() -> None:
    assert list(_DRAWINGS) == [
        "changes", "ledger", "dtypes", "ttft-ecdf", "tpot-time", "throughput", "cache-use", "queue", "quality",
        "prefix",
    ]  # fmt: skip


@pytest.mark.parametrize("name", _DRAWINGS)
def test_svg_is_well_formed_named_and_follows_the_pages_colours(name: str) -> None:
    svg = _DRAWINGS[name].svg()
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"].startswith(_DRAWINGS[name].title)
    assert root.find("title") is not None
    colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"', svg))
    assert {colour for colour in colours if not colour.startswith("var(--chart-")} <= {"none", "transparent"}
    assert "http" not in svg


@pytest.mark.parametrize("name", _DRAWINGS)
def test_svg_is_the_same_each_time_and_its_ids_are_its_own(name: str) -> None:
    svg = _DRAWINGS[name].svg()
    assert svg == _DRAWINGS[name].svg()
    assert all(found.startswith(f"{name}-") for found in re.findall(r'\bid="([^"]*)"', svg))


@pytest.mark.parametrize("drawing", charts.drawings(hostile()), ids=lambda drawing: drawing.name)
def test_hostile_labels_stay_text(drawing: charts.Drawing) -> None:
    root = ElementTree.fromstring(drawing.svg())
    assert {element.tag for element in root.iter()} <= {
        "svg",
        "title",
        "g",
        "path",
        "line",
        "rect",
        "text",
        "defs",
        "clipPath",
    }
    assert not [
        key for element in root.iter() for key in element.attrib if key.startswith("on") or key.endswith("href")
    ]


def test_png_has_its_size(tmp_path: Path) -> None:
    paths = html.write_charts(replace(record(), runs=()), tmp_path / "charts")
    assert [path.name for path in paths] == ["changes.png", "ledger.png", "dtypes.png", "quality.png", "prefix.png"]
    for path in paths:
        head = path.read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", head[16:])
        assert 1000 <= width <= 1800
        assert 200 <= height <= 1000


def _line(name: str, amount: int) -> LedgerLine:
    return LedgerLine(name=name, bytes=amount, kind="computed", low=amount, high=amount, because="")


@pytest.mark.parametrize(
    ("ledger", "bars"),
    [
        (
            [("memory", 24), ("left_free", -2), ("weights", -15), ("pool", 7)],
            [("1", 0, 2), ("2", 2, 17), ("3", 17, 24)],
        ),
        ([("pool", 10), ("kv_full", 4), ("kv_window", 5)], [("1", 0, 4), ("2", 4, 9), ("3", 9, 10)]),
        ([("kv_full", 4), ("compute", 2)], [("1", 0, 4), ("2", 4, 6)]),
        ([("pool", 3), ("kv_full", 4)], [("1", 0, 4)]),
        ([("memory", 24), ("weights", -15)], []),
    ],
)
def test_the_ledger_bar_holds_what_takes_memory(
    ledger: list[tuple[str, int]], bars: list[tuple[str, int, int]]
) -> None:
    whole = record()
    assert whole.ab
    arm = whole.ab.arms["a"]
    plan = replace(arm.plan, ledger=tuple(_line(name, amount << 30) for name, amount in ledger))
    one = replace(whole, ab=replace(whole.ab, arms={"a": replace(arm, plan=plan)}))
    charted = [drawing.chart.to_dict() for drawing in charts.drawings(one) if drawing.name == "ledger"]
    rows = [row for drawn in charted for rows in drawn["datasets"].values() for row in rows]
    assert [(row["digit"], row["start"], row["end"]) for row in rows] == bars


def _with_ledger(lines: tuple[LedgerLine, ...]) -> charts.Drawing:
    whole = record()
    assert whole.ab
    arm = whole.ab.arms["a"]
    one = replace(whole, ab=replace(whole.ab, arms={"a": replace(arm, plan=replace(arm.plan, ledger=lines))}))
    return next(drawing for drawing in charts.drawings(one) if drawing.name == "ledger")


def _estimate(name: str, low: int, amount: int, high: int) -> LedgerLine:
    return replace(_line(name, amount << 30), kind="estimated", low=low << 30, high=high << 30)


def test_a_guess_of_an_order_of_magnitude_is_named_and_not_drawn() -> None:
    drawn = _with_ledger((_line("kv_full", 12 << 30), _estimate("compute_buffer", 1, 7, 50)))
    rows = [row for rows in drawn.chart.to_dict()["datasets"].values() for row in rows]
    assert [row["part"] for row in rows] == ["1 kv full"]
    assert "Estimated too widely to be drawn: compute buffer (1 to 50 GiB)." in drawn.text


def test_an_estimated_pool_is_drawn_with_its_range() -> None:
    lines = (_line("memory", 24 << 30), _estimate("overhead", -7, -4, -1), _estimate("pool", 17, 20, 23))
    drawn = _with_ledger(lines)
    rows = {row["part"]: row for rows in drawn.chart.to_dict()["datasets"].values() for row in rows}
    assert (rows["2 pool"]["start"], rows["2 pool"]["least"], rows["2 pool"]["most"]) == (4, 1, 7)
    assert rows["1 overhead"]["least"] is None
    assert "where the pool may begin" in drawn.text


def test_an_absurd_interval_is_said_and_not_drawn() -> None:
    whole = record()
    assert whole.ab
    first, *others = whole.ab.performance
    rows = (replace(first, low=-30_000.0, high=90_000.0), *others)
    drawn = next(
        d for d in charts.drawings(replace(whole, ab=replace(whole.ab, performance=rows))) if d.name == "changes"
    )
    charted = [row for rows in drawn.chart.to_dict()["datasets"].values() for row in rows if "metric" in row]
    assert (charted[0]["low"], charted[0]["high"]) == (None, None)
    assert charted[0]["verdict"] == "+ better, no usable interval"
    assert max(row["change"] for row in charted) < 10


def test_the_legend_of_the_curves_is_not_faded() -> None:
    svg = ElementTree.fromstring(_DRAWINGS["ttft-ecdf"].svg())
    symbols = [
        path for group in svg.iter("g") if "role-legend-symbol" in group.get("class", "") for path in group.iter("path")
    ]
    assert len(symbols) == 2
    assert [path.get("opacity", "1") for path in symbols] == ["1", "1"]
    assert [path.get("stroke-opacity", "1") for path in symbols] == ["1", "1"]


def test_failed_requests_keep_the_curve_below_all() -> None:
    curve = _DRAWINGS["ttft-ecdf"].chart.to_dict()
    points = [point for rows in curve["datasets"].values() for point in rows]
    last = {arm: max(point["y"] for point in points if point["arm"][0] == arm and "block" not in point) for arm in "AB"}
    assert last == {"A": 1.0, "B": pytest.approx(47 / 48)}


def test_nothing_is_drawn_from_what_was_not_seen() -> None:
    whole = record()
    bare = replace(whole, ab=None, runs=tuple(replace(run, samples=(), metrics={}, rows=()) for run in whole.runs))
    assert charts.drawings(bare) == ()


def test_thinning_keeps_both_ends() -> None:
    kept = thin(range(10_000), 400)
    assert (len(kept), kept[0], kept[-1]) == (400, 0, 9_999)
    assert thin([1, 2], 400) == [1, 2]
