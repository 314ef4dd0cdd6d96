"""What `kvlab diagnose URL --save FILE` writes: a line for each look, with the pages as the server sent them."""

from __future__ import annotations

import msgspec

from kvlab import engines
from kvlab.core.diagnosis import Look, Scrape
from kvlab.core.errors import BadInput
from kvlab.recordings import Format
from kvlab.recordings._tables import check_time


def _read(text: str, path: str, seconds: float | None) -> tuple[Look, ...]:
    scrapes, found = list[Scrape](), list[Look]()
    # not splitlines: labels may hold other characters that it takes for ends of lines
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            scrape = _scrape(line, f"{path}: line {number}")
            before = found[-1].seconds if found else None
            start = scrapes[0].time if scrapes else scrape.time
            check_time(scrape.time, start, before, f"{path}: line {number}")
            if scrapes and scrape.engine != scrapes[0].engine:
                raise BadInput(f"{path}: line {number} is {scrape.engine}'s, the lines before it {scrapes[0].engine}'s")
            scrapes.append(scrape)
            try:
                found.append(Look(scrape.time - start, engines.reading(scrape.engine, scrape.pages)))
            except BadInput as error:
                raise BadInput(f"{path}: line {number}: {error}") from None
    return tuple(found)


def _scrape(line: str, where: str) -> Scrape:
    try:
        scrape = msgspec.json.decode(line, type=Scrape)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadInput(f"{where} is no scrape that kvlab saved: {error}") from None
    if not scrape.pages:
        raise BadInput(f"{where} holds no page of the server; remove the line, or save the series again")
    return scrape


FORMAT = Format(
    title="kvlab diagnose --save",
    recognises=lambda line: line.startswith("{") and '"kvlab/scrape@1"' in line[:200],
    read=_read,
)
