"""llama.cpp's start-up lines, 2023 to now, with and without prefixes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvlab.core.engine import LogReader
from kvlab.core.observation import Observation, Seen, patterns_in
from kvlab.engines._llama.lines import CACHE_LINES, OURS, SAID, Caches, stated

# "common_param: common_params_print_info: build 0 (unknown)" or "build: 6123 (79c1160b)"
_BUILD = re.compile(r"\bbuild:?\s+(\d{3,})\b")


def _read(lines: Iterable[str]) -> Observation:
    caches, version, seen = Caches(), None, list[Seen]()
    for number, line in enumerate(lines, 1):
        caches.add(number, line)
        if build := _BUILD.search(line):
            version = f"b{build.group(1)}"
        seen += stated(number, line)
    return Observation(engine="llamacpp", version=version, seen=(*seen, *caches.said()))


def _recognises(line: str) -> bool:
    """Ollama's log holds the lines of its own llama-server; journald puts its name before each."""
    return OURS.search(line) is not None and "ollama[" not in line


LOG = LogReader(said=SAID, recognises=_recognises, read=_read, also=(*patterns_in(globals(), OURS), *CACHE_LINES))
