"""A trace in numbers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.trace import Trace
from kvlab.core.traffic import Traffic
from kvlab.workload.lengths import Column, lengths, limit, paging
from kvlab.workload.moves import moves
from kvlab.workload.reuse import Window, reuse

_MOST_BLOCKS = 1 << 40
"""Capacities above any cache's, and small enough that their bytes are exact."""


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask of a trace, beside what is always answered."""

    percentile: float = 99.0
    """Of the total lengths, for the context limit."""
    capacities: tuple[int, ...] = ()
    """Cache sizes in blocks that the curve must hold."""
    last_half: bool = False
    """Measure reuse on the second half of the requests, with a cache that the first half has warmed."""
    bytes_per_token: int | None = None
    """Cache bytes of a token on one GPU, to give capacities in bytes."""
    tokenizer: str | None = None
    """tokenizer.json, its folder, a GGUF file or a Hub model, for logs that hold text."""
    estimate_tokens: bool = False
    """Without a tokenizer, count four bytes of text as a token."""
    block_size: int = 16
    """Tokens of a block, for logs that hold text or token ids."""
    fix: str | None = None
    """A file for the log with its prefix breakers fixed."""
    context: int | None = None
    """The longest request that would be reserved for, in the paging table; None: the next power of two."""


def analyse(trace: Trace, files: Sequence[str], asked: Questions) -> Traffic:
    """Lengths, limit, reuse, paging and moves. Raises BadInput for questions that the trace cannot answer."""
    if any(not 1 <= at <= _MOST_BLOCKS for at in asked.capacities):
        raise BadInput(f"--capacity takes numbers of blocks from 1 to {_MOST_BLOCKS:,}")
    if asked.bytes_per_token is not None and asked.bytes_per_token < 1:
        raise BadInput(f"bytes_per_token={asked.bytes_per_token} must be at least 1")
    if trace.blocks is None and (asked.capacities or asked.last_half):
        raise BadInput(
            f"{files[0]} holds lengths and no block ids, so reuse is unknown; leave out --capacity and --last-half"
        )
    prompts = Column(trace.inputs)
    answers = None if trace.outputs is None else Column(trace.outputs)
    total = prompts if trace.outputs is None else Column(trace.inputs + trace.outputs)
    found = None
    if trace.blocks is not None:
        window = Window(len(trace.inputs) // 2 if asked.last_half else 0, trace.inputs)
        found = reuse(trace.blocks, window, asked.capacities, asked.bytes_per_token)
    span = None if trace.arrivals is None else float(trace.arrivals.max() - trace.arrivals.min())
    recommended = limit(total, asked.percentile)
    if asked.context is not None and asked.context < int(total.values[-1]):
        raise BadInput(
            f"--context {asked.context:,} is shorter than the longest request, {int(total.values[-1]):,} tokens; give"
            " at least that, or leave it out"
        )
    longest = asked.context or 1 << (max(1, int(total.values[-1])) - 1).bit_length()
    return Traffic(
        files=tuple(files),
        format=trace.format,
        requests=len(trace.inputs),
        span_seconds=span,
        requests_per_second=len(trace.inputs) / span if span else None,
        input_tokens=lengths(prompts),
        output_tokens=None if answers is None else lengths(answers),
        total_tokens=None if answers is None else lengths(total),
        context=recommended,
        reuse=found,
        paging=() if answers is None else paging(prompts, answers, total, longest),
        moves=moves(lengths(prompts), recommended, found),
        left_out=trace.left_out,
        counted=trace.counted,
        doubts=tuple(_doubts(trace)),
    )


def _doubts(trace: Trace) -> list[Doubt]:
    found = list(trace.doubts)
    if trace.clock_jumps:
        text = (
            f"{trace.clock_jumps:,} rows lie before the row above them in time; the cache sees requests in the order of"
            " the file"
        )
        found.append(Doubt("time", text))
    if trace.left_out.count:
        kept = len(trace.inputs)
        first = trace.left_out.first[0]
        text = f"{trace.left_out.count:,} of {kept + trace.left_out.count:,} rows could not be used; the first: "
        found.append(Doubt("rows", f"{text}{first.where}, {first.why}"))
    if trace.format == "ranges":
        found.append(Doubt("arrivals", "sessions are taken to start together, since the file does not say when"))
    return found
