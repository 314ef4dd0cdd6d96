"""A trace's times, lengths and shared prefixes, with made-up text.

Equal block ids become equal words at equal places, so requests share exactly the tokens that their ids say, and all
else is text of their own. Each word is one token, by the engine's own tokenizer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kvlab import traces
from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.trace import Trace
from kvlab.load.datasets import TraceFile
from kvlab.load.exact import Tokenizer, added
from kvlab.load.making import DataSet, Draft, Made, Tools, Wanted
from kvlab.load.spec import Prompt
from kvlab.load.together import together
from kvlab.load.words import Vocabulary, vocabulary

MOST_TOKENS = 32_000_000
"""Prompt tokens of a replay: some 150 MB of text."""
_VERIFIED = 16
"""Prompts whose tokens are counted before the run: the longest among them. The answers' usage tells of all."""


class _Row(NamedTuple):
    """One request: its place in the file, its time there, and its lengths as they are sent."""

    number: int
    time: float | None
    tokens: int
    output: int
    ids: tuple[int, ...]


def _draft(data: TraceFile, wanted: Wanted) -> Draft:
    trace = _read(Path(data.path), data.format)
    if trace.outputs is None and data.output_tokens is None:
        raise BadInput(f"{data.path} does not tell how long answers were: give --output-tokens")
    rows, count = _rows(trace, data), wanted.count
    if count is not None and not 1 <= count <= len(rows):
        raise BadInput(f"{data.path} holds {len(rows):,} requests that can be sent, {count:,} were asked for")
    rows = rows[:count]
    if (whole := sum(row.tokens for row in rows)) > MOST_TOKENS:
        raise BadInput(
            f"the prompts of {len(rows):,} requests have {whole:,} tokens, more than {MOST_TOKENS:,}: give a smaller"
            " --num-prompts or --scale-tokens"
        )

    async def make(tools: Tools) -> Made:
        tokenizer = tools.counting()
        words = await vocabulary(tokenizer)
        front = len(await added(tokenizer))
        block = trace.blocks.size * data.scale_tokens if trace.blocks is not None else 0.0
        writer = _Writer(words, front, block, str(wanted.seed))
        rows_sent = [row._replace(tokens=max(row.tokens, front + 1)) for row in rows]
        prompts = tuple(writer.prompt(row, wanted.endpoint == "completions") for row in rows_sent)
        tools.done(len(prompts), len(prompts))
        await _verify(tokenizer, prompts, [row.tokens for row in rows_sent])
        return Made(prompts, _arrivals(rows_sent, data.scale_time), notes=_notes(trace, rows_sent, writer))

    return make


def _read(path: Path, form: str | None) -> Trace:
    if traces.holds_requests(path, form):
        raise BadInput(f"{path} holds the requests themselves: give --dataset log, which sends them as they are")
    try:
        return traces.read(path, form)
    except ModuleNotFoundError as missing:
        raise EngineFailed(f"reading {path} needs {missing.name}: pip install 'kvlab[traffic]'") from None


def _rows(trace: Trace, data: TraceFile) -> list[_Row]:
    """The requests in the order of their times."""
    found = []
    for number, length in enumerate(trace.inputs.tolist()):
        output = data.output_tokens
        if output is None and trace.outputs is not None:
            output = max(1, round(int(trace.outputs[number]) * data.scale_tokens))
        ids: tuple[int, ...] = ()
        if trace.blocks is not None:
            begin, end = trace.blocks.offsets[number : number + 2].tolist()
            ids = tuple(trace.blocks.ids[begin:end].tolist())
        time = None if trace.arrivals is None else float(trace.arrivals[number])
        found.append(_Row(number, time, max(1, round(length * data.scale_tokens)), output or 1, ids))
    return found if trace.arrivals is None else sorted(found, key=lambda row: row.time or 0.0)


def _arrivals(rows: Sequence[_Row], scale: float) -> tuple[float, ...] | None:
    times = [row.time for row in rows if row.time is not None]
    return tuple((time - times[0]) * scale for time in times) if len(times) == len(rows) else None


class _Writer:
    """Makes texts; `front` tokens stand before each, `block` tokens are in a block of the trace as it is sent."""

    def __init__(self, words: Vocabulary, front: int, block: float, seed: str) -> None:
        self._words, self._front, self._block, self._seed = words, front, block, seed

    def prompt(self, row: _Row, exact: bool) -> Prompt:
        """The request's prompt; `exact`: nothing will be added to it."""
        found: list[str] = []
        for at, block in enumerate(row.ids):
            self._extend(found, f"{self._seed} block {block}", self.end(row, at))
        self._extend(found, f"{self._seed} request {row.number}", row.tokens)
        return Prompt(
            id=str(row.number),
            text=" ".join(found),
            output_tokens=row.output,
            expected_prompt_tokens=row.tokens if exact else None,
        )

    def end(self, row: _Row, at: int) -> int:
        """Tokens of the prompt up to the end of its block number `at`."""
        return min(row.tokens, round((at + 1) * self._block))

    def _extend(self, found: list[str], seed: str, until: int) -> None:
        count = until - self._front - len(found)
        if count < 1:
            return
        source = random.Random(seed)
        if not found:
            found.append(source.choice(self._words.starts))
            count -= 1
        found += source.choices(self._words.words, k=count)


async def _verify(tokenizer: Tokenizer, prompts: Sequence[Prompt], tokens: Sequence[int]) -> None:
    """Raises BadInput when the engine counts other lengths than were meant."""
    chosen = sorted(range(len(prompts)), key=lambda index: -tokens[index])[: _VERIFIED // 2]
    chosen += [index for index in range(min(len(prompts), _VERIFIED // 2)) if index not in chosen]

    async def counted(place: int) -> int:
        return len(await tokenizer.ids(prompts[chosen[place]].text or ""))

    for index, count in zip(chosen, await together(counted, len(chosen), lambda _: None), strict=True):
        if count != tokens[index]:
            raise BadInput(
                f"the engine counts {count} tokens in a text that was to have {tokens[index]}: its tokenizer joins"
                " words, so a trace cannot be replayed exactly"
            )


def _notes(trace: Trace, rows: Sequence[_Row], writer: _Writer) -> dict[str, object]:
    """The trace in numbers: what a cache without a limit would find of the prompts, in the order they are due."""
    prompt = sum(row.tokens for row in rows)
    notes: dict[str, object] = {"format": trace.format, "left_out": trace.left_out.count, "prompt_tokens": prompt}
    if trace.blocks is None:
        return notes
    seen: set[int] = set()
    hits = 0
    for row in rows:
        shared = next((at for at, block in enumerate(row.ids) if block not in seen), len(row.ids))
        hits += writer.end(row, shared - 1) if shared else 0
        seen.update(row.ids)
    return {**notes, "block_tokens": trace.blocks.size, "ideal_hit_tokens": hits, "ideal_hit_rate": hits / prompt}


SET = DataSet(TraceFile, _draft)
