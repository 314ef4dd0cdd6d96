"""Facts found again in long texts: one, one among several, two of one, and variables that follow one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvlab import needles
from kvlab.core.errors import BadInput
from kvlab.core.exam import MOST_KEPT, Marked
from kvlab.core.gate import CannotRun, Figure, GateOptions, GateRule, LengthRow, Part, PartFinding, Side
from kvlab.core.needle import found as answered
from kvlab.gates import _accuracy as accuracy
from kvlab.gates._asking import ask
from kvlab.haystack import Cell, Hay, cells, haystacks
from kvlab.load.spec import Prompt

NAME, TITLE = "retrieval", "Facts found again in long texts"
Marks = tuple[Marked, ...]
_STOP = ("\n",)
_SHORTEST, _LONGEST, _UNKNOWN = 512, 16_384, 2048
"""Tokens, when no lengths are named: of the shortest text, of the longest, and of that where no context is known."""
_ANSWER = 32
"""Tokens that the longest answer takes."""


def _lengths(side: Side) -> tuple[int, ...]:
    """Those asked for, or 512 doubled as often as a request holds it. Raises CannotRun when it holds none."""
    room = None if side.context is None else side.context - _ANSWER
    if side.options.lengths:
        over = [length for length in side.options.lengths if room is not None and length > room]
        if over:
            raise CannotRun(
                f"a text of {over[0]:,} tokens does not fit a request of {side.context:,} with its answer; lower"
                " --lengths or raise --context"
            )
        return side.options.lengths
    longest = side.options.longest or (_UNKNOWN if room is None else _LONGEST)
    longest = longest if room is None else min(longest, room)
    if longest < _SHORTEST:
        raise CannotRun(f"{longest:,} tokens of prompt hold no text to search; raise --context or --longest")
    return tuple(_SHORTEST << doubled for doubled in range((longest // _SHORTEST).bit_length()))


def _collect(side: Side) -> Marks:
    kinds = needles.needles()
    asked = cells(_lengths(side), side.options.needle_items)
    hay = _made(side, asked)
    prompts = [Prompt(id=one.cell.id, text=one.text, output_tokens=kinds[one.cell.needle].tokens) for one in hay]
    said = ask(side, prompts, _STOP, lambda done: side.progress(done, len(hay)))
    return tuple(_marked(one, text, error) for one, (text, error) in zip(hay, said, strict=True))


def _made(side: Side, asked: Sequence[Cell]) -> tuple[Hay, ...]:
    from kvlab.load import clock
    from kvlab.load.connections import Connections
    from kvlab.load.exact import ServerTokenizer
    from kvlab.load.server import contact, tokens_of

    async def main(_: Callable[[], float]) -> tuple[Hay, ...]:
        async with Connections(_SECONDS, side.url) as connections:
            server = await contact(connections.fresh, side.url)
            try:
                api = tokens_of(side.engine or server.engine)
            except BadInput as problem:
                raise CannotRun(str(problem)) from None
            tokenizer = ServerTokenizer(connections.fresh, server, api)
            return await haystacks(tokenizer, asked, side.options.item_seed, lambda done: None)

    return clock.run(main)


_SECONDS = 600.0


def _marked(hay: Hay, text: str | None, error: str | None) -> Marked:
    cell, hidden = hay.cell, hay.hidden
    return Marked(
        id=cell.id,
        kind=cell.needle,
        asked=hidden.asks,
        wanted=", ".join(hidden.answers),
        said=None if text is None else text.strip()[:MOST_KEPT],
        right=None if text is None else answered(needles.needles()[cell.needle], hidden, text),
        why=error or "",
        tokens=hay.tokens,
        length=cell.length,
        depth=cell.depth,
    )


def _judge(first: Marks, again: Marks, b: Marks, rule: GateRule) -> PartFinding:
    trios = accuracy.trios(first, again, b)
    verdict, because = accuracy.judge(trios, (first, again, b), rule)
    titles = {name: needle.title for name, needle in needles.needles().items()}
    kinds = dict.fromkeys(trio.a.kind for trio in trios)
    return PartFinding(
        name=NAME,
        title=TITLE,
        verdict=verdict,
        because=because,
        numbers=(
            *accuracy.figures(trios, rule),
            *(accuracy.among(titles.get(kind, kind), [t for t in trios if t.a.kind == kind]) for kind in kinds),
        ),
        by_length=_by_length(trios),
        examples=accuracy.examples(trios),
    )


def _by_length(trios: Sequence[accuracy.Trio]) -> tuple[LengthRow, ...]:
    """A row for each length asked for, with the accuracy at every depth beside that over all."""
    lengths: dict[int | None, list[accuracy.Trio]] = {}
    for trio in trios:
        lengths.setdefault(trio.a.length, []).append(trio)
    rows = []
    for members in lengths.values():
        tokens = [trio.a.tokens or 0 for trio in members]
        depths = sorted({trio.a.depth or 0.0 for trio in members})
        figures = [accuracy.among("accuracy", members)]
        figures += [_at(depth, members) for depth in depths]
        rows.append(LengthRow(low=min(tokens), high=max(tokens) + 1, count=len(members), figures=tuple(figures)))
    return tuple(sorted(rows, key=lambda row: row.low))


def _at(depth: float, members: Sequence[accuracy.Trio]) -> Figure:
    return accuracy.among(f"depth {100 * depth:.0f} %", [t for t in members if (t.a.depth or 0.0) == depth])


def _lacks(engine: str | None, options: GateOptions) -> str | None:
    from kvlab.load.server import tokens_of

    if engine is None:
        return None
    try:
        tokens_of(engine)
    except BadInput as problem:
        return str(problem)
    return None


PART = Part(
    name=NAME,
    title=TITLE,
    needs="the engine's tokenizer, and an OpenAI-compatible completions endpoint",
    evidence=Marks,
    collect=_collect,
    judge=_judge,
    lacks=_lacks,
)
