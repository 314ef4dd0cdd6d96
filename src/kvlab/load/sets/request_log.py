"""The requests of a log, with their own messages, prompts or token ids, sent again at their own times or otherwise."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import msgspec

from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.core.trace import Logged
from kvlab.load.datasets import RequestLog
from kvlab.load.exact import Tokenizer
from kvlab.load.making import DataSet, Draft, Made, Tools, Wanted
from kvlab.load.spec import Prompt
from kvlab.load.together import together

_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""How a request's body states how long its answer may be."""
_MOST_BYTES = 1 << 30
_TOO_MUCH = "its requests hold more than 1 GiB of text; give --num-prompts"


def _draft(data: RequestLog, wanted: Wanted) -> Draft:
    path = Path(data.path)
    if not traces.holds_requests(path, data.format):
        raise BadInput(f"{path} holds lengths, not the requests themselves: give --dataset trace")
    found = _read(path, data.format, wanted.count)
    if not found:
        raise BadInput(f"{path} holds no request that can be sent again")
    if wanted.count is not None and not 1 <= wanted.count <= len(found):
        raise BadInput(f"{path} holds {len(found):,} requests that can be sent, {wanted.count:,} were asked for")
    found, arrivals = _timed(found, data.scale_time)

    async def make(tools: Tools) -> Made:
        async def one(index: int) -> Prompt:
            tokens = await _answer_tokens(found[index], data, tools)
            return _prompt(index, found[index], tokens)

        prompts = await together(one, len(found), lambda done: tools.done(done, len(found)))
        return Made(prompts, arrivals, notes={"requests": len(prompts)})

    return make


def _read(path: Path, form: str | None, count: int | None) -> list[Logged]:
    found, held = [], 0
    for logged in islice(traces.logged(path, form), count):
        found.append(logged)
        texts = (logged.prompt, *(message.get("content") for message in logged.messages or ()))
        held += sum(len(text) for text in texts if isinstance(text, str))
        if held > _MOST_BYTES:
            raise BadInput(f"{path}: {_TOO_MUCH}")
    return found


def _timed(found: list[Logged], scale: float) -> tuple[list[Logged], tuple[float, ...] | None]:
    """The requests in the order of their times, and these from 0 on; as they stand where one has no time."""
    times = {id(logged): logged.time for logged in found if logged.time is not None}
    if len(times) < len(found):
        return found, None
    ordered = sorted(found, key=lambda logged: times[id(logged)])
    first = times[id(ordered[0])]
    return ordered, tuple((times[id(logged)] - first) * scale for logged in ordered)


async def _answer_tokens(logged: Logged, data: RequestLog, tools: Tools) -> int:
    if data.output_tokens is not None:
        return data.output_tokens
    if logged.answer_tokens is not None:
        return max(1, logged.answer_tokens)
    tokenizer: Tokenizer | None = tools.tokenizer
    if logged.answer is not None and tokenizer is not None:
        return max(1, len(await tokenizer.ids(logged.answer, special=False)))
    body = (traces.body_of(logged.record) if logged.record is not None else None) or {}
    for key in _LIMITS:
        stated = body.get(key)
        if isinstance(stated, int) and not isinstance(stated, bool) and 1 <= stated <= 1 << 30:
            return stated
    raise BadInput(f"{Path(data.path).name} {logged.where} does not tell how long its answer was: give --output-tokens")


def _prompt(index: int, logged: Logged, tokens: int) -> Prompt:
    if logged.messages is not None:
        more: dict[str, object] = {} if logged.tools is None else {"tools": logged.tools}
        messages = tuple(_message(message) for message in logged.messages)
        return Prompt(id=str(index), messages=messages, output_tokens=tokens, more=more)
    if logged.ids is not None:
        ids = tuple(logged.ids)
        return Prompt(id=str(index), token_ids=ids, output_tokens=tokens, expected_prompt_tokens=len(ids))
    return Prompt(id=str(index), text=logged.prompt or "", output_tokens=tokens)


def _message(message: dict[str, object]) -> dict[str, object]:
    """The message as JSON can hold it."""
    kept: dict[str, object] = msgspec.to_builtins(message)
    return kept


SET = DataSet(RequestLog, _draft)
