"""Weight bytes from safetensors headers, without reading a weight. https://github.com/huggingface/safetensors"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path

import msgspec

from kvlab import store
from kvlab.core.errors import BadInput
from kvlab.core.model import Tensor, Weights

MAX_HEADER_BYTES = 100_000_000
"""The limit of the format itself."""
_MOST_BYTES = 1 << 50
"""Above any checkpoint."""


class _Index(msgspec.Struct):
    weight_map: dict[str, str]
    metadata: dict[str, object] = {}


class _Tensor(msgspec.Struct):
    data_offsets: tuple[int, int]
    shape: list[int] = []


_EXPERT = re.compile(r"\bexperts\.\d+\.")


def folder_weights(path: Path) -> Weights | None:
    """Bytes of all tensors in the folder's checkpoint; None when it holds no safetensors."""
    index = path / "model.safetensors.index.json"
    if index.exists():
        listed = _decode_index(index)
        if any(name in ("", "..") or not name.isprintable() or "/" in name for name in listed.weight_map.values()):
            raise BadInput(f"{index} names files outside its folder; fetch it again")
        files = [path / name for name in sorted(set(listed.weight_map.values()))]
        absent = [file.name for file in files if not file.exists()]
        if absent:
            return _from_index(listed, absent)
    else:
        single = path / "model.safetensors"
        files = [single] if single.exists() else sorted(path.glob("*.safetensors"))
    if not files:
        return None
    tensors = [tensor for file in files for tensor in file_tensors(file)]
    return summed(tensors, f"{len(files)} safetensors file{'s' * (len(files) > 1)}")


def summed(tensors: Iterable[Tensor], where: str) -> Weights:
    """The weights that `tensors` make, those of a layer's experts as one."""
    merged: dict[str, Tensor] = {}
    for tensor in tensors:
        name = _EXPERT.sub("experts.0.", tensor.name) if "experts." in tensor.name else tensor.name
        same = merged.get(name)
        size, copies = (tensor.bytes, 1) if same is None else (same.bytes + tensor.bytes, same.copies + 1)
        merged[name] = Tensor(name, size, tensor.rows, tensor.columns, copies)
    total = sum(tensor.bytes for tensor in merged.values())
    return Weights(total, "computed", f"sum of the tensors in {where}", tensors=tuple(merged.values()))


def shaped(name: str, size: int, shape: Sequence[int]) -> Tensor:
    """A tensor with the rows and columns of its shape."""
    rows = max(1, shape[0]) if shape else 1
    return Tensor(name, size, rows, max(1, prod(shape[1:])))


def file_tensors(path: Path) -> list[Tensor]:
    """The tensors in one file, as its header states them. Raises BadInput for a damaged or short file."""
    with os.fdopen(store.open_regular(path, "safetensors file"), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
            raise BadInput(f"{path} is no safetensors file, or cut short: {size:,} bytes; fetch it again")
        header = file.read(length)
    return _tensors(header, str(path), size - 8 - length)


def _tensors(header: bytes, where: str, held: int) -> list[Tensor]:
    try:
        entries = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        entries.pop("__metadata__", None)
        tensors = {name: msgspec.json.decode(raw, type=_Tensor) for name, raw in entries.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadInput(f"{where} has a damaged safetensors header; fetch it again") from None
    end = max((tensor.data_offsets[1] for tensor in tensors.values()), default=0)
    if end > held:
        raise BadInput(f"{where} is cut short: its tensors need {end:,} bytes, it holds {held:,}; fetch it again")
    offsets = [tensor.data_offsets for tensor in tensors.values()]
    if any(first < 0 or last < first for first, last in offsets) or sum(last - first for first, last in offsets) > held:
        raise BadInput(f"{where} has a damaged safetensors header; fetch it again")
    return [
        shaped(name, tensor.data_offsets[1] - tensor.data_offsets[0], tensor.shape) for name, tensor in tensors.items()
    ]


def _decode_index(path: Path) -> _Index:
    try:
        return msgspec.json.decode(store.read_bytes(path, "safetensors index", MAX_HEADER_BYTES), type=_Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadInput(f"{path} is not a safetensors index; fetch it again") from None


def _from_index(listed: _Index, absent: list[str]) -> Weights | None:
    total = listed.metadata.get("total_size")
    if isinstance(total, bool) or not isinstance(total, int) or total <= 0:
        return None
    if total > _MOST_BYTES:
        raise BadInput(f"model.safetensors.index.json states a total_size of {total:,} bytes; fetch it again")
    return Weights(total, "read", f"total_size of the index; {len(absent)} of its files are not here ({absent[0]})")
