"""One definition per chart, drawn as SVG for the page and as PNG for everything else."""

from __future__ import annotations

from kvlab.core.record import Record
from kvlab.reporting.charts import judged, load, plan
from kvlab.reporting.charts.drawing import Drawing

__all__ = ["Drawing", "drawings"]


def drawings(record: Record) -> tuple[Drawing, ...]:
    """Every chart that the record has the numbers for, in the order of the report."""
    makers = (
        judged.changes,
        plan.ledger,
        plan.dtypes,
        load.ttft_ecdf,
        load.tpot_time,
        load.throughput,
        load.cache_use,
        load.queue,
        judged.quality,
        judged.prefix,
    )
    return tuple(drawing for make in makers if (drawing := make(record)) is not None)
