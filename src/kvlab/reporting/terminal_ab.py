"""What a person sees of an A/B experiment: the verdict, the arms, the order they ran in, what was foretold."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from kvlab.core.record import Ab, Arm, Design, Forecast
from kvlab.reporting import planned, sections, words
from kvlab.reporting.terminal import comparison, prefix, quality
from kvlab.reporting.terminal_parts import bullets, facts, heading, left, right, table, verdict_line


def ab(value: Ab) -> RenderableType:
    """The verdict of an A/B with its reasons, then what it stands on."""
    verdict = value.verdict
    parts: list[RenderableType] = [
        verdict_line(verdict.code, words.VERDICTS[verdict.code], words.plain(verdict.text)),
        bullets(words.plain(reason) for reason in verdict.because),
        heading("Arms"),
        facts([(name.upper(), _arm(arm)) for name, arm in value.arms.items()]),
    ]
    if value.design is not None:
        parts += [heading("Protocol"), facts(_design(value.design))]
    if value.performance:
        parts += [heading("Performance, B against A (measured)"), comparison(value.performance)]
    peaks = [("A", words.share(value.pool.a_peak_usage)), ("B", words.share(value.pool.b_peak_usage))]
    parts += [heading("Peak cache use (read)"), facts([*peaks, ("pool", words.filled(value.pool))])]
    parts += (
        [heading("Foretold before the first run (estimated), and seen"), _forecast(value)] if value.forecast else []
    )
    parts += [Text(), quality(value.quality)] if value.quality else []
    parts += [Text(), prefix(value.prefix)] if value.prefix else []
    return Group(*parts)


def _arm(arm: Arm) -> str:
    dtype = words.plain(arm.plan.kv.dtype)
    label = words.plain(arm.label)
    cache = f"{dtype} cache" if label == dtype else f"{label}: {dtype} cache"
    tokens = f", tokens: {planned.tokens(arm.plan, arm.plan.capacity).line()}" if arm.plan.capacity else ""
    checked = ""
    if arm.check:
        agreed = sum(row.verdict == "agrees" for row in arm.check.rows)
        checked = f"; log against plan: {agreed} of {len(arm.check.rows)} agree (read)"
    return cache + tokens + checked


def _design(design: Design) -> list[tuple[str, str]]:
    rows = [
        ("order", f"{design.order}, a restart before each run"),
        ("measured requests", f"{design.requests:,}"),
    ]
    if design.sequential:
        looks = "; ".join(f"after {words.counted(look.blocks, 'block')} {told(look.code)}" for look in design.looks)
        rows += [("looks", looks), ("requests saved", f"{design.requests_saved:,} of the most there could be")]
    return rows


def told(code: str) -> str:
    """The code of a verdict in words."""
    return code.replace("_", " ")


def _forecast(value: Ab) -> RenderableType:
    body = table(left("arm"), left("number"), right("foretold"), right("seen"), left("score", wraps=False))
    for row in value.forecast:
        body.add_row(
            Text(row.arm.upper()),
            Text(words.label(row.name)),
            Text(sections.foretold(row)),
            Text(sections.foretold_seen(row)),
            Text(score(row)),
        )
    return body


def score(row: Forecast) -> str:
    """Whether what was seen lies in the range that was foretold."""
    return {True: "= hit", False: "! missed", None: "? not seen"}[row.hit]
