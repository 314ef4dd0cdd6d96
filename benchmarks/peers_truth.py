"""What one sequence keeps, by references that are not kvlab: the specs of vLLM's own planning code, and formulas."""

from __future__ import annotations

import gzip
import json
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

GIB = 1 << 30
_ITEM = {"bfloat16": 2, "float16": 2, "float32": 4}
_PLAIN = ("bfloat16", "float16")
# Caches whose size per token depends on an engine's packing: no reference for BF16.
_PACKED = ("CircularBufferSpec", "SlidingWindowMLASpec")


def references(table: Path | None, formulas: Path | None) -> dict[tuple[str, int], list[float]]:
    """Bytes of one sequence by (model id in lower case, tokens), each as the references give it for BF16.

    A state may be in the dtype that vLLM chooses or in float32, an indexer's key as vLLM packs it or in BF16: a tool
    that agrees with any of them is right.
    """
    found: dict[tuple[str, int], list[float]] = {}
    for model, specs in _specs(table).items():
        for tokens in (1024, 2048, 4096, 8192):
            found[model, tokens] = [
                sum(_layer_bytes(spec, tokens, wide_state, wide_index) * spec["layers"] for spec in specs)
                for wide_state, wide_index in product((False, True), repeat=2)
            ]
    for row in map(json.loads, formulas.read_text().splitlines()) if formulas else ():
        if row.get("precision") == "bf16_fp16" and "total_gib" in row:
            for model, tokens in list(found):
                if model.rpartition("/")[2] == row["model"] and tokens == row["tokens"]:
                    found[model, tokens].append(row["total_gib"] * GIB)
            found.setdefault((row["model"], row["tokens"]), [row["total_gib"] * GIB])
    return found


def _specs(table: Path | None) -> dict[str, list[dict[str, Any]]]:
    """The specs of each model in a plain 16-bit cache on one GPU."""
    found: dict[str, list[dict[str, Any]]] = {}
    if table is None:
        return found
    with gzip.open(table, "rt") as lines:
        for row in map(json.loads, lines):
            specs = row.get("per_layer_specs")
            alone = row["tp"] == row["pp"] == row["dcp"] == 1 and not row["extra"]
            if specs and alone and row["model"].lower() not in found and all(map(_plain, specs)):
                found[row["model"].lower()] = specs
    return found


def _plain(spec: dict[str, Any]) -> bool:
    padded = "page_size_padded" in spec and spec["type"] != "MambaSpec"
    if spec["type"] in _PACKED or spec.get("model_version") or padded:
        return False
    return spec["type"] == "MambaSpec" or spec["dtype"] in _PLAIN or spec.get("cache_role") == "indexer"


def _layer_bytes(spec: dict[str, Any], tokens: int, wide_state: bool, wide_index: bool) -> float:
    """Bytes of one layer, without the padding of pages."""
    if spec["type"] == "MambaSpec":
        sizes = [prod(shape) for shape in spec["shapes"]]
        items = [_ITEM[dtype] for dtype in spec["dtypes"]]
        if wide_state and len(items) > 1:
            items[-1] = 4
        return float(sum(size * item for size, item in zip(sizes, items, strict=True)))
    per_token = spec["page_size_bytes"] / spec["block_size"]
    if spec.get("cache_role") == "indexer" and wide_index:
        per_token = 2 * (128 if spec["dtype"] == "uint8" else spec["head_size"])
    return float(per_token * min(tokens, spec.get("sliding_window") or spec.get("attention_chunk_size") or tokens))
