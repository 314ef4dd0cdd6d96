"""A workload as columns: when requests came, how long they were, and the blocks that their prompts are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from kvlab.core.columns import offsets, places
from kvlab.core.model import Doubt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Ids = NDArray[np.int32] | NDArray[np.int64]


Counted = Literal["log", "tokenizer", "estimate"]
"""Who counted the prompt tokens: the log's writer, the model's tokenizer, or a rule of thumb."""
COUNTED: tuple[Counted, ...] = ("log", "tokenizer", "estimate")
"""The same, the least sure one last."""
MOST_SHOWN = 5
"""Rows that were left out and are named; the others are counted."""


class BadRow(msgspec.Struct, frozen=True):
    """A row that was left out: where it stands, and why."""

    where: str
    why: str


class LeftOutRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that could not be used: how many, and the first few."""

    count: int = 0
    first: tuple[BadRow, ...] = ()


class Sampling(NamedTuple):
    """Which blocks of a file are kept: those whose hash lies below `rate`, all references of a block or none."""

    rate: float
    """Above 0, below 1."""
    part: int = 0
    """The file's number: where ids mean something only within their file, it goes into their hashes."""


class Sample(NamedTuple):
    """What the requests held before their blocks were sampled."""

    rate: float
    counts: Ints
    """Blocks of each request."""
    last_short: Ints
    """Tokens that each request's last block lacks of a full one."""
    occurring: Ints | None = None
    """occurring[n]: blocks that are referred to n times; None where files that share blocks were read apart."""


class Blocks(NamedTuple):
    """Prompts as runs of blocks of `size` tokens: equal ids mean equal tokens up to and including that block.

    Ids lie from 0 to below `bound`. Request r holds ids[offsets[r]:offsets[r + 1]]; `last_short[r]` tokens lack of a
    full last block.
    """

    ids: Ids
    offsets: Ints
    bound: int
    size: int
    last_short: Ints
    own: bool = False
    """Whether ids mean something only within their file."""
    sample: Sample | None = None
    """Where only some blocks are here: a request's ids are those, and its last_short is 0 if its last block is not."""


class Trace(NamedTuple):
    """Requests in the order in which they came. `arrivals`: seconds on the file's clock; None where it has none."""

    format: str
    inputs: Ints
    """Prompt tokens of each request."""
    outputs: Ints | None
    arrivals: Floats | None
    blocks: Blocks | None
    left_out: LeftOutRows
    clock_jumps: int = 0
    """Rows whose time lies before that of the row above."""
    first_jump: int = 0
    """Which request is the first of them, from 1; 0: none is, or several files were merged."""
    doubts: tuple[Doubt, ...] = ()
    counted: Counted = "log"
    services: Floats | None = None
    """Seconds from each request's arrival to the end of its answer, where the log states them."""


def in_order(trace: Trace, order: Ints) -> Trace:
    """The trace with request order[0] first, then order[1] ..., each with its blocks."""
    import numpy as np

    blocks = trace.blocks
    if blocks is not None:
        counts = np.diff(blocks.offsets)[order]
        sample = blocks.sample
        if sample is not None:
            sample = sample._replace(counts=sample.counts[order], last_short=sample.last_short[order])
        blocks = blocks._replace(
            ids=blocks.ids[places(blocks.offsets[order], counts)],
            offsets=offsets(counts),
            last_short=blocks.last_short[order],
            sample=sample,
        )
    return trace._replace(
        inputs=trace.inputs[order],
        outputs=None if trace.outputs is None else trace.outputs[order],
        arrivals=None if trace.arrivals is None else trace.arrivals[order],
        services=None if trace.services is None else trace.services[order],
        blocks=blocks,
    )


class Reading(NamedTuple):
    """How the text of a request log becomes tokens, and tokens become blocks; logs of ids and lengths need none."""

    tokenizer: str | None = None
    """tokenizer.json, a folder with one, a GGUF file, or a model on the Hub."""
    estimate: bool = False
    """Count four bytes as a token where there is no tokenizer."""
    block_size: int = 16
    """Tokens of a block; what the last block lacks is not cached (as vLLM does)."""
    salt: bytes = b""
    """Goes into every hash, so that a block's id tells nothing of its text to anyone who has not the salt."""
    processes: int = 0
    """Processes that read a large log; 0: one a CPU."""
    sampling: Sampling | None = None
    """None: all blocks."""


class Logged(NamedTuple):
    """One request as a log states it. It holds text: it never leaves the process that read it."""

    where: str
    time: float | None = None
    """Seconds on the log's clock."""
    messages: list[dict[str, object]] | None = None
    tools: list[dict[str, object]] | None = None
    prompt: str | None = None
    ids: list[int] | None = None
    """The prompt as the engine saw it."""
    prompt_tokens: int | None = None
    answer: str | None = None
    answer_tokens: int | None = None
    record: dict[str, object] | None = None
    service: float | None = None
    """Seconds from its arrival to the end of its answer."""
    """The log's own record, where it is of this request alone."""


class Unusable(Exception):
    """A row of a log that cannot be used; the message says why, without its text."""


class TextFormat(NamedTuple):
    """A log of requests with their text or token ids."""

    name: str
    raw: Callable[[Path], Iterator[tuple[str, object]]]
    """(where, the row as it stands); an Unusable stands for a row that is none."""
    requests: Callable[[str, object], list[Logged]]
    """Raises Unusable."""


class TraceReader(NamedTuple):
    """A format of trace files: one file in `traces/`."""

    title: str
    recognises: Callable[[str], bool]
    """Whether a file that begins with this text (at most 64 KiB, from its first line that is not empty) has the format.
    """
    read: Callable[[Path, Reading], Trace]
    """Raises BadInput when no row of the file can be used."""
    text: TextFormat | None = None
    """The requests themselves, where the format holds them."""
