"""Ollama's log: its own key=value lines, and among them those of the llama-server that it runs (0.30 on).

One log may hold several models, one after another: the last one that generates text counts, an embedding model never.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from kvlab.core.engine import LogReader
from kvlab.core.observation import Observation, Said, Seen, patterns_in, read_line
from kvlab.core.units import GIB, KIB, MIB
from kvlab.engines._llama.caches import SUMS, Caches
from kvlab.engines._llama.lines import CACHE_LINES, SAID, stated

_N = r"(\d+)"
_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 1024 * GIB}

_COMMIT = r'msg=load request="\{(?:Operation:commit|Commit:true)\b'
_OWN = (
    # msg="vram-based default context" total_vram="23.5 GiB" default_num_ctx=32768 (0.15.5 on)
    Said("default_context", "tokens", re.compile(rf"\bdefault_num_ctx={_N}")),
    # msg="requested context size too large for model" num_ctx=262144 n_ctx_train=40960
    Said("asked_context", "tokens", re.compile(rf'msg="requested context size too large for model" num_ctx={_N}')),
    Said("native_context", "tokens", re.compile(rf"too large for model.* n_ctx_train={_N}")),
    # msg="truncating input prompt" limit=2050 prompt=33742 keep=4 new=2050
    Said("cut_prompt_tokens", "tokens", re.compile(rf'msg="truncating input prompt" limit=\d+ prompt={_N}')),
    Said("kept_prompt_tokens", "tokens", re.compile(rf'msg="truncating input prompt" limit={_N}')),
    # msg="llama-server load failed; reducing automatic context and retrying once" ... new_num_ctx=32768
    Said("reduced_context", "tokens", re.compile(rf"reducing automatic context and retrying once.* new_num_ctx={_N}")),
    # msg="starting llama server" cmd="... --ctx-size 8192 --batch-size 512 --threads 28 --parallel 2 ..." (to 0.11)
    Said("n_ctx", "tokens", re.compile(rf'msg="starting (?:llama server|runner)" cmd=.* --ctx-size {_N}')),
    Said("ubatch", "tokens", re.compile(rf'msg="starting (?:llama server|runner)" cmd=.* --batch-size {_N}')),
    Said("slots", "slots", re.compile(rf'msg="starting (?:llama server|runner)" cmd=.* --parallel {_N}')),
    # msg=load request="{Operation:commit LoraPath:[] Parallel:1 BatchSize:512 FlashAttention:Enabled KvSize:16384
    # KvCacheType:q8_0 NumThreads:4 ..." (0.12 to 0.29); at first "{Commit:true"; a fit or alloc only tries
    Said("n_ctx", "tokens", re.compile(rf"{_COMMIT}.* KvSize:{_N} ")),
    Said("ubatch", "tokens", re.compile(rf"{_COMMIT}.* BatchSize:{_N} ")),
    Said("slots", "slots", re.compile(rf"{_COMMIT}.* Parallel:{_N} ")),
    Said("kv_cache_dtype", "word", re.compile(rf"{_COMMIT}.* KvCacheType:(\w+) ")),
)
_SIZE = r'"?(\d+(?:\.\d+)?) ([KMGT]?i?B)"?'
# msg="kv cache" device=CUDA0 size="936.0 MiB" (0.11 to 0.29), one line for each device, then msg="total memory"
# size="11.7 GiB"; "model weights" and "compute graph" since 0.6, then with buffer=CUDA0 and backend=CUDA0
_DEVICE = re.compile(rf'msg="(kv cache|model weights|compute graph)" (?:device|buffer|backend)=(\S+).*? size={_SIZE}')
_NAMES = {"kv cache": "kv_bytes", "model weights": "weights_loaded_bytes", "compute graph": "compute_buffer_bytes"}
_TOTAL = re.compile(rf'msg="total memory"\s+size={_SIZE}')
# memory.required.kv="1.3 GiB" (to 0.11): an estimate before anything is loaded
_ESTIMATE = re.compile(rf"memory\.required\.kv={_SIZE}")
_VRAM = re.compile(rf"\btotal_vram={_SIZE}")
_VERSION = re.compile(r"Listening on \S+ \(version ([\w.+-]+)\)")
# Without a model the runner only looks for devices.
_CHILD = re.compile(r'msg="starting (?:llama-server|llama server|runner)" cmd=.* --model ')
_OURS = re.compile(
    r"\blevel=[A-Z]+ source=[\w./]+\.go:\d+ msg=|\[GIN\] \d{4}/\d\d/\d\d|\bollama\[\d+\]:|\bOLLAMA_[A-Z_]+[:=]"
)


class _Child:
    """What the last llama-server said that generates text, or llama.cpp in the runner of older releases."""

    def __init__(self) -> None:
        self.reading = True
        self.started = False
        self.caches = Caches()
        self.lines: list[Seen] = []

    def start(self, line: str) -> None:
        self.reading = "--embedding" not in line
        if self.reading:
            # Sums before the first start: the log begins among a child's lines, or its lines are out of order.
            partial = self.caches.partial if self.started or not self.caches.seen else SUMS
            self.caches, self.lines = Caches(begun=True, partial=partial), []
        self.started = True

    def add(self, number: int, line: str) -> None:
        if self.reading:
            self.caches.add(number, line)
            self.lines += stated(number, line)

    def said(self) -> tuple[Seen, ...]:
        return (*self.lines, *self.caches.said())


def _read(lines: Iterable[str]) -> Observation:
    version, seen, child = None, list[Seen](), _Child()
    devices = _Devices()
    for number, line in enumerate(lines, 1):
        if listening := _VERSION.search(line):
            version = listening.group(1)
        if _CHILD.search(line):
            child.start(line)
        child.add(number, line)
        if size := _DEVICE.search(line):
            devices.add(_sized(_NAMES[size.group(1)], line, size.group(3), size.group(4), number), size)
        seen += read_line(line, number, _OWN) + _sizes(line, number)
        if total := _TOTAL.search(line):
            stated_total = _sized("total_bytes", line, total.group(1), total.group(2), number)
            seen += [*devices.summed(float(stated_total.value), _step(total[1], total[2])), stated_total]
            devices = _Devices()
    return Observation(engine="ollama", version=version, seen=(*seen, *child.said()))


def _sizes(line: str, line_number: int) -> list[Seen]:
    """Sizes that Ollama prints with a unit of their own."""
    named = (("kv_estimate_bytes", _ESTIMATE), ("vram_bytes", _VRAM))
    return [
        _sized(name, line, match[1], match[2], line_number)
        for name, pattern in named
        if (match := pattern.search(line))
    ]


def _sized(name: str, line: str, number: str, unit: str, line_number: int) -> Seen:
    size = float(number) * _UNITS.get(unit, 1)
    return Seen(name=name, value=size, unit="bytes", line=line.strip(), line_number=line_number)


class _Devices:
    """What Ollama's own engine allocates on each device, from the request to load on."""

    def __init__(self) -> None:
        self.sizes: dict[tuple[str, str], Seen] = {}
        self.rounded = 0.0
        """How far the sum of the sizes may be from what they are of, as each is printed with one decimal."""

    def add(self, item: Seen, match: re.Match[str]) -> None:
        """One quantity on one device."""
        self.sizes[item.name, match.group(2)] = item
        self.rounded += _step(match.group(3), match.group(4))

    def summed(self, total: float, step: float) -> list[Seen]:
        """Each quantity on all devices, under the line of the last; none when they do not make up the total."""
        if abs(sum(float(item.value) for item in self.sizes.values()) - total) > (self.rounded + step) / 2:
            return []
        found: dict[str, Seen] = {}
        for (name, _), item in self.sizes.items():
            before = found.get(name)
            found[name] = msgspec.structs.replace(item, value=float(item.value) + float(before.value if before else 0))
        return list(found.values())


def _step(number: str, unit: str) -> float:
    """Bytes of the last digit that is printed."""
    return 10.0 ** -len(number.partition(".")[2]) * _UNITS.get(unit, 1)


LOG = LogReader(
    said=_OWN + SAID,
    recognises=lambda line: _OURS.search(line) is not None,
    read=_read,
    also=(*patterns_in(globals(), _OURS), *CACHE_LINES),
    gathered=SUMS,
    holds=("llamacpp",),
)
