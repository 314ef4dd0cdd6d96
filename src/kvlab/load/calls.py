"""Prompts as requests ready to be sent, the turns of a conversation together."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from kvlab.core.errors import BadInput
from kvlab.load.client import Call
from kvlab.load.reply import answerable, request_body
from kvlab.load.spec import LoadSpec, Prompt

Chain = tuple[Call, ...]
"""Requests of which each is sent when the one before it was answered; most chains hold one."""


def chains(prompts: Sequence[Prompt], spec: LoadSpec, model: str) -> list[Chain]:
    """The requests in order, their bodies encoded. Raises BadInput for prompts that cannot be sent."""
    doomed = _doomed(len(prompts), spec)
    found: list[list[Call]] = []
    previous: Prompt | None = None
    for index, prompt in enumerate(prompts):
        call = _call(index, prompt, spec, model)
        if index in doomed:
            call = msgspec.structs.replace(call, cancel_after=spec.cancel_after)
        if prompt.follows is None:
            found.append([call])
        elif previous is None or previous.id != prompt.follows:
            raise BadInput(f"prompt {prompt.id} follows {prompt.follows}, which does not stand just before it")
        else:
            found[-1].append(call)
        previous = prompt
    return [tuple(chain) for chain in found]


def conversations(prompts: Sequence[Prompt]) -> list[tuple[Prompt, ...]]:
    """The prompts with those that follow one another together."""
    found: list[list[Prompt]] = []
    for prompt in prompts:
        if prompt.follows is None or not found:
            found.append([prompt])
        else:
            found[-1].append(prompt)
    return [tuple(one) for one in found]


def _doomed(count: int, spec: LoadSpec) -> frozenset[int]:
    """The requests that the client will give up: the same ones for the same seed."""
    return frozenset(random.Random(f"{spec.seed} cancelled").sample(range(count), round(count * spec.cancel_share)))


def _call(index: int, prompt: Prompt, spec: LoadSpec, model: str) -> Call:
    chat = spec.endpoint == "chat"
    if prompt.messages is not None and not chat:
        raise BadInput(f"prompt {prompt.id} is a list of messages; it needs the chat endpoint")
    if prompt.token_ids is not None and chat:
        raise BadInput(f"prompt {prompt.id} is a list of token ids; it needs the completions endpoint")
    if prompt.continues and not chat:
        raise BadInput(f"prompt {prompt.id} goes on with a conversation; it needs the chat endpoint")
    body = request_body(prompt, model, chat)
    if spec.temperature is not None:
        body["temperature"] = spec.temperature
    if spec.ignore_eos:
        body["ignore_eos"] = True
    whole = body | prompt.more | spec.extra
    encoded = msgspec.json.encode({name: value for name, value in whole.items() if value is not None})
    return Call(
        index=index,
        prompt_id=prompt.id,
        body=encoded,
        asked=answerable(prompt, encoded),
        continues=prompt.continues,
    )
