"""Mooncake's and Qwen-Bailian's JSON lines: times, lengths, and `hash_ids`, one id a block of the prompt.

https://github.com/kvcache-ai/Mooncake (512-token blocks, times in ms) and
https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon (16-token blocks, times in seconds, `chat_id`). An id
stands for its block and all before it. Neither file states its block size: it is the one that all lengths agree with.
"""

from __future__ import annotations

from pathlib import Path

from kvlab.core.trace import Reading, Trace, TraceReader
from kvlab.traces._hashed import HashedRow, hashed
from kvlab.traces._rows import Rows, json_rows, keys


def _recognises(head: str) -> bool:
    return {"hash_ids", "input_length", "timestamp"} <= keys(head)


def _read(path: Path, _: Reading) -> Trace:
    rows = Rows(path)
    return hashed(path, "mooncake", rows, json_rows(path, HashedRow, rows))


READER = TraceReader("Mooncake or Bailian JSON lines", _recognises, _read)
