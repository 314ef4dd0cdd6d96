"""What an A/B experiment is asked to do, and how it says where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from kvlab.core.plan import Ask
from kvlab.core.record import Load
from kvlab.load.datasets import Dataset

ArmName = Literal["a", "b"]
ORDER: tuple[ArmName, ...] = ("a", "b", "b", "a")
"""Counterbalanced: a drift that is linear in time falls on both arms alike."""


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
    prefix_rounds: int | None = 4
    """Rounds of the prefix step; None: no such step."""
    prefix_tokens: int = 700


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
