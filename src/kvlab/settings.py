"""What an A/B experiment is asked to do, and how it says where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from kvlab.core.plan import Ask
from kvlab.core.record import Load
from kvlab.load.datasets import Dataset

ArmName = Literal["a", "b"]
MOST_BLOCKS = 8
"""Blocks of an experiment that stops by itself, unless said otherwise."""
_BLOCK: tuple[ArmName, ...] = ("a", "b", "b", "a")
_TURNED: tuple[ArmName, ...] = ("b", "a", "a", "b")


def order(blocks: int) -> tuple[ArmName, ...]:
    """The arms of the runs: A B B A, B A A B, A B B A ...

    Counterbalanced in every block, so a drift that is linear in time falls on both arms alike; turned over in every
    second one, so that what always comes first in a block does too.
    """
    return tuple(arm for block in range(blocks) for arm in (_TURNED if block % 2 else _BLOCK))


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment, complete: what is in lab.json."""

    schema: Literal["kvlab/lab@1"] = "kvlab/lab@1"
    title: str
    source: str
    a: Ask
    b: Ask
    load: Load
    dataset: Dataset
    warm_up: int
    quality_prompts: str | None = None
    """A file of prompts; None: the ones that kvlab ships."""
    quality_tokens: int | None = 64
    """Longest answer in tokens; None: no quality step."""
    quality_concurrency: int = 1
    parts: tuple[str, ...] = ("agreement",)
    """Parts of the quality gate (`kvlab quality --list`)."""
    prefix_rounds: int | None = 4
    """Rounds of the prefix step; None: no such step."""
    prefix_tokens: int = 700
    blocks: int = 1
    """Blocks of four runs; with `sequential` the most of them."""
    sequential: bool = False
    """Look after every block, and stop as soon as the verdict is settled."""
    against_itself: bool = False
    """Both arms are one configuration: what the noise of this machine under this load is."""


class Step(msgspec.Struct, frozen=True):
    """Where an experiment is, for a progress display: a step of `steps`, and how far into it."""

    number: int
    steps: int
    text: str
    done: int = 0
    total: int = 0
    phase: str = ""
    """What is counted by `done` and `total`, when a step counts several things."""


OnStep = Callable[[Step], None]
