"""One bench at several concurrencies: a result for each, no prompt sent twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from kvlab.core.errors import BadInput
from kvlab.load.bench import BenchResult, BenchSpec, Prepared, measure, prepare, save
from kvlab.load.calls import conversations
from kvlab.load.spec import OnProgress


def ladder(
    url: str,
    spec: BenchSpec,
    concurrencies: Sequence[int],
    *,
    output: Path | None = None,
    progress: OnProgress | None = None,
) -> tuple[BenchResult, ...]:
    """The load of `spec` in a closed loop at each concurrency in turn, with `num_prompts` prompts of their own each.

    With `output` X.json each is written as X-cN.json when it is done. Raises what `prepare` and `measure` raise.
    """
    if spec.load.is_open:
        raise BadInput(
            "several concurrencies are a closed loop each: leave out --rate, --ramp and the file's own times"
        )
    if not concurrencies or len(set(concurrencies)) != len(concurrencies):
        raise BadInput("name different concurrencies, as in --concurrency 1,2,4,8")
    whole = None if spec.num_prompts is None else spec.num_prompts * len(concurrencies)
    ready = prepare(url, replace(spec, num_prompts=whole), progress)
    found = []
    for part, concurrency in zip(_parts(ready, len(concurrencies)), concurrencies, strict=True):
        rung = replace(spec, load=replace(spec.load, concurrency=concurrency))
        result = measure(url, rung, part, progress)
        if output is not None:
            save(result, rung_file(output, concurrency))
        found.append(result)
    return tuple(found)


def rung_file(output: Path, concurrency: int) -> Path:
    """Where the result of one concurrency goes."""
    return output.with_stem(f"{output.stem}-c{concurrency}")


def _parts(ready: Prepared, count: int) -> list[Prepared]:
    """The prompts in equal parts, conversations whole; what is left over is not sent."""
    talks = conversations(ready.prompts)
    each = len(talks) // count
    if not each:
        raise BadInput(f"{len(talks)} prompts are too few for {count} concurrencies, each with prompts of its own")
    return [
        replace(ready, prompts=tuple(chain.from_iterable(talks[at * each : (at + 1) * each]))) for at in range(count)
    ]
