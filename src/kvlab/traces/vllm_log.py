"""vLLM's own log with --enable-log-requests: the prompt, and its token ids where the level is DEBUG.

"Received request ID: prompt: 'TEXT', params: ..., prompt_token_ids: [..], ..." (to 0.10) and
"Request ID details: prompt: 'TEXT', prompt_token_ids: [..], ..." (later, at DEBUG). --max-log-len cuts both.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from kvlab.core.trace import Logged, TextFormat, Unusable
from kvlab.traces._lines import lines
from kvlab.traces._rows import LONGEST, TOO_LONG
from kvlab.traces._text import trace_reader

_MARK = re.compile(rb"(Received request \S+: prompt: |Request \S+ details: prompt: )")
_PROMPT = re.compile(r"prompt: (None|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"), (?=params:|prompt_token_ids:)", re.DOTALL)
_IDS = re.compile(r"(?:^|, )prompt_token_ids: \[([\d, ]*)\]")
_TIME = re.compile(r"(?:INFO|DEBUG) (\d\d-\d\d \d\d:\d\d:\d\d)")
_LEAP = 2000
"""The year that stands in for the one that the log does not state: it has a 29th of February."""


def _recognises(head: str) -> bool:
    return any(word in head for word in ("Received request ", " details: prompt: ", "vLLM API server version"))


def _raw(path: Path) -> Iterator[tuple[str, object]]:
    for number, line in lines(path, LONGEST):
        where = f"line {number:,}"
        found = _MARK.search(line[:4096])
        if found and len(line) > LONGEST:
            yield where, Unusable(TOO_LONG)
        elif found:
            yield where, (line[: found.start()], line[found.start() :])


def _requests(where: str, row: object) -> list[Logged]:
    assert isinstance(row, tuple)
    before, text = (part.decode("utf-8", "replace") for part in row)
    prompt = _PROMPT.search(text)
    if prompt is None:
        raise Unusable("its prompt has no end")
    ids = _IDS.search(text, prompt.end() - 2)
    moment = _TIME.search(before)
    time = None
    if moment:
        try:
            when = datetime.strptime(f"{_LEAP}-{moment[1]}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            raise Unusable("its time is no time") from None
        time = when.timestamp()
    if ids is not None:
        numbers = [int(word) for word in ids[1].split(",") if word.strip()]
        if any(number >= 1 << 31 for number in numbers):
            raise Unusable("a token id is above any vocabulary")
        return [Logged(where, time=time, ids=numbers)]
    if prompt[1] == "None":
        raise Unusable("neither the prompt nor its token ids are logged")
    try:
        said = ast.literal_eval(prompt[1])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise Unusable("its prompt is no text") from None
    return [Logged(where, time=time, prompt=str(said))]


READER = trace_reader("vLLM request logs", _recognises, TextFormat("vllm-log", _raw, _requests))
