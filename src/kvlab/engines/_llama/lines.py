"""llama-server's start-up lines, 2023 to now, with and without prefixes."""

from __future__ import annotations

import re

import msgspec

from kvlab.core.observation import Said, Seen, patterns_in, read_lines
from kvlab.core.units import MIB

_N = r"(\d{1,12})"
_X = r"(\d{1,12}(?:\.\d+)?)"
"""A number as the lines print it; "1.2.3" and 400 digits are none."""
# "llama_kv_cache: size = 12.75 MiB (  2048 cells,   3 layers,  4/4 seqs), K (q8_0): 6.38 MiB, V (q8_0): 6.38 MiB"
# (since September 2025; "llama_kv_cache_unified: size = ... 1/ 1 seqs" and "1 seqs" before)
_SIZE = re.compile(
    rf"llama_kv_cache\w*\s*:\s+size\s*=\s*{_X} MiB \(\s*{_N} cells,\s*{_N} layers,\s*\d+(?:/\s*\d+)?\s+seqs\),"
    rf" K \((\w+)\):\s*{_X} MiB, V \((\w+)\):\s*{_X} MiB"
)
# "llama_new_context_with_model: KV self size = 256.00 MiB, K (f16): 128.00 MiB, V (f16): 128.00 MiB" (to early 2025)
_OLD_SIZE = re.compile(rf"KV self size\s*=\s*{_X} Mi?B, K \((\w+)\):\s*{_X} Mi?B, V \((\w+)\):\s*{_X} Mi?B")
# "llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells"; hybrids name the function "operator()"
_CREATING = re.compile(
    r"\S+: creating (?:DSV4 )?(non-SWA|\s*SWA|main|DSA|\S*indexer|CSA compressed|HCA compressed) KV cache"
)
_KINDS = {
    "SWA": "window",
    "indexer": "indexer",
    "lightning-indexer": "indexer",
    "CSA compressed": "pool4",
    "HCA compressed": "pool128",
}
# "llama_dsv4_comp_state: csa ratio = 4, state = 8 x 1024, streams = 1, rs_seq = 0, layers = 21, size =    1.31 MiB"
_TAIL = re.compile(rf"llama_dsv4_comp_state: (csa|hca|lid) ratio = .* size =\s*{_X} MiB")
_TAILS = {"csa": "pool4", "hca": "pool128", "lid": "indexer"}
# "llama_kv_cache:        CPU KV buffer size =    12.75 MiB"; 0.00 while the fit pass only measures
_BUFFER = re.compile(rf"llama_kv_cache\w*\s*:\s+\S+ KV buffer size\s*=\s*{_X} MiB")
# "llama_memory_recurrent: size =   75.38 MiB (     1 cells,  48 layers,  1 seqs  0 rs_seq), R (f32): ... S (f32): ..."
_STATE = re.compile(rf"llama_memory_recurrent: size\s*=\s*{_X} MiB \(\s*\d+ cells,\s*{_N} layers")
_STATE_PART = re.compile(rf" ([RS]) \(\w+\):\s*{_X} MiB")
_LOADED = re.compile(rf"load_tensors:\s+\S+ model buffer size\s*=\s*{_X} MiB")
_COMPUTE = re.compile(
    rf"(?:sched_reserve|llama_context|llama_new_context_with_model):\s+\S+ compute buffer size\s*=\s*{_X} MiB"
)

# All of these: b4000 to b11549, with the prefix "0.01.325.914 I " or without.
SAID = (
    Said("n_ctx", "tokens", re.compile(r"llama_(?:context|new_context_with_model): n_ctx\s+= (\d+)")),
    Said("n_ctx_seq", "tokens", re.compile(r"llama_context: n_ctx_seq\s+= (\d+)")),
    Said("ubatch", "tokens", re.compile(r"llama_(?:context|new_context_with_model): n_ubatch\s+= (\d+)")),
    Said("flash_attention", "word", re.compile(r"llama_(?:context|new_context_with_model): flash_attn\s+= (\w+)")),
    # "srv    load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'false'"
    Said("slots", "slots", re.compile(r"n_slots = (\d+), n_ctx_slot = \d+")),
    Said("n_ctx_slot", "tokens", re.compile(r"n_slots = \d+, n_ctx_slot = (\d+)")),
    Said("kv_unified", "word", re.compile(r"n_ctx_slot = \d+, kv_unified = '(true|false)'")),
    Said("native_context", "tokens", re.compile(r"print_info: n_ctx_train\s+= (\d+)")),
    Said("weights_file_bytes", "bytes", re.compile(rf"print_info: file size\s+= {_X} MiB"), MIB),
    Said("weights_file_bytes", "bytes", re.compile(rf"print_info: file size\s+= {_X} GiB"), 1024 * MIB),
    Said("output_buffer_bytes", "bytes", re.compile(rf"llama_context:\s+\S+\s+output buffer size =\s*{_X} MiB"), MIB),
)


