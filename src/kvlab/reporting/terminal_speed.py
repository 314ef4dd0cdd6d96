"""The expected speed on a terminal: three lines, and what they leave out."""

from __future__ import annotations

from rich.console import RenderableType

from kvlab.core.speed import Pace, Range, Speed, Turn
from kvlab.core.units import seconds
from kvlab.reporting import words
from kvlab.reporting.terminal_parts import facts, heading, note


def speed(value: Speed | None) -> list[RenderableType]:
    """Decoding, prefill, and where the bandwidth stops to be the bound; nothing when no GPU was named."""
    if value is None:
        return []
    decoding = [_pace(pace) for pace in value.decode]
    if decoding and value.prefill is not None:
        decoding[-1] += f"; {_turn(value.compute_bound_from)}"
    rows = [(words.counted(pace.batch, "request"), text) for pace, text in zip(value.decode, decoding, strict=True)]
    if value.prefill is not None:
        read = value.prefill
        first = f"{seconds(read.ttft.low)} to {seconds(read.ttft.high)} to the first token"
        rows.append(("prefill", f"{first} of a prompt of {read.tokens:,} tokens, alone"))
    if not rows:
        return [note(words.plain(f"speed: {doubt.text}")) for doubt in value.doubts[:1]]
    parts: list[RenderableType] = [heading(f"Speed (estimated roofline, every request at {value.context:,} tokens)")]
    return [*parts, facts(rows), *(note(words.plain(doubt.text)) for doubt in value.doubts)]


def _pace(pace: Pace) -> str:
    each = f"{_between(pace.tokens_per_second_each)} tokens/s each"
    together = f", {_between(pace.tokens_per_second)} together" if pace.batch > 1 else ""
    return f"decoding {each}{together}"


def _between(found: Range) -> str:
    return f"{_figures(found.low)} to {_figures(found.high)}"


def _figures(amount: float) -> str:
    """Two figures: more would pretend to be exact."""
    return f"{float(f'{amount:.2g}'):,.0f}" if amount >= 10 else f"{amount:.1f}"


def _turn(turn: Turn | None) -> str:
    if turn is None:
        return "bound by bandwidth at any batch"
    latest = f" to {turn.latest:,}" if turn.latest is not None else " at the earliest"
    return f"bound by bandwidth up to a batch of {turn.earliest:,}{latest}"
