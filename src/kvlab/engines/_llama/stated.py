"""What a llama-server of a plan takes, and will state in its log: each cache's cells, layers, bytes and types."""

from __future__ import annotations

from kvlab.core.layout import Layout, Row
from kvlab.core.model import Model
from kvlab.core.plan import Ask, Expected, LedgerLine, computed
from kvlab.core.units import HALF_DIGIT, MIB
from kvlab.engines._llama.cells import (
    F32_BYTES,
    Cells,
    Types,
    part_bytes,
    state_bytes,
    stored,
    tail_bytes,
    types,
    with_index_values,
)

_PRINTED = HALF_DIGIT * MIB + 1
"""Half of the last digit that the log prints (two decimals of a MiB), and a byte for what lies half way."""
_SINGLE = 2.0**-24
"""The log divides single-precision floats."""


def groups(layout: Layout) -> dict[str, list[Row]]:
    """Rows by the cache object that llama.cpp makes of them, in the order in which it prints them."""
    groups: dict[str, list[Row]] = {}
    for row in layout.rows:
        name: str = row.kind if row.kind in ("state", "indexer") else "window" if row.window else "full"
        if row.pool > 1 and row.kind == "latent":
            name = f"pool{row.pool}"
        groups.setdefault(name, []).append(row)
    return groups


def token_bytes(model: Model, layout: Layout, dtype: str, ask: Ask) -> int:
    """Bytes that one token adds over all layers, on one device."""
    storage, layout = types(dtype), with_index_values(layout)
    return sum(len(row.layers) * row.layer_bytes(storage.key, storage.value) for row in layout.rows)


def sequence_bytes(model: Model, layout: Layout, dtype: str, ask: Ask, tokens: int) -> int:
    """Bytes that a sequence of `tokens` keeps, before cells are padded and micro-batches added."""
    storage, layout = types(dtype), with_index_values(layout)
    kept = sum(len(row.layers) * row.kept(tokens) * row.layer_bytes(storage.key, storage.value) for row in layout.rows)
    return kept + state_bytes(list(layout.only("state")), 1) + tail_bytes(list(layout.rows), 1)


def cache_lines(layout: Layout, shape: Cells, storage: Types) -> list[LedgerLine]:
    """The caches as lines of the ledger, exact."""
    lines, (layout, shape) = [], stored(layout, shape)
    for name, rows in groups(layout).items():
        if name == "state":
            size = state_bytes(rows, shape.slots)
            because = f"recurrent state in f32, one per slot, {shape.slots} slots, whatever the context"
        else:
            size = sum(part_bytes(rows, shape, storage))
            because = (
                f"{sum(len(r.layers) for r in rows)} layers x {shape.of(rows[0]):,} cells x {shape.streams} streams"
                f" in {storage.name}"
            )
            if waiting := tail_bytes(rows, shape.slots):
                size += waiting
                because += ", and what waits to be compressed in f32"
        lines.append(computed(f"kv_{name}", size, because))
    return lines


def buffers(model: Model, shape: Cells) -> list[LedgerLine]:
    """Buffers beside the caches; none when the model states no vocabulary or width."""
    if model.vocab is None or model.hidden is None:
        return []
    # llama.cpp has no larger micro-batch than its whole context
    ubatch = min(shape.ubatch, shape.n_ctx)
    low = ubatch * model.hidden * F32_BYTES * 8
    high = ubatch * model.vocab * F32_BYTES + low
    return [
        computed("output_buffer", _output_bytes(model, shape), f"{shape.slots} slots x {model.vocab:,} logits x 4 B"),
        LedgerLine(
            name="compute_buffer",
            bytes=round((low * high) ** 0.5),
            kind="estimated",
            low=low,
            high=high,
            because="activations of one micro-batch; the high end reserves logits for all of its tokens",
        ),
    ]


def _output_bytes(model: Model, shape: Cells) -> int:
    return shape.slots * (model.vocab or 0) * F32_BYTES


def expects(model: Model, layout: Layout, shape: Cells, storage: Types) -> list[Expected]:
    """Every number and word that the log states of these caches."""
    layout, shape = stored(layout, shape)
    rows = [
        _count("n_ctx", shape.n_ctx, "tokens", "-c, rounded up to 256 per stream"),
        _count("n_ctx_seq", shape.n_ctx_seq, "tokens", "one stream's share of -c"),
        _count("slots", shape.slots, "slots", "-np"),
        _count(
            "n_ctx_slot", min(shape.n_ctx_seq, model.context or shape.n_ctx_seq), "tokens", "what one request may hold"
        ),
    ]
    for name, group in groups(layout).items():
        if name == "state":
            rows += _state(group, shape)
            continue
        key, value = part_bytes(group, shape, storage)
        because = f"cells x layers x row bytes of {storage.name}"
        rows += [
            _count(f"kv_{name}_cells", shape.of(group[0]), "cells", "context, window and micro-batch, padded to 256"),
            _count(f"kv_{name}_layers", _layers(model, layout, group), "layers", "layers that own such a cache"),
            _bytes(f"kv_{name}_k_bytes", key, because),
            _bytes(f"kv_{name}_v_bytes", value, because),
            _bytes(f"kv_{name}_bytes", key + value, because),
            _word(f"kv_{name}_k_type", storage.key.name, "--cache-type-k"),
            _word(f"kv_{name}_v_type", storage.value.name, "--cache-type-v"),
        ]
        if waiting := tail_bytes(group, shape.slots):
            rows.append(_bytes(f"kv_{name}_tail_bytes", waiting, "keys and scores that wait to be compressed, in f32"))
    if model.vocab is not None:
        rows.append(_bytes("output_buffer_bytes", _output_bytes(model, shape), "slots x vocabulary x 4 B"))
    return rows + [_estimated(line) for line in buffers(model, shape) if line.kind == "estimated"]


def _layers(model: Model, layout: Layout, group: list[Row]) -> int:
    """Layers as the log counts them: where one cache holds them all, also those without KV heads."""
    own = sum(len(row.layers) for row in group)
    alone = not layout.windowed and not any(layout.only("state", "indexer"))
    return max(own, model.layers) if alone else own


def _state(rows: list[Row], shape: Cells) -> list[Expected]:
    whole, inputs = state_bytes(rows, shape.slots), state_bytes(rows, shape.slots, "conv")
    return [
        _bytes("kv_state_bytes", whole, "f32 state of every slot"),
        _bytes("kv_state_r_bytes", inputs, "inputs that convolutions and token shifts look back on"),
        _bytes("kv_state_s_bytes", whole - inputs, "recurrent matrices"),
    ]


def _bytes(name: str, value: int, because: str) -> Expected:
    tolerance = _PRINTED + value * _SINGLE
    return Expected(name=name, value=value, unit="bytes", kind="computed", tolerance=tolerance, because=because)


def _word(name: str, value: str, flag: str) -> Expected:
    return Expected(name=name, value=value, unit="word", kind="computed", tolerance=0, because=f"of {flag}")


def _estimated(line: LedgerLine) -> Expected:
    """A line of the ledger that the log states, anywhere in its range."""
    return Expected(
        name=f"{line.name}_bytes",
        value=line.bytes,
        unit="bytes",
        kind="estimated",
        tolerance=max(line.high - line.bytes, line.bytes - line.low) + _PRINTED,
        because=f"it is an estimate: {line.because}",
        low=line.low,
        high=line.high,
    )


def _count(name: str, value: int, unit: str, because: str) -> Expected:
    return Expected(name=name, value=value, unit=unit, kind="computed", tolerance=0, because=because)
