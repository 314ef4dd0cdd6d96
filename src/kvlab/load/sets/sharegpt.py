"""Conversations in the JSON of ShareGPT: the first turn of each, or all of them, turn by turn.

The file is a list of {"id", "conversations": [{"from": "human", "value"}, {"from": "gpt", "value"}, ...]}, or holds one
such object a line; plain, .gz or .zst. As in `vllm bench serve --dataset-name sharegpt`, those with less than two
turns are left out, the seed shuffles the rest (the same seed as there, the same order), and of first turns those that
vLLM's bounds leave out are left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.load.datasets import ShareGpt
from kvlab.load.exact import Tokenizer
from kvlab.load.making import DataSet, Draft, Made, Tools, Wanted
from kvlab.load.spec import Prompt
from kvlab.load.together import together

_MOST_BYTES = 2 << 30
_SHORTEST, _LONGEST_PROMPT, _LONGEST = 4, 1024, 2048
"""Tokens of a prompt and of an answer at least, of a prompt, and of both, as in vLLM's is_valid_sequence."""
_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "system": "system",
}


class _Said(msgspec.Struct):
    who: str | None = msgspec.field(name="from", default=None)
    value: str | None = None
    role: str | None = None
    content: str | None = None

    def message(self) -> dict[str, object] | None:
        role, text = _ROLES.get(self.who or self.role or ""), self.value if self.value is not None else self.content
        return None if role is None or not text else {"role": role, "content": text}


class _Talk(msgspec.Struct):
    conversations: list[_Said] = []


class Talk(msgspec.Struct, frozen=True):
    """What a conversation begins with (a system prompt, or nothing), and its turns: (question, recorded answer)."""

    system: tuple[dict[str, object], ...]
    turns: tuple[tuple[str, str], ...]


def _draft(data: ShareGpt, wanted: Wanted) -> Draft:
    if data.turns == "all" and wanted.endpoint != "chat":
        raise BadInput("conversations turn by turn need the chat endpoint: give --endpoint chat")
    read = [talk for talk in _read(Path(data.path)) if len(talk.conversations) > 1]
    random.Random(wanted.seed).shuffle(read)
    usable = [talk for talk in map(_usable, read) if talk is not None]
    if not usable:
        raise BadInput(f"{data.path} holds no conversation in which a question is answered, of {len(read):,} read")
    count = len(usable) if wanted.count is None else wanted.count
    if not 1 <= count <= len(usable):
        raise BadInput(f"{data.path} holds {len(usable):,} conversations that can be used, {count:,} were asked for")

    async def make(tools: Tools) -> Made:
        notes: dict[str, object] = {"conversations": count, "unusable": len(read) - len(usable)}
        if data.turns == "first":
            return await _first_turns(data, msgspec.structs.replace(wanted, count=count), usable, tools)
        tokenizer = tools.counting() if data.output_tokens is None else None

        async def one(index: int) -> tuple[Prompt, ...]:
            return await _turns(data, index, usable[index], tokenizer)

        made = await together(one, count, lambda done: tools.done(done, count))
        prompts = tuple(prompt for chain in made for prompt in chain)
        return Made(prompts, notes={**notes, "requests": len(prompts), "history": data.history})

    return make


async def _first_turns(data: ShareGpt, wanted: Wanted, usable: list[Talk], tools: Tools) -> Made:
    tokenizer = tools.counting() if data.output_tokens is None else tools.tokenizer
    count, left_out = wanted.needed(), 0
    prompts: list[Prompt] = []
    for start in range(0, len(usable), 64):
        batch = usable[start : start + 64]

        async def lengths(index: int, batch: list[Talk] = batch) -> tuple[int | None, int]:
            return await _lengths(data, tokenizer, batch[index].turns[0])

        for talk, (length, output) in zip(
            batch, await together(lengths, len(batch), lambda done: tools.done(len(prompts), count)), strict=True
        ):
            if length is not None and not _bounded(length, output, data.output_tokens is None):
                left_out += 1
            elif len(prompts) < count:
                expected = length if wanted.endpoint == "completions" else None
                prompts.append(
                    Prompt(
                        id=str(len(prompts)),
                        text=talk.turns[0][0],
                        output_tokens=output,
                        expected_prompt_tokens=expected,
                    )
                )
        if len(prompts) == count:
            break
    if not prompts:
        raise BadInput(
            f"{data.path} holds no first turn within vLLM's bounds ({_SHORTEST} to {_LONGEST_PROMPT} tokens)"
        )
    return Made(tuple(prompts), notes={"conversations": len(prompts), "out_of_bounds": left_out})


async def _lengths(data: ShareGpt, tokenizer: Tokenizer | None, turn: tuple[str, str]) -> tuple[int | None, int]:
    length = None if tokenizer is None else len(await tokenizer.ids(turn[0]))
    if data.output_tokens is not None or tokenizer is None:
        return length, data.output_tokens or 1
    return length, max(1, len(await tokenizer.ids(turn[1], special=False)))


def _bounded(prompt: int, output: int, recorded: bool) -> bool:
    short = prompt < _SHORTEST or (recorded and output < _SHORTEST)
    return not short and prompt <= _LONGEST_PROMPT and prompt + output <= _LONGEST


async def _turns(data: ShareGpt, number: int, talk: Talk, tokenizer: Tokenizer | None) -> tuple[Prompt, ...]:
    history: list[dict[str, object]] = list(talk.system)
    found: list[Prompt] = []
    for at, (question, answer) in enumerate(talk.turns):
        history.append({"role": "user", "content": question})
        own = data.history == "server" and at > 0
        tokens = data.output_tokens
        if tokenizer is not None:
            tokens = max(1, len(await tokenizer.ids(answer, special=False)))
        found.append(
            Prompt(
                id=f"{number}-{at}",
                messages=tuple(history[-1:] if own else history),
                output_tokens=tokens or 1,
                follows=found[-1].id if found else None,
                continues=own,
            )
        )
        history.append({"role": "assistant", "content": answer})
    return tuple(found)


def _usable(talk: _Talk) -> Talk | None:
    """The questions that are answered, up to the first thing that is neither; None without any."""
    said = [one.message() for one in talk.conversations]
    system = tuple(said[:1]) if said[0] is not None and said[0]["role"] == "system" else ()
    rest = said[len(system) :]
    turns: list[tuple[str, str]] = []
    for question, answer in zip(rest[::2], rest[1::2], strict=False):
        if question is None or answer is None or (question["role"], answer["role"]) != ("user", "assistant"):
            break
        turns.append((str(question["content"]), str(answer["content"])))
    return Talk(tuple(one for one in system if one is not None), tuple(turns)) if turns else None


def _read(path: Path) -> list[_Talk]:
    try:
        with traces.opened(path, "file of conversations") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, EOFError, ValueError) as problem:
        raise BadInput(f"{path} is damaged in its compression: {problem}; copy it again") from None
    if len(content) > _MOST_BYTES:
        raise BadInput(f"{path} is longer than {_MOST_BYTES >> 30} GiB; give a part of it")
    try:
        if content.lstrip()[:1] == b"[":
            return msgspec.json.decode(content, type=list[_Talk])
        return list(_lines(content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise BadInput(f'{path} is no list of {{"conversations": [...]}} in JSON: {str(problem)[:120]}') from None


def _lines(content: bytes) -> Iterator[_Talk]:
    decoder = msgspec.json.Decoder(_Talk)
    for line in content.splitlines():
        if line.strip():
            yield decoder.decode(line)


SET = DataSet(ShareGpt, _draft)
