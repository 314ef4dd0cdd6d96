"""The caches and buffers of a start of llama.cpp, each added up over devices and contexts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvlab.core.observation import Seen
from kvlab.core.units import MIB
from kvlab.engines._llama.lines import (
    BUFFER,
    COMPUTE,
    CREATING,
    CUT,
    DRAFT,
    KINDS,
    KV_SIZE,
    LOAD,
    LOADED,
    LOADING,
    NEW_CONTEXT,
    NO_ALLOC,
    OLD_SIZE,
    OLDEST_SIZE,
    SIZE,
    STATE,
    STATE_BUFFER,
    STATE_PART,
    TAIL,
    TAILS,
)

SUMS = _WEIGHTS, _COMPUTE, _CACHES = "weights_loaded_bytes", "compute_buffer_bytes", "kv_"
"""What is added up of several lines."""
_OF_BUFFER = {"model": _WEIGHTS, "compute": _COMPUTE, "KV": _CACHES, "RS": _CACHES}
_HOST = re.compile(r"CPU|\w+_Host$")


class Caches:
    """Sums the caches of all contexts (trunk, draft), leaving out a pass that only measured (its buffers are 0.00).

    A sum counts when the line was seen that comes before its first part, and what follows its last fits. Of several
    loads (a server that woke up, or starts whose first lines are lost), the last counts.
    """

    def __init__(self, *, begun: bool = False, partial: Iterable[str] = ()) -> None:
        self.kind = "full"
        self.announced = 0
        """Caches that lines said would come, and that did not yet."""
        self.cells: str | None = None
        """Of the next cache, as announced."""
        self.caches: set[str | None] = set()
        """The cells of a context's caches that were not announced, and None for all others: it holds one of these."""
        self.partial: set[str] = set(partial)
        """Sums of which lines are lost, or in another order."""
        self.measuring = False
        """In a pass that announced that it allocates nothing."""
        self.announces = False
        """Whether passes announce that."""
        self.shape: tuple[str | None, str | None] = (None, None)
        self.buffer: float | None = None
        self.loading, self.context, self.reserving = begun, False, False
        """What was seen to begin: a model's weights; then a context; then its compute buffers."""
        self.context_follows = False
        """Weights were stated, and not yet the context, which is made after all of a model's."""
        self.host_follows = False
        """Compute buffers were stated, and not yet the host's, which is the last of a context."""
        self.seen: dict[str, Seen] = {}
        self.drafts = False
        """A line said that the weights or the context of a draft come too."""
        self.loaded: set[str] = set()
        """Devices that hold weights of contexts that were made."""
        self.devices: set[str] = set()
        """Those of the context to come."""
        self.computing: dict[str | None, float] = {}
        """Compute buffers of the context by device, MiB."""

    def add(self, number: int, line: str) -> None:
        """Reads one more line of the log."""
        if no_alloc := NO_ALLOC.search(line):
            self.measuring = no_alloc.group(1) == "1"
            self.loading = True
            if not self.announces:  # what came before was said in a pass whose first lines are lost
                self.announces, self.seen, self.partial = True, {}, set()
        elif not self.measuring:
            self._add(number, line)

    def _add(self, number: int, line: str) -> None:
        self._follow(line)
        if NEW_CONTEXT.search(line):
            if self.announced > 0:
                self.partial.add(_CACHES)
            if self.host_follows:
                self.partial.add(_COMPUTE)
            self.kind, self.cells, self.caches, self.host_follows = "full", None, set(), False
            self.loading, self.context, self.reserving, self.context_follows = False, True, False, False
            self.computing, self.loaded, self.devices = {}, self.loaded | self.devices, set()
        elif LOADING.search(line):
            self.loading = True
        elif creating := CREATING.search(line):
            self.kind, self.cells = KINDS.get(creating.group(1).strip(), "full"), creating.group(2)
            self.buffer = None
            self.announced += 1
        elif shape := KV_SIZE.search(line):
            self.shape = (shape.group(1), shape.group(2))
        elif buffer := BUFFER.search(line) or STATE_BUFFER.search(line):
            self.buffer = (self.buffer or 0) + float(buffer.group(1))
        elif size := SIZE.search(line):
            self._in_context(_CACHES)
            self._cache(number, line, size.groups())
        elif old := OLD_SIZE.search(line):  # the only cache of its context, on all devices
            total, key_type, key, value_type, value = old.groups()
            self._cache(number, line, (total, *self.shape, key_type, key, value_type, value))
        elif oldest := OLDEST_SIZE.search(line):
            self._cache(number, line, (oldest.group(1), *self.shape, None, None, None, None))
        elif state := STATE.search(line):
            self._state(number, line, state.group(1))
        elif tail := TAIL.search(line):
            self._in_context(_CACHES)
            self._sum(f"kv_{TAILS[tail.group(1)]}_tail_bytes", float(tail.group(2)), "bytes", (number, line))
        for buffer in LOADED.finditer(line):  # two devices' records may stand in one line
            self._loaded(buffer, (number, line))
        for buffer in COMPUTE.finditer(line):
            self._reserved(buffer, (number, line))

    def _follow(self, line: str) -> None:
        """Which load and which sums a line belongs to."""
        another_context = self.reserving and not (self.loading or self.drafts)
        if LOAD.search(line) or (another_context and NEW_CONTEXT.search(line)):
            self._load_again()
        self.drafts = self.drafts or DRAFT.search(line) is not None
        self.partial |= {_OF_BUFFER[cut.group(1) or "model"] for cut in CUT.finditer(line)}

    def _load_again(self) -> None:
        """What comes now is of another load; what was lost before it may be lost of it, as lines out of order show."""
        self.partial = self._doubted()
        self.seen, self.loaded, self.devices, self.drafts = {}, set(), set(), False
        self.announced, self.context_follows, self.host_follows = 0, False, False

    def _reserved(self, buffer: re.Match[str], at: tuple[int, str]) -> None:
        """A context reserves its buffers again when its graph changes: the last reservation counts."""
        device, size, total = buffer.groups()
        self._in_context(_COMPUTE)
        self.host_follows = device is not None and _HOST.match(device) is None
        before, self.computing[device] = self.computing.get(device, 0), float(size or total)
        self._sum(_COMPUTE, self.computing[device] - before, "bytes", at)

    def _loaded(self, buffer: re.Match[str], at: tuple[int, str]) -> None:
        name, of_device, on_host, on_gpu = buffer.groups()
        device = name or ("host" if on_host else "gpu")
        unknown = self.context and not (self.loaded or self.devices)
        if (unknown or device in self.loaded) and not self.drafts and device not in self.devices:
            if self.devices:  # the load began with a device that was not seen before
                self.partial.update(SUMS)
            self._load_again()
        self.devices.add(device)  # once for each file of the model
        if not self.loading or (on_gpu and _WEIGHTS not in self.seen):  # the host's comes first
            self.partial.add(_WEIGHTS)
        self.context_follows = True
        self._sum(_WEIGHTS, float(of_device or on_host or on_gpu), "bytes", at)

    def _in_context(self, part: str) -> None:
        """A part of a context's caches, or of its compute buffers, which come after all of its caches."""
        if not self.context or (self.reserving and part == _CACHES):
            self.partial.add(part)
        self.reserving = self.reserving or part == _COMPUTE

    def _state(self, number: int, line: str, size: str) -> None:
        self._in_context(_CACHES)
        measured_only, self.buffer = self.buffer == 0, None
        if measured_only:
            return
        self._sum("kv_state_bytes", float(size), "bytes", (number, line))
        for part, size_of in STATE_PART.findall(line):
            self._sum(f"kv_state_{part.lower()}_bytes", float(size_of), "bytes", (number, line))

    def _cache(self, number: int, line: str, groups: tuple[str | None, ...]) -> None:
        measured_only, self.buffer = self.buffer == 0, None
        self.shape = (None, None)
        total, cells, layers, key_type, key, value_type, value = groups
        name, at = f"kv_{self._kind(cells)}", (number, line)
        if measured_only:
            return
        for suffix, text in (("_bytes", total), ("_k_bytes", key), ("_v_bytes", value)):
            if text is not None:
                self._sum(name + suffix, float(text), "bytes", at)
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
            self.partial.add(_CACHES)
        self.kind, self.cells, self.announced = "full", None, max(0, self.announced - 1)
        return kind

    def _sum(self, name: str, mebibytes: float, unit: str, at: tuple[int, str]) -> None:
        before = self.seen.get(name)
        self._put(name, mebibytes * MIB + (float(before.value) if before else 0), unit, at)

    def _put(self, name: str, value: float | str, unit: str, at: tuple[int, str]) -> None:
        self.seen[name] = Seen(name=name, value=value, unit=unit, line=at[1].strip(), line_number=at[0])

    def said(self) -> tuple[Seen, ...]:
        """Every cache and buffer, summed, without those whose lines do not fit together."""
        doubted = tuple(self._doubted())
        return tuple(item for item in self.seen.values() if not item.name.startswith(doubted))

    def _doubted(self) -> set[str]:
        """Sums of which lines are lost, or are still to come."""
        open_sums = ((_CACHES, self.announced > 0), (_WEIGHTS, self.context_follows), (_COMPUTE, self.host_follows))
        return {*self.partial, *(name for name, more in open_sums if more)}


def _same_cells(announced: str | None, cells: str | None) -> bool:
    """Whether a cache has the cells that were announced, which it rounds up to 256."""
    if announced is None or cells is None:
        return True
    return int(cells) in (int(announced), -(-int(announced) // 256) * 256)
