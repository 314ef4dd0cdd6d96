"""Layers as vLLM's cache specs see them: page size, block size, and the blocks that one request takes."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.layout import Row
from kvlab.core.units import ceil_div


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What a request may hold: `context` tokens, and `in_flight` tokens scheduled beyond a window."""

    context: int
    in_flight: int
    dcp: int = 1
    retained: int = 0
    """Tokens that windows keep beyond their size, for a chain of draft layers."""


Stored = Literal["heads", "latent", "indexer", "state"]


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that keep the same thing for equally long. A page is one block of one layer, in bytes."""

    keeps: Literal["all", "window", "chunk", "state", "ring", "cross"]
    stored: Stored
    layers: tuple[int, ...]
    token_bytes: int
    block_size: int
    page: int
    window: int | None = None
    fixed: int | None = None
    """Blocks of one request whatever its length (recurrent state, an encoder's output)."""
    stride: int = 1
    """Bytes of which the distance of two blocks is a multiple, where blocks hold pages of many sizes."""

    def blocks(self, room: Room) -> int:
        """Blocks that one request takes at most (admission), as max_memory_usage_bytes / page of vLLM's spec."""
        if self.fixed is not None:
            return self.fixed
        if self.window is None or self.keeps == "all":
            return ceil_div(ceil_div(room.context, room.dcp), self.block_size)
        if self.keeps == "chunk":
            return ceil_div(min(self.window + room.in_flight, room.context), self.block_size)
        kept = min(self.window - 1 + room.retained + room.in_flight, room.context)
        return ceil_div(kept, self.block_size) + 1  # the window need not start on a block boundary

    def like(self) -> tuple[object, ...]:
        """What must be equal for layers to share a bucket."""
        return self.keeps, self.stored, self.token_bytes, self.block_size, self.page, self.window


def attention_spec(row: Row, layers: tuple[int, ...], token_bytes: int, block_size: int) -> Spec:
    """The spec of `layers` of `row`, before pages are unified."""
    keeps: dict[str, Literal["window", "chunk", "cross"]] = {"window": "window", "chunked": "chunk", "cross": "cross"}
    stored: Stored = "latent" if row.kind == "latent" else "indexer" if row.kind == "indexer" else "heads"
    return Spec(
        keeps=keeps.get(row.kind, "all"),
        stored=stored,
        layers=layers,
        token_bytes=token_bytes,
        block_size=block_size,
        page=block_size * token_bytes,
        window=row.window,
        fixed=None if row.encoder is None else ceil_div(row.encoder, block_size),
    )


def state_spec(row: Row, page: int, block_size: int, blocks: int | None) -> Spec:
    """The spec of recurrent layers: a page holds one state, and is padded to `page`, the attention page."""
    return Spec(
        keeps="state", stored="state", layers=row.layers, token_bytes=0, block_size=block_size, page=page, fixed=blocks
    )


def without_windows(specs: list[Spec]) -> list[Spec]:
    """Sliding and chunked layers as full attention: what vLLM does when the hybrid cache manager is off.

    Only when a full layer exists; a model of sliding layers alone keeps its windows.
    """
    if all(spec.keeps != "all" for spec in specs):
        return specs
    return [
        spec if spec.keeps == "state" else msgspec.structs.replace(spec, keeps="all", window=None) for spec in specs
    ]
