"""What a model keeps per token and per sequence, before any engine carves it into blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from kvlab.core.storage import Storage
from kvlab.core.units import ceil_div

RowKind = Literal["full", "window", "chunked", "latent", "indexer", "cross", "state"]


class State(msgspec.Struct, frozen=True):
    """A recurrent tensor that one layer keeps per sequence, whatever the context."""

    name: str
    values: int
    """Values of one layer and one sequence, all ranks together."""
    dtype: str | None = None
    """The dtype that the config asks for ("float32"); None leaves it to the engine."""
    taps: int | None = None
    """Tokens among `values`, each of values / taps (inputs of a convolution, keys waiting to be compressed)."""
    groups: int | None = None
    """Groups among `values` that heads share; tensor-parallel ranks split them, or each hold a copy of the only one."""
    group_values: int = 0
    """Values of one group."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that keep the same thing.

    Per token: `heads` keys of `k_dim` values and `heads` values of `v_dim` values ("latent" keeps one key, and every
    tensor-parallel rank a copy of it). Per sequence: `state`. A `window` bounds the tokens kept ("window": the last
    `window`; "chunked": those of the running chunk).
    """

    kind: RowKind
    layers: tuple[int, ...]
    heads: int = 0
    k_dim: int = 0
    v_dim: int = 0
    window: int | None = None
    state: tuple[State, ...] = ()
    pool: int = 1
    """Tokens that are compressed into one cached entry of k_dim values."""
    encoder: int | None = None
    """Tokens of an encoder's output (an image, some sound) that a request keeps, whatever its own length ("cross")."""
    tail: State | None = None
    """What waits to be compressed: the last tokens ("window"), or those of the running entry ("ring")."""

    def heads_on(self, tp: int) -> int:
        """KV heads on one of `tp` ranks; fewer heads than ranks are replicated."""
        return self.heads if self.kind in ("latent", "indexer") else max(1, self.heads // tp)

    def values_per_token(self, tp: int = 1) -> int:
        """Cached values that one token adds on one rank, in all layers of the row."""
        if self.kind in ("state", "cross"):
            return 0
        return len(self.layers) * ceil_div(self.heads_on(tp) * (self.k_dim + self.v_dim), self.pool)

    def layer_bytes(self, key: Storage, value: Storage, tp: int = 1) -> int:
        """Bytes that one token adds in one layer on one rank."""
        if self.kind == "state":
            return 0
        heads = self.heads_on(tp)
        return ceil_div(key.row_bytes(heads * self.k_dim) + value.row_bytes(heads * self.v_dim), self.pool)

    def kept(self, tokens: int) -> int:
        """Tokens that stay cached of a sequence of `tokens`, or of what an encoder made for it."""
        if self.encoder is not None:
            return self.encoder
        return min(tokens, self.window) if self.window else tokens


class Layout(msgspec.Struct, frozen=True):
    """All rows of a model. Layers in no row share another layer's cache, or keep none."""

    rows: tuple[Row, ...]
    draft: tuple[Row, ...] = ()
    """Rows of the checkpoint's own draft (MTP) layers, numbered after the trunk's; kept only by engines that draft."""

    def only(self, *kinds: RowKind) -> Iterable[Row]:
        """Rows of the given kinds, in order."""
        return (row for row in self.rows if row.kind in kinds)

    @property
    def pooled(self) -> bool:
        """Whether any layer compresses several tokens into one entry."""
        return any(row.pool > 1 for row in self.rows)

    @property
    def windowed(self) -> bool:
        """Whether any layer bounds what it keeps."""
        return any(row.window for row in self.rows)
