"""What a data set is asked for, what it works with, and what it makes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from kvlab.core.errors import BadInput
from kvlab.load.exact import Tokenizer
from kvlab.load.spec import Endpoint, Prompt

MOST_PROMPTS = 10_000_000
"""They are made before the first is sent, and kept."""


class Wanted(msgspec.Struct, frozen=True):
    """How many prompts (None: all that a file holds), the seed, and where they go."""

    count: int | None
    seed: int
    endpoint: Endpoint

    def needed(self) -> int:
        """The number of prompts. Raises BadInput when none is stated, or one that no memory holds."""
        if self.count is None or self.count < 1:
            raise BadInput("a number of prompts is needed, at least 1")
        if self.count > MOST_PROMPTS:
            raise BadInput(f"{self.count:,} prompts are more than are made at once, {MOST_PROMPTS:,}")
        return self.count


class Tools(NamedTuple):
    """What is there once the server has answered."""

    tokenizer: Tokenizer | None
    why_not: BadInput | None
    """Why there is no tokenizer."""
    done: Callable[[int, int], None]
    """Told (made, wanted)."""

    def counting(self) -> Tokenizer:
        """The engine's tokenizer. Raises BadInput when it has none that kvlab knows."""
        if self.tokenizer is None:
            raise self.why_not or BadInput("the server's tokenizer is not known")
        return self.tokenizer


class Made(msgspec.Struct, frozen=True):
    """Prompts, and what goes with them."""

    prompts: tuple[Prompt, ...]
    arrivals: tuple[float, ...] | None = None
    """When each prompt that follows no other is due, in seconds from the start, in order."""
    warm_up_tokens: tuple[int, int] | None = None
    """Prompt and answer tokens of warm-up requests of the same size; None: a plain sentence will do."""
    notes: dict[str, object] = {}
    """What the result file says about the data."""


Draft = Callable[[Tools], Awaitable[Made]]


class DataSet(NamedTuple):
    """A file of `sets/`: how a dataset of the type `kind` becomes prompts.

    `draft` looks at the request and reads files, before there is a server; what it returns makes the prompts.
    """

    kind: type[msgspec.Struct]
    draft: Callable[[Any, Wanted], Draft]
