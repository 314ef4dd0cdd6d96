"""llama.cpp's start-up lines, 2023 to now, with and without prefixes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvlab.core.engine import LogReader
from kvlab.core.observation import Observation, Seen, patterns_in, read_line
from kvlab.engines._llama.caches import SUMS, Caches
from kvlab.engines._llama.lines import CACHE_LINES, OURS, SAID, stated
from kvlab.engines.llamacpp import tier_lines

# "main: build = 850 (d4d7d2f)" (2023), "build: 6123 (79c1160b)", "common_params_print_info: build 11434 (...)" (2026);
# a build that does not know its number says 0
_BUILD = re.compile(r"\bbuild(?::| =)?\s+(\d{3,}) \(|\bbuild_info: b(\d{3,})-")


def _read(lines: Iterable[str]) -> Observation:
    caches, version, seen, tier = Caches(), None, list[Seen](), dict[str, Seen]()
    for number, line in enumerate(lines, 1):
        caches.add(number, line)
        if build := _BUILD.search(line):
            version = f"b{build.group(1) or build.group(2)}"
        if not caches.measuring:
            seen += stated(number, line)
            # Said with every request: the last statement of each.
            tier |= {found.name: found for found in read_line(line, number, tier_lines.SAID)}
    return Observation(engine="llamacpp", version=version, seen=(*seen, *caches.said(), *tier.values()))


def _recognises(line: str) -> bool:
    """Ollama's log holds the lines of its own llama-server; journald puts its name before each."""
    return OURS.search(line) is not None and "ollama[" not in line


LOG = LogReader(
    said=(*SAID, *tier_lines.SAID),
    recognises=_recognises,
    read=_read,
    also=(*patterns_in(globals(), OURS), *CACHE_LINES),
    starts=re.compile(r"\bmain: build = \d|\bbuild: \d+ \(|\bbuild_info: "),
    gathered=SUMS,
)
