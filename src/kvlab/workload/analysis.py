"""A trace in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from kvlab.core.breaker import Breakers
from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.performance import share
from kvlab.core.trace import Trace
from kvlab.core.traffic import LengthCurves, Reuse, Sampled, Traffic
from kvlab.workload.beside import beside, prefill_alone, whole_blocks
from kvlab.workload.lengths import Column, curve, freed, lengths, limit, paging
from kvlab.workload.moves import Seen, moves
from kvlab.workload.questions import Questions, Tell
from kvlab.workload.reuse import Window, reuse
from kvlab.workload.together import doubts as doubts_at_once
from kvlab.workload.together import planned_blocks, together
from kvlab.workload.under_load import under_load

if TYPE_CHECKING:
    from kvlab.core.trace import Blocks, Ints

_WIDE = 0.01
"""Error of a sampled hit rate above which the reader is told."""
_NEARLY_ALL, _MANY = 0.9, 10
"""Share of the time that one gap takes, and requests, from which the reader is told."""
_MOST_SHARE = 50
"""Per cent of the blocks from which a sample is no gain."""


def analyse(
    trace: Trace, files: Sequence[str], asked: Questions, tell: Tell, broken: Breakers | None = None
) -> Traffic:
    """Lengths, limit, reuse, paging and moves; `broken`: what breaks the prefixes of its prompts.

    Raises BadInput for questions that the trace cannot answer.
    """
    if asked.bytes_per_token is not None and asked.bytes_per_token < 1:
        raise BadInput(f"bytes_per_token={asked.bytes_per_token} must be at least 1")
    if trace.blocks is None and (named := _about_reuse(asked)):
        raise BadInput(
            f"{files[0]} holds lengths and no block ids, so reuse is unknown; leave out {' and '.join(named)}"
        )
    if trace.blocks is not None and trace.blocks.sample is not None and (named := _about_all(asked)):
        need = "needs" if len(named) == 1 else "need"
        raise BadInput(f"{' and '.join(named)} {need} every block; leave out --sample {asked.sample}")
    prompts = Column(trace.inputs)
    answers = None if trace.outputs is None else Column(trace.outputs)
    total = prompts if trace.outputs is None else Column(trace.inputs + trace.outputs)
    found = pool = None
    capacities: tuple[int, ...] = ()
    if trace.blocks is not None:
        capacities = whole_blocks(asked.capacities, trace.blocks.size, asked.bytes_per_token, "--capacity")
        held = capacities or planned_blocks(asked.plan, trace.blocks.size)
        pool = held[0] if held else None
        found = _reused(trace.blocks, trace.inputs, held, asked, tell)
    span = None if trace.arrivals is None else float(trace.arrivals.max() - trace.arrivals.min())
    recommended, of_prompts = limit(total, asked.percentile), lengths(prompts)
    recommended = freed(recommended, asked.model_context, asked.bytes_per_token)
    at_once = together(trace, recommended, capacities, asked)
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
        input_tokens=of_prompts,
        output_tokens=None if answers is None else lengths(answers),
        total_tokens=None if answers is None else lengths(total),
        context=recommended,
        reuse=found,
        paging=() if answers is None else paging(prompts, answers, total, longest),
        moves=moves(Seen(of_prompts, recommended, found, broken, pool, at_once)),
        concurrency=at_once,
        load=under_load(trace, asked, tell),
        breakers=broken,
        left_out=trace.left_out,
        counted=trace.counted,
        doubts=(*_doubts(trace, found, simulated=bool(asked.pools)), *doubts_at_once(trace, asked, at_once)),
        length_curves=LengthCurves(
            input_tokens=curve(prompts),
            output_tokens=None if answers is None else curve(answers),
            total_tokens=None if answers is None else curve(total),
        ),
    )


def _reused(blocks: Blocks, inputs: Ints, held: tuple[int, ...], asked: Questions, tell: Tell) -> Reuse:
    """Reuse on caches of every size, those of `held` blocks on the curve, and the questions beside it."""
    window = Window(len(inputs) // 2 if asked.last_half else 0, inputs)
    points = (*held, *(2 * at for at in held[:1]))  # a move asks what a pool twice as large hits
    tell("replaying it on caches of every size")
    found = reuse(blocks, window, points, asked.bytes_per_token)
    return replace(found, asked_blocks=held, **beside(blocks, held, asked))


def _about_reuse(asked: Questions) -> list[str]:
    """Options that ask about blocks."""
    return _named(
        {
            "--capacity": asked.capacities,
            "--last-half": asked.last_half,
            **_beside_the_curve(asked),
            "--inclusive": asked.inclusive,
            "--prefill-speed": prefill_alone(asked),
        }
    )


def _about_all(asked: Questions) -> list[str]:
    """Options that a sample of the blocks cannot answer."""
    return _named({**_beside_the_curve(asked), "--pool": asked.pools})


def _beside_the_curve(asked: Questions) -> dict[str, object]:
    return {"--policy": asked.policies, "--tiers": asked.tiers, "--replicas": asked.replicas}


def _named(options: dict[str, object]) -> list[str]:
    """Those that were given."""
    return [name for name, value in options.items() if value]


def _enough(of: Sampled) -> str:
    """The sample that is likely to be off by no more than _WIDE: its error falls with the root of its size."""
    share = 100 * of.rate * (of.error / _WIDE) ** 2
    return f", about {share:.2g}% for one point" if share < _MOST_SHARE else ""


def _gap(trace: Trace) -> float | None:
    """The longest time between two requests as a share of the whole; None where it is not nearly all of many."""
    if trace.arrivals is None or len(trace.arrivals) < _MANY:
        return None
    times = np.sort(trace.arrivals) if trace.clock_jumps else trace.arrivals
    gap, span = float(np.diff(times).max()), float(times[-1] - times[0])
    return gap / span if span and gap > _NEARLY_ALL * span else None


def _doubts(trace: Trace, reuse: Reuse | None, *, simulated: bool) -> list[Doubt]:
    found = list(trace.doubts)
    if simulated and trace.blocks is None:
        text = "which prompts begin alike is not known, so simulated pools share nothing: real ones may wait less"
        found.append(Doubt("pools", text))
    if reuse is not None and reuse.sampled is not None and reuse.sampled.error > _WIDE:
        of = reuse.sampled
        text = (
            f"points of the curve may be {100 * of.error:.1f} points off: the sample holds {of.references:,} references"
            f" to {of.blocks:,} blocks; a larger --sample says more{_enough(of)}"
        )
        found.append(Doubt("sample", text))
    if trace.clock_jumps:
        which = f" (the first: request {trace.first_jump:,} of those used)" if trace.first_jump else ""
        text = f"{trace.clock_jumps:,} rows lie before the row above them in time{which}; the cache sees requests in"
        found.append(Doubt("time", f"{text} the order of the file"))
    if (gap := _gap(trace)) is not None:
        text = f"{share(gap)} of the time that the trace spans is one gap between two requests, as when a clock jumps"
        found.append(Doubt("time", f"{text}; requests a second counts it in"))
    if trace.left_out.count:
        kept = len(trace.inputs)
        first = trace.left_out.first[0]
        text = f"{trace.left_out.count:,} of {kept + trace.left_out.count:,} rows could not be used; the first: "
        found.append(Doubt("rows", f"{text}{first.where}, {first.why}"))
    if trace.format == "ranges":
        found.append(Doubt("arrivals", "sessions are taken to start together, since the file does not say when"))
    return found
