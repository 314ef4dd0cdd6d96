"""`kvlab history FOLDER...`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvlab.cli.command import Answer, Command

if TYPE_CHECKING:
    from rich.console import RenderableType

_CHARTS = (".png", ".svg")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="labs, or what holds them (default: this folder)")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="plot this metric over time, by its name in vLLM's result file: mean_ttft_ms; -o FILE.png or FILE.svg"
        " writes the chart (default: the list)",
    )


def _run(options: argparse.Namespace) -> Answer:
    from kvlab import api
    from kvlab.core.errors import BadInput
    from kvlab.timeline import series

    chart = options.output if (options.output or "").lower().endswith(_CHARTS) else None
    if chart is not None and options.metric is None:
        raise BadInput(f"-o {chart} is a chart, of which metric? give --metric NAME")
    found = api.history(*options.folders)
    entries = None if options.metric is None else series(found, options.metric)
    if chart is not None and entries is not None:
        from kvlab.reporting.charts.history import metric_over_time
        from kvlab.store import write_atomic

        drawing = metric_over_time(entries, options.metric)
        write_atomic(chart, drawing.png() if chart.lower().endswith(".png") else drawing.svg_file())
        options.output = None  # it is the chart's

    def show() -> RenderableType:
        from kvlab.reporting import terminal_keep

        return terminal_keep.history(found) if entries is None else terminal_keep.plotted(entries, options.metric)

    return Answer(found, show)


COMMAND = Command("what was run, frozen and verified in some folders, in time", _arguments, _run)
