"""How llama-server turns `-c`, `-np`, `-kvu` and `-ub` into cells, streams and bytes.

Every formula was read in llama.cpp's source and reproduces the sizes its loader prints (tests/golden/llamacpp).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kvlab.core.errors import BadInput, nearest
from kvlab.core.layout import Layout, Row
from kvlab.core.storage import Storage
from kvlab.core.units import ceil_div, round_up

PAD = 256
"""Contexts and window caches are rounded up to this many cells."""
AUTO_SLOTS = 4
"""`-np -1`: four slots that share one cache."""
UBATCH = 512
MOST_SLOTS = 256
"""LLAMA_MAX_SEQ: "n_seq_max must be <= 256"."""
F32_BYTES = 4

STORAGES = {
    storage.name: storage
    for storage in (
        Storage("f16", block_bytes=2),
        Storage("bf16", block_bytes=2),
        Storage("f32", block_bytes=4),
        Storage("q8_0", block_bytes=34, block_values=32),
        Storage("q5_1", block_bytes=24, block_values=32),
        Storage("q5_0", block_bytes=22, block_values=32),
        Storage("q4_1", block_bytes=20, block_values=32),
        Storage("q4_0", block_bytes=18, block_values=32),
        Storage("iq4_nl", block_bytes=18, block_values=32),
    )
}


class Types(msgspec.Struct, frozen=True):
    """Storage of keys and of values."""

    key: Storage
    value: Storage

    @property
    def name(self) -> str:
        """ "q8_0", or "q8_0/q4_0" when keys and values differ."""
        return self.key.name if self.key == self.value else f"{self.key.name}/{self.value.name}"


def types(name: str) -> Types:
    """The storage of "q8_0" or "q8_0/q4_0" (keys/values); "auto" is f16. Raises BadInput naming the accepted types."""
    key, _, value = name.partition("/")
    return Types(_storage(key), _storage(value or key))


def _storage(name: str) -> Storage:
    storage = STORAGES.get("f16" if name == "auto" else name.lower())
    if storage is None:
        raise BadInput(f"llama.cpp has no cache type {name!r}; {nearest(name, STORAGES)}")
    return storage


class Cells(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of the caches of one server."""

    slots: int
    unified: bool
    n_ctx: int
    """Cells of the full-attention caches, all streams together."""
    n_ctx_seq: int
    """Cells of one stream, which is what one sequence may hold."""
    ubatch: int
    swa_full: bool
    own_streams: bool = False
    """A stream per slot although the slots share one cache: what pooled caches always have."""

    @property
    def streams(self) -> int:
        """Independent caches: one for all slots, or one per slot."""
        return 1 if self.unified and not self.own_streams else self.slots

    def of(self, row: Row) -> int:
        """Cells of one stream of this row's cache."""
        if row.pool > 1:
            return round_up(ceil_div(self.n_ctx_seq, row.pool), PAD)
        if row.window is None or self.swa_full:
            return self.n_ctx_seq
        windows = row.window * (self.slots if self.streams == 1 else 1)
        return round_up(min(self.n_ctx_seq, windows + self.ubatch), PAD)


