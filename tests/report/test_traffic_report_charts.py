"""The charts of a workload: published figures where they are drawn, and the look that all charts have."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from workload_sample import ASKED, TRACE, conversation, hostile_workload, loaded

import kvlab
from kvlab.reporting.charts import Drawing
from kvlab.reporting.charts.traffic import drawings
from kvlab.reporting.traffic_page import write_traffic


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Drawing]:
    """All of the conversation trace, and of a load."""
    values = (loaded(tmp_path_factory.mktemp("load")), conversation())
    return {drawing.name: drawing for value in values for drawing in drawings(value)}


def rows(drawing: Drawing) -> list[dict[str, Any]]:
    return [row for held in drawing.chart.to_dict()["datasets"].values() for row in held]


def test_everything_that_was_asked_is_drawn(drawn: dict[str, Drawing]) -> None:
    assert set(drawn) == {
        f"traffic-{name}"
        for name in ("lengths", "curve", "tiers", "replicas", "load", "preemptions", "waste")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("column", "percentiles"),
    [
        ("prompt", {50: 6_909, 90: 27_367, 95: 39_550, 99: 85_400, 99.9: 121_301}),
        ("answer", {50: 350, 99: 1_119}),
        ("total", {50: 7_255, 99: 85_851, 99.9: 121_894}),
    ],
)
def test_the_curve_of_lengths_passes_the_published_percentiles(
    drawn: dict[str, Drawing], column: str, percentiles: dict[float, int]
) -> None:
    steps = [(row["x"], row["y"]) for row in rows(drawn["traffic-lengths"]) if row.get("column") == column]
    assert len(steps) <= 202
    assert steps == sorted(steps)
    assert (steps[0][1], steps[-1][1]) == (0, 1)
    for percent, tokens in percentiles.items():
        # many answers are of the same length: the curve jumps there, past the percentile
        assert max(share for at, share in steps if at <= tokens) > percent / 100 - 0.005 - 1 / 12_031
        assert max(share for at, share in steps if at < tokens) < percent / 100 + 1 / 12_031


def test_the_limit_is_marked_on_the_lengths(drawn: dict[str, Drawing]) -> None:
    marks = [row["text"] for row in rows(drawn["traffic-lengths"]) if "text" in row]
    assert marks == ["limit: 86,016", "p99"]
    assert "Drawn in steps of half a point" in drawn["traffic-lengths"].text


def test_the_hit_curve_passes_the_published_points(drawn: dict[str, Drawing]) -> None:
    found = rows(drawn["traffic-curve"])
    curve = {row["x"]: row["y"] for row in found if row.get("what") == "blocks found"}
    hits = (12_847, 32_260, 61_046, 93_978, 102_290)
    assert [curve[at] for at in ASKED] == pytest.approx([hit / 288_500 for hit in hits])
    assert max(curve.values()) == pytest.approx(0.366412, abs=1e-6)
    marks = {(row["policy"], row["x"]): row["y"] for row in found if "policy" in row}
    assert marks["Belady", 1_000] == pytest.approx(54_994 / 288_500)
    assert marks["FIFO", 50_000] == pytest.approx(96_228 / 288_500)
    assert marks["LFU", 1_000] == pytest.approx(13_871 / 288_500)


def test_the_axis_of_sizes_shows_memory_where_a_model_is_known(drawn: dict[str, Drawing]) -> None:
    svg = drawn["traffic-curve"].svg()
    for label in ("1,000", "70.31 GiB", "10,000", "703 GiB"):
        assert f">{label}<" in svg
    bare = {drawing.name: drawing for drawing in drawings(kvlab.traffic(TRACE))}
    assert "GiB" not in bare["traffic-curve"].svg()


def test_tiers_fill_the_whole_bar(drawn: dict[str, Drawing]) -> None:
    pieces = {row["part"]: row["end"] - row["start"] for row in rows(drawn["traffic-tiers"])}
    expected = {
        "1 gpu": 12_831 / 288_500,
        "2 cpu": 48_083 / 288_500,
        "not found": 1 - (12_831 + 48_083) / 288_500,
    }
    assert pieces == pytest.approx(expected)


def test_a_load_is_drawn_over_the_size_of_the_pool(drawn: dict[str, Drawing], tmp_path: Path) -> None:
    load = loaded(tmp_path).load
    assert load
    p99 = {row["x"]: row["y"] for row in rows(drawn["traffic-load"]) if row["what"] == "TTFT p99"}
    assert p99 == pytest.approx({one.pool_blocks: one.ttft.p99 / 1000 for one in load.pools})
    again = {row["x"]: row["y"] for row in rows(drawn["traffic-preemptions"])}
    assert again == {one.pool_blocks: one.preemptions for one in load.pools}
    assert max(again.values()) > 0


def test_a_sampled_curve_has_its_band(tmp_path: Path) -> None:
    drawing = next(one for one in drawings(kvlab.traffic(TRACE, sample="10%")) if one.name == "traffic-curve")
    band = [row for row in rows(drawing) if "low" in row]
    assert band
    assert all(row["low"] < row["y"] < row["high"] for row in band if row["y"] > 0)
    assert "Estimated at" in drawing.text


def test_svg_is_well_formed_named_and_follows_the_pages_colours(drawn: dict[str, Drawing]) -> None:
    for name, drawing in drawn.items():
        svg = drawing.svg()
        root = ElementTree.fromstring(svg)
        assert root.attrib["role"] == "img"
        assert root.attrib["aria-label"].startswith(drawing.title)
        colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"', svg))
        assert {one for one in colours if not one.startswith("var(--chart-")} <= {"none", "transparent"}, name
        assert "http" not in svg
        assert svg == drawing.svg()
        assert all(found.startswith(f"{name}-") for found in re.findall(r'\bid="([^"]*)"', svg))


def test_hostile_labels_stay_text(tmp_path: Path) -> None:
    for drawing in drawings(hostile_workload(tmp_path)):
        root = ElementTree.fromstring(drawing.svg())
        tags = {"svg", "title", "g", "path", "line", "rect", "text", "tspan", "defs", "clipPath"}
        assert {element.tag for element in root.iter()} <= tags
        assert not [
            key for element in root.iter() for key in element.attrib if key.startswith("on") or key.endswith("href")
        ]


def test_pngs_have_their_size(tmp_path: Path) -> None:
    write_traffic(conversation(), tmp_path)
    names = sorted(path.stem for path in (tmp_path / "charts").iterdir())
    assert names == [f"traffic-{name}" for name in ("curve", "lengths", "replicas", "tiers", "waste")]
    for path in (tmp_path / "charts").iterdir():
        head = path.read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", head[16:])
        assert 1000 <= width <= 1800, path.name
        assert 150 <= height <= 1000, path.name


def test_without_a_report_nothing_is_loaded_to_draw_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("num_prefill_tokens,num_decode_tokens\n5,5\n")
    code = (
        "import sys; from kvlab.cli import main; code = main(['traffic', 'a.csv']);"
        " sys.exit(code or any(name in sys.modules for name in ('altair', 'jinja2', 'vl_convert', 'markupsafe')))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
