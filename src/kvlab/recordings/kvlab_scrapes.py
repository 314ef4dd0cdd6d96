"""What `kvlab diagnose URL --save FILE` writes: a line for each look, with the pages as the server sent them."""

from __future__ import annotations

import msgspec

from kvlab import engines
from kvlab.core.diagnosis import Look, Scrape
from kvlab.core.errors import BadInput
from kvlab.recordings import Format


def _read(text: str, path: str, seconds: float | None) -> tuple[Look, ...]:
    scrapes = list[Scrape]()
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                scrapes.append(msgspec.json.decode(line, type=Scrape))
            except (msgspec.DecodeError, RecursionError) as error:
                raise BadInput(f"{path}: line {number} is no scrape that kvlab saved: {error}") from None
    start = scrapes[0].time
    return tuple(Look(one.time - start, engines.reading(one.engine, one.pages)) for one in scrapes)


FORMAT = Format(
    title="kvlab diagnose --save",
    recognises=lambda line: line.startswith("{") and '"kvlab/scrape@1"' in line[:200],
    read=_read,
)