def cells(n_ctx: int, slots: int, *, unified: bool, ubatch: int = UBATCH, swa_full: bool = False) -> Cells:
    """The caches of `-c n_ctx -np slots`. Without `unified` the total can grow past `n_ctx`: each slot is padded."""
    padded = round_up(n_ctx, PAD)
    per_slot = padded if unified else round_up(padded // slots, PAD)
    total = padded if unified else per_slot * slots
    return Cells(
        slots=slots, unified=unified, n_ctx=total, n_ctx_seq=max(PAD, per_slot), ubatch=ubatch, swa_full=swa_full
    )


def stored(layout: Layout, shape: Cells) -> tuple[Layout, Cells]:
    """Layout and shape as llama.cpp's caches have them."""
    return with_index_values(layout), msgspec.structs.replace(shape, own_streams=layout.pooled)


def with_index_values(layout: Layout) -> Layout:
    """The layout with a value beside each key of an indexer, as wide as attention's.

    llama.cpp makes the indexer's cache like that of attention; latent attention and hybrids keep keys alone.
    """
    plain = next(iter(layout.only("full")), None)
    if plain is None or any(layout.only("latent", "state")):
        return layout
    rows = tuple(
        msgspec.structs.replace(row, v_dim=plain.v_dim) if row.kind == "indexer" and not row.v_dim else row
        for row in layout.rows
    )
    return msgspec.structs.replace(layout, rows=rows)


def check_pools(model: str, layout: Layout) -> None:
    """Raises BadInput for pooled caches that llama.cpp stores in a way of its own, and for cross attention."""
    if any(layout.only("cross")):
        raise BadInput(f"llama-server has no model with cross attention to an encoder ({model}); plan it for vllm")
    if any(row.tail is not None and row.tail.name != "window" for row in layout.rows):
        raise BadInput(f"llama.cpp stores the pooled keys of {model} in a way of its own; plan the .gguf file")


def without_flash(layout: Layout, storage: Types) -> Layout:
    """The layout as it is stored without flash attention: values of every layer are as wide as the widest.

    Raises BadInput for quantised values, which then cannot be read.
    """
    attention = [row for row in layout.rows if row.kind != "state" and row.v_dim]
    if storage.value.block_values > 1 and attention:
        raise BadInput(f"llama.cpp reads {storage.value.name} values with flash attention only; leave it on")
    widest = max((row.heads * row.v_dim for row in attention), default=0)
    rows = tuple(
        msgspec.structs.replace(row, v_dim=ceil_div(widest, row.heads)) if row in attention else row
        for row in layout.rows
    )
    return msgspec.structs.replace(layout, rows=rows)


def check_blocks(rows: list[Row], storage: Types) -> None:
    """Raises BadInput where a head does not fill whole blocks, as llama.cpp does with flash attention."""
    for row in rows:
        for part, types_of, values in (("keys", storage.key, row.k_dim), ("values", storage.value, row.v_dim)):
            if values % types_of.block_values:
                raise BadInput(
                    f"{types_of.name} stores {types_of.block_values} values a block: llama.cpp refuses it for {part} of"
                    f" {values} values; choose f16"
                )


def part_bytes(rows: list[Row], shape: Cells, storage: Types) -> tuple[int, int]:
    """Bytes of keys and of values of the caches of `rows`, all streams."""
    key = sum(shape.of(r) * len(r.layers) * storage.key.row_bytes(r.heads * r.k_dim) for r in rows) * shape.streams
    value = sum(shape.of(r) * len(r.layers) * storage.value.row_bytes(r.heads * r.v_dim) for r in rows) * shape.streams
    return key, value


def state_bytes(rows: list[Row], slots: int, part: str | None = None) -> int:
    """Bytes of recurrent state, or of its tensors of one name, always f32, whatever the context."""
    values = sum(
        len(row.layers) * tensor.values for row in rows for tensor in row.state if part is None or tensor.name == part
    )
    return values * F32_BYTES * slots


def tail_bytes(rows: list[Row], slots: int) -> int:
    """Bytes of what waits to be compressed, in f32."""
    return slots * F32_BYTES * sum(len(row.layers) * row.tail.values for row in rows if row.tail is not None)


def total_bytes(layout: Layout, shape: Cells, storage: Types) -> int:
    """Bytes of all caches and states of one server."""
    layout, shape = stored(layout, shape)
    attention = [row for row in layout.rows if row.kind != "state"]
    state = [row for row in layout.rows if row.kind == "state"]
    return (
        sum(part_bytes(attention, shape, storage))
        + state_bytes(state, shape.slots)
        + tail_bytes(attention, shape.slots)
    )


def most_slots(layout: Layout, storage: Types, pool: int, shape: Cells) -> int:
    """The most slots of `shape`'s context per slot whose caches fit into `pool` bytes; 0 when none does."""
    return _largest(MOST_SLOTS, lambda n: total_bytes(layout, _with_slots(shape, n), storage) <= pool)


def _with_slots(shape: Cells, slots: int) -> Cells:
    total = shape.n_ctx_seq * slots
    return cells(total, slots, unified=shape.unified, ubatch=shape.ubatch, swa_full=shape.swa_full)


def longest_context(layout: Layout, storage: Types, pool: int, shape: Cells, native: int | None) -> int:
    """The largest `-c` (a multiple of 256 per stream) whose caches fit into `pool` bytes; 0 when none does.

    Up to the model's context for every slot, whether the slots share one cache or not.
    """
    limit = ceil_div(native or 1 << 26, PAD) * shape.slots
    step = PAD * (1 if shape.unified else shape.slots)

    def fits(count: int) -> bool:
        asked = cells(count * step, shape.slots, unified=shape.unified, ubatch=shape.ubatch, swa_full=shape.swa_full)
        return total_bytes(layout, asked, storage) <= pool

    return _largest(ceil_div(limit * PAD, step), fits) * step


def _largest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest count in 0..limit for which the monotone predicate holds (0 is taken to hold)."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
