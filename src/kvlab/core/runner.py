"""Load generators of others: what one is asked for, and what kvlab must know to run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A load in the words that all load generators share: random prompts of one length, answers of one length.

    `concurrency` None is an open loop at `rate` requests a second; `rate` None a closed one.
    """

    url: str
    model: str
    tokenizer: str
    """A model folder or Hub id: the generators make their prompts with a tokenizer of their own."""
    endpoint: Literal["completions", "chat"] = "completions"
    num_prompts: int
    input_tokens: int
    output_tokens: int
    concurrency: int | None = None
    rate: float | None = None
    seed: int = 0
    warm_up: int = 0
    ignore_eos: bool = True
    keyed: bool = False
    """Whether the server wants an API key. The key itself is no part of this: it goes by the environment."""


def no_files(task: Task) -> dict[str, str]:
    """Most generators are told everything by their arguments."""
    return {}


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """One load generator. It runs in an empty folder: `files` are written there first, and `result` appears there.

    `program` is sought on PATH; `modules` (the first that is installed) make it a Python that runs one with -m.
    `packages` are the names under which its version may be installed. `key` names the variable that it takes an API
    key from. `refuses` says what of a task it cannot do; None when it can.
    """

    name: str
    title: str
    program: str
    modules: tuple[str, ...] = ()
    packages: tuple[str, ...]
    argv: Callable[[Task], tuple[str, ...]]
    files: Callable[[Task], dict[str, str]] = no_files
    result: str
    key: str = "OPENAI_API_KEY"
    refuses: Callable[[Task], str | None] = lambda task: None