class Caches:
    """Sums the caches of all contexts (trunk, draft), leaving out a pass that only measured (its buffers are 0.00)."""

    def __init__(self) -> None:
        self.kind = "full"
        self.buffer: float | None = None
        self.seen: dict[str, Seen] = {}

    def add(self, number: int, line: str) -> None:
        """Reads one more line of the log."""
        if creating := _CREATING.search(line):
            self.kind = _KINDS.get(creating.group(1).strip(), "full")
        elif buffer := _BUFFER.search(line):
            self.buffer = (self.buffer or 0) + float(buffer.group(1))
        elif size := _SIZE.search(line):
            self._cache(number, line, size.groups())
        elif old := _OLD_SIZE.search(line):
            total, key_type, key, value_type, value = old.groups()
            self._cache(number, line, (total, None, None, key_type, key, value_type, value))
        elif state := _STATE.search(line):
            self._sum("kv_state_bytes", float(state.group(1)) * MIB, "bytes", (number, line))
            for part, size_of in _STATE_PART.findall(line):
                self._sum(f"kv_state_{part.lower()}_bytes", float(size_of) * MIB, "bytes", (number, line))
        elif tail := _TAIL.search(line):
            self._sum(f"kv_{_TAILS[tail.group(1)]}_tail_bytes", float(tail.group(2)) * MIB, "bytes", (number, line))
        elif loaded := _LOADED.search(line):
            self._sum("weights_loaded_bytes", float(loaded.group(1)) * MIB, "bytes", (number, line))
        elif compute := _COMPUTE.search(line):
            self._sum("compute_buffer_bytes", float(compute.group(1)) * MIB, "bytes", (number, line))

    def _cache(self, number: int, line: str, groups: tuple[str | None, ...]) -> None:
        measured_only, self.buffer = self.buffer == 0, None
        if measured_only:
            return
        total, cells, layers, key_type, key, value_type, value = groups
        name, at = f"kv_{self.kind}", (number, line)
        self.kind = "full"
        for suffix, text in (("_bytes", total), ("_k_bytes", key), ("_v_bytes", value)):
            self._sum(name + suffix, float(text or 0) * MIB, "bytes", at)
        for suffix, text, unit in (("_cells", cells, "cells"), ("_layers", layers, "layers")):
            if text is not None:
                self._put(name + suffix, float(text), unit, at)
        self._put(name + "_k_type", key_type or "", "word", at)
        self._put(name + "_v_type", value_type or "", "word", at)

    def _sum(self, name: str, value: float, unit: str, at: tuple[int, str]) -> None:
        before = self.seen.get(name)
        self._put(name, value + (float(before.value) if before else 0), unit, at)

    def _put(self, name: str, value: float | str, unit: str, at: tuple[int, str]) -> None:
        self.seen[name] = Seen(name=name, value=value, unit=unit, line=at[1].strip(), line_number=at[0])

    def said(self) -> tuple[Seen, ...]:
        """Every cache and buffer, summed."""
        return tuple(self.seen.values())


def stated(number: int, line: str) -> list[Seen]:
    """What one line says beside the caches."""
    return [msgspec.structs.replace(found, line_number=number) for found in read_lines([line], SAID)]


OURS = re.compile(
    r"llama_(?:kv_cache|context|model_loader|new_context|memory|init)|\bllama_server|load_tensors:|srv +\w+:"
)
"""Lines that only llama.cpp prints."""

CACHE_LINES = patterns_in(globals(), OURS, _STATE_PART)
"""What `Caches` reads."""
