"""GGUF files with true metadata and tensor shapes and no weights: their tensor data is a hole in the file.

Which tensors an architecture has is asked of the loader itself: it names the first one that it misses, and the shape
that it wants.
"""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import threading
from pathlib import Path

from gguf_models import Keys, Shape

Tensors = dict[str, tuple[int, ...]]
MOST_TRIES, LOAD_SECONDS = 2000, 60.0
_U32, _F32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9
_FORMS = {_U32: "I", _F32: "f", _BOOL: "?"}
# "error loading model: missing tensor 'blk.0.attn_q.weight'", or "check_tensor_dims: tensor '...' not found"
_MISSING = re.compile(r"missing tensor '([^']+)'|tensor '([^']+)' not found")
# "tensor 'blk.0.attn_k.weight' has wrong shape; expected   256,   128, got   256,   256,     1,     1"
_SHAPE = re.compile(r"tensor '([^']+)' has wrong shape; expected ([\d, ]+), got")
_LOADED = "llama_context: constructing llama_context"
_FAILED = re.compile(r"error loading model: (.*)")


def _string(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _kind(value: object) -> int:
    if isinstance(value, bool):
        return _BOOL
    return _F32 if isinstance(value, float) else _U32


def _typed(value: object) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _string(value)
    if isinstance(value, list):
        kind = _kind(value[0])
        return struct.pack(f"<IIQ{len(value)}{_FORMS[kind]}", _ARRAY, kind, len(value), *value)
    kind = _kind(value)
    return struct.pack(f"<I{_FORMS[kind]}", kind, value)


def write(path: Path, arch: str, keys: Keys, tensors: Tensors) -> Path:
    """A version 3 file of f32 tensors. `keys` are the architecture's, without its prefix."""
    metadata = {"general.architecture": arch, "general.name": path.stem, "tokenizer.ggml.model": "no_vocab"}
    header = b"".join(_string(key) + _typed(value) for key, value in metadata.items())
    header += b"".join(_string(f"{arch}.{key}") + _typed(value) for key, value in keys.items())
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata) + len(keys)) + header
    offset = 0
    for name, dims in tensors.items():
        header += _string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, offset)
        values = 1
        for dim in dims:
            values *= dim
        offset += -(-values * 4 // 32) * 32
    with path.open("wb") as file:
        file.write(header)
        file.truncate(-(-len(header) // 32) * 32 + offset)
    return path


def loader_says(server: Path, model: Path) -> str:
    """What llama-server prints until it fails to load a file, or has loaded it: then it is stopped."""
    argv = [str(server), "-m", str(model), "-c", "256", "-np", "1", "--port", str(_free_port()), "-lv", "4"]
    argv += ["--no-warmup", "--fit", "off"]
    lines = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        watchdog = threading.Timer(LOAD_SECONDS, process.kill)
        watchdog.start()
        try:
            for line in process.stdout:
                lines.append(line)
                if _LOADED in line:
                    break
        finally:
            watchdog.cancel()
            process.kill()
    return "".join(lines)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def find_tensors(server: Path, folder: Path, shape: Shape) -> Tensors:
    """The tensors that the loader wants for this metadata. Layers of which it says the same have the same ones.

    Raises RuntimeError with the loader's words when it asks for anything but tensors.
    """
    arch, keys = shape.arch, shape.keys
    tensors: Tensors = {"token_embd.weight": (1,)}
    if "nextn_predict_layers" in keys:
        tensors["blk.0.attn_norm.weight"] = (1,)  # without it the file is taken for the draft layers alone
    for _ in range(MOST_TRIES):
        said = loader_says(server, write(folder / "wanted.gguf", arch, keys, tensors))
        if missing := _MISSING.search(said):
            name = missing[1] or missing[2]
            tensors.update(_guesses(name, tensors, keys))
            for extra, beside in shape.more.items():
                if name.endswith(beside):
                    tensors.setdefault(name.removesuffix(beside) + extra, (1,))
        elif wrong := _SHAPE.search(said):
            tensors[wrong[1]] = tuple(int(dim) for dim in wrong[2].split(","))
        elif _LOADED in said:
            return tensors
        else:
            failed = _FAILED.search(said)
            raise RuntimeError(f"{arch}: {failed[1] if failed else said[-400:]}")
    raise RuntimeError(f"{arch}: the loader asked for more than {MOST_TRIES} tensors")


def _guesses(name: str, tensors: Tensors, keys: Keys) -> Tensors:
    """The missing tensor, and with it all of the layer's when an earlier layer is like it."""
    where = re.match(r"blk\.(\d+)\.", name)
    if where is None or any(known.startswith(where[0]) for known in tensors):
        return {name: (1,)}
    layer = int(where[1])
    twin = next((earlier for earlier in range(layer) if _said_of(earlier, keys) == _said_of(layer, keys)), None)
    if twin is None:
        return {name: (1,)}
    begin = f"blk.{twin}."
    return {where[0] + known.removeprefix(begin): dims for known, dims in tensors.items() if known.startswith(begin)}


def _said_of(layer: int, keys: Keys) -> list[object]:
    """What the metadata says of one layer."""
    count = _number(keys, "block_count")
    early = [layer < _number(keys, name) for name in ("leading_dense_block_count", "hash_layer_count")]
    listed = [value[layer] for value in keys.values() if isinstance(value, list) and len(value) == count]
    drafts = layer >= count - _number(keys, "nextn_predict_layers")
    return [*listed, *early, (layer + 1) % 4 == 0, (layer + 1) % 8 == 0, drafts]


def _number(keys: Keys, name: str) -> int:
    value = keys.get(name, 0)
    return value if isinstance(value, int) else 0
