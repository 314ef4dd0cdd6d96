"""llama-server's start-up lines, 2023 to now, with and without prefixes."""

from __future__ import annotations

import re

from kvlab.core.observation import Said, Seen, patterns_in, read_line
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
# "llama_new_context_with_model: KV self size = 256.00 MiB, K (f16): 128.00 MiB, V (f16): 128.00 MiB" (2024), said by
# llama_init_from_model and llama_context_kv_self in the spring of 2025
_OLD_SIZE = re.compile(rf"KV self size\s*=\s*{_X} Mi?B, K \((\w+)\):\s*{_X} Mi?B, V \((\w+)\):\s*{_X} Mi?B")
# "llama_new_context_with_model: kv self size  =  162.50 MB" (2023; 2^20 bytes, "MiB" from November on)
_OLDEST_SIZE = re.compile(rf"\bkv self size\s*=\s*{_X} Mi?B")
# "llama_kv_cache_init: kv_size = 512, offload = 1, type_k = 'f16', type_v = 'f16', n_layer = 12, can_shift = 1" before
# it (end of 2024), by "init" and llama_kv_cache_unified in the spring of 2025
_KV_SIZE = re.compile(rf"\b(?:llama_kv_cache\w*|init): kv_size = {_N}, .*\bn_layer = {_N}(?![\w.])")
# "llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells"; hybrids name the function "operator()"
_CREATING = re.compile(
    r"\S+: creating (?:DSV4 )?(non-SWA|\s*SWA|main|DSA|\S*indexer|CSA compressed|HCA compressed) KV cache"
    r"(?:, size = (\d{1,12}) cells)?"
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
_BUFFER = re.compile(rf"\b(?:llama_kv_cache\w*|init)\s*:\s+\S+ KV buffer size\s*=\s*{_X} MiB")
# "print_info: no_alloc              = 1" begins a pass that only measures, 0 one that loads (2026)
_NO_ALLOC = re.compile(r"print_info: no_alloc\s+= ([01])\b")
# "llama_memory_recurrent: size =   75.38 MiB (     1 cells,  48 layers,  1 seqs  0 rs_seq), R (f32): ... S (f32): ..."
_STATE = re.compile(rf"llama_memory_recurrent: size\s*=\s*{_X} MiB \(\s*\d+ cells,\s*{_N} layers")
# "llama_memory_recurrent:        CPU RS buffer size =    75.38 MiB"; 0.00 as above
_STATE_BUFFER = re.compile(rf"llama_memory_recurrent:\s+\S+ RS buffer size\s*=\s*{_X} MiB")
_STATE_PART = re.compile(rf" ([RS]) \(\w+\):\s*{_X} MiB")
# "load_tensors:   CPU_Mapped model buffer size =   235.16 MiB"; "llm_load_tensors:" in 2024, at first without "model";
# "llm_load_tensors: mem required  =  107.55 MB" on the host and "VRAM used: 8694.21 MB" in the autumn of 2023
_LOADED = re.compile(
    rf"load_tensors:\s+\S+(?: model)? buffer size\s*=\s*{_X} MiB|llm_load_tensors: mem required\s*=\s*{_X} Mi?B"
    rf"|llm_load_tensors: VRAM used: {_X} Mi?B"
)
_FILE = r"(?:print_info: file size|llm_load_print_meta: model size)"
_CONTEXT = r"(?:llama_(?:context|new_context_with_model|init_from_model))"
"""The function that makes the context, in the order of 2025 and later, 2024, and the winter between."""
# "sched_reserve:        CPU compute buffer size =    29.31 MiB"; "init:" in the spring of 2025;
# "llama_new_context_with_model: compute buffer total size = 359.57 MB" (2023)
_COMPUTE = re.compile(
    rf"(?:\bsched_reserve|\binit|{_CONTEXT}):\s+\S+ compute buffer size\s*=\s*{_X} MiB"
    rf"|compute buffer total size =\s*{_X} Mi?B"
)

# "llama_context: constructing llama_context", "llama_context: n_ctx                 = 8192"
_NEW_CONTEXT = re.compile(rf"{_CONTEXT}: (?:constructing|n_ctx\s+=)")

# With the prefix "0.01.325.914 I ", inside JSON, or bare.
SAID = (
    Said("n_ctx", "tokens", re.compile(rf"(?:{_CONTEXT}|llama_model_load_internal): n_ctx\s+= (\d+)")),
    # n_ctx_per_seq to the autumn of 2025
    Said("n_ctx_seq", "tokens", re.compile(rf"{_CONTEXT}: n_ctx_(?:per_)?seq\s+= (\d+)")),
    Said("ubatch", "tokens", re.compile(rf"{_CONTEXT}: n_ubatch\s+= (\d+)")),
    Said("flash_attention", "word", re.compile(rf"{_CONTEXT}: flash_attn\s+= (auto|enabled|disabled|[01])\b")),
    # "srv    load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'false'" (2026), before that
    # "initializing slots, n_slots = 1" and for each slot "new slot, n_ctx = 262144" or "new slot n_ctx_slot = 4096"
    Said("slots", "slots", re.compile(r"initializing(?: slots)?, n_slots = (\d+)")),
    Said("n_ctx_slot", "tokens", re.compile(r"n_slots = \d+, n_ctx_slot = (\d+)")),
    Said("n_ctx_slot", "tokens", re.compile(r"\| new slot,? n_ctx(?:_slot)? = (\d+)")),
    # " -> Slot 0 - max context: 512" (winter of 2023)
    Said("n_ctx_slot", "tokens", re.compile(r"-> Slot \d+ - max context: (\d+)")),
    Said("kv_unified", "word", re.compile(r"n_ctx_slot = \d+, kv_unified = '(true|false)'")),
    Said("native_context", "tokens", re.compile(r"(?:print_info|llm_load_print_meta): n_ctx_train\s+= (\d+)")),
    Said("weights_file_bytes", "bytes", re.compile(rf"{_FILE}\s+= {_X} MiB"), MIB),
    Said("weights_file_bytes", "bytes", re.compile(rf"{_FILE}\s+= {_X} GiB"), 1024 * MIB),
    Said("output_buffer_bytes", "bytes", re.compile(rf"{_CONTEXT}:\s+\S+\s+output buffer size =\s*{_X} MiB"), MIB),
    # "load_tensors: offloaded 29/29 layers to GPU"; Ollama to 0.29 says msg="offloaded 41/41 layers to GPU"
    Said("gpu_layers", "layers", re.compile(r"\boffloaded (\d+)/\d+ layers to GPU")),
)


class Caches:
    """Sums the caches of all contexts (trunk, draft), leaving out a pass that only measured (its buffers are 0.00)."""

    def __init__(self) -> None:
        self.kind = "full"
        self.announced = 0
        """Caches that lines said would come, and that did not yet."""
        self.cells: str | None = None
        """Of the next cache, as announced."""
        self.caches: set[str | None] = set()
        """The cells of a context's caches that were not announced, and None for all others: it holds one of these."""
        self.disordered = False
        """Lines do not fit together: some are lost, or in another order."""
        self.measuring = False
        """In a pass that announced that it allocates nothing."""
        self.announces = False
        """Whether passes announce that."""
        self.shape: tuple[str | None, str | None] = (None, None)
        self.buffer: float | None = None
        self.seen: dict[str, Seen] = {}

    def add(self, number: int, line: str) -> None:
        """Reads one more line of the log."""
        if no_alloc := _NO_ALLOC.search(line):
            self.measuring = no_alloc.group(1) == "1"
            if not self.announces:  # what came before was said in a pass whose first lines are lost
                self.announces, self.seen = True, {}
        elif not self.measuring:
            self._add(number, line)

    def _add(self, number: int, line: str) -> None:
        if _NEW_CONTEXT.search(line):
            self.disordered = self.disordered or self.announced > 0
            self.kind, self.cells, self.caches = "full", None, set()
        elif creating := _CREATING.search(line):
            self.kind, self.cells = _KINDS.get(creating.group(1).strip(), "full"), creating.group(2)
            self.buffer = None
            self.announced += 1
        elif shape := _KV_SIZE.search(line):
            self.shape = (shape.group(1), shape.group(2))
        elif buffer := _BUFFER.search(line) or _STATE_BUFFER.search(line):
            self.buffer = (self.buffer or 0) + float(buffer.group(1))
        elif size := _SIZE.search(line):
            self._cache(number, line, size.groups())
        elif old := _OLD_SIZE.search(line):
            total, key_type, key, value_type, value = old.groups()
            self._cache(number, line, (total, *self.shape, key_type, key, value_type, value))
        elif oldest := _OLDEST_SIZE.search(line):
            self._cache(number, line, (oldest.group(1), *self.shape, None, None, None, None))
        elif state := _STATE.search(line):
            self._state(number, line, state.group(1))
        elif tail := _TAIL.search(line):
            self._sum(f"kv_{_TAILS[tail.group(1)]}_tail_bytes", float(tail.group(2)) * MIB, "bytes", (number, line))
        for name, pattern in (("weights_loaded_bytes", _LOADED), ("compute_buffer_bytes", _COMPUTE)):
            for buffer in pattern.finditer(line):  # two devices' records may stand in one line
                self._sum(name, _first(buffer) * MIB, "bytes", (number, line))

    def _state(self, number: int, line: str, size: str) -> None:
        measured_only, self.buffer = self.buffer == 0, None
        if measured_only:
            return
        self._sum("kv_state_bytes", float(size) * MIB, "bytes", (number, line))
        for part, size_of in _STATE_PART.findall(line):
            self._sum(f"kv_state_{part.lower()}_bytes", float(size_of) * MIB, "bytes", (number, line))

    def _cache(self, number: int, line: str, groups: tuple[str | None, ...]) -> None:
        measured_only, self.buffer = self.buffer == 0, None
        self.shape = (None, None)
        total, cells, layers, key_type, key, value_type, value = groups
        name, at = f"kv_{self._kind(cells)}", (number, line)
        if measured_only:
            return
        for suffix, text in (("_bytes", total), ("_k_bytes", key), ("_v_bytes", value)):
            if text is not None:
                self._sum(name + suffix, float(text) * MIB, "bytes", at)
        for suffix, text, unit in (("_cells", cells, "cells"), ("_layers", layers, "layers")):
            if text is not None:
                self._put(name + suffix, float(text), unit, at)
        for suffix, text in (("_k_type", key_type), ("_v_type", value_type)):
            if text is not None:
                self._put(name + suffix, text, "word", at)

    def _kind(self, cells: str | None) -> str:
        """Of the cache whose size is read."""
        kind, announced = self.kind, self.announced > 0
        self.caches.add(None if announced else cells or "")
        if len(self.caches) > 1 or not _same_cells(self.cells, cells):
            self.disordered = True
        self.kind, self.cells, self.announced = "full", None, max(0, self.announced - 1)
        return kind

    def _sum(self, name: str, value: float, unit: str, at: tuple[int, str]) -> None:
        before = self.seen.get(name)
        self._put(name, value + (float(before.value) if before else 0), unit, at)

    def _put(self, name: str, value: float | str, unit: str, at: tuple[int, str]) -> None:
        self.seen[name] = Seen(name=name, value=value, unit=unit, line=at[1].strip(), line_number=at[0])

    def said(self) -> tuple[Seen, ...]:
        """Every cache and buffer, summed; no cache when the lines do not fit together."""
        doubtful = self.disordered or self.announced > 0
        return tuple(item for item in self.seen.values() if not (doubtful and item.name.startswith("kv_")))


def _same_cells(announced: str | None, cells: str | None) -> bool:
    """Whether a cache has the cells that were announced, which it rounds up to 256."""
    if announced is None or cells is None:
        return True
    return int(cells) in (int(announced), -(-int(announced) // 256) * 256)


def _first(match: re.Match[str]) -> float:
    """The one group of several alternatives that matched."""
    return float(next(group for group in match.groups() if group is not None))


def stated(number: int, line: str) -> list[Seen]:
    """What one line says beside the caches."""
    return read_line(line, number, SAID)


OURS = re.compile(
    r"llama_(?:kv_cache|context|model_load|new_context|memory|init)|\bllama_server|load_tensors:|srv +\w+:"
    r"|\bslot +\w+: id +\d+ \||\bllm_load_print_meta: |\bcommon_(?:params_fit_impl|memory_breakdown_print): "
)
"""Lines that only llama.cpp prints."""
CACHE_LINES = patterns_in(globals(), OURS, _STATE_PART)
"""What `Caches` reads."""

GATHERED = ("kv_", "weights_loaded_bytes", "compute_buffer_bytes")
"""What `Caches` adds up of several lines."""
