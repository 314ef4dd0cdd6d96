"""AIPerf's record of each request: when it began, prompt and answer tokens (profile_export.jsonl), and with
`--export-level raw` its body and the answer too (profile_export_raw.jsonl), so that a tokenizer finds what is shared.

https://docs.nvidia.com/aiperf/tutorials/metrics-analysis/working-with-profile-export-files (0.13). The lengths are
those that the server counted where the record states them (usage_prompt_tokens), else AIPerf's own: its tokenizer's, or
with --use-server-token-count the server's. Its tokenizer counts a chat's text without the template around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.trace import Logged, Reading, TextFormat, Trace, TraceReader, Unusable
from kvlab.traces import _requests
from kvlab.traces._lines import opened
from kvlab.traces._rows import MOST_TOKENS, Moment, Rows, by_time, filled_lines, json_rows
from kvlab.traces._text import read as read_text

_LOOK = 1 << 16
_RECORD = re.compile(r'(?m)^[ \t]*\{\s*"metadata":\s*\{[^{}]*"request_start_ns":')
_BODY = re.compile(r'"start_perf_ns"\s*:')
_SUMMARY = re.compile(r'\A\s*\{.{0,400}"aiperf_version"|\AMetric,avg,min,max,', re.DOTALL)
_INPUTS = re.compile(r'\A\s*\{\s*"data":\s*\[\s*\{\s*"session_id":')


class _Metadata(msgspec.Struct):
    request_start_ns: Moment
    request_end_ns: Moment | None = None
    benchmark_phase: str | None = None
    was_cancelled: bool = False


class _Value(msgspec.Struct):
    value: float


class _Metrics(msgspec.Struct):
    input_sequence_length: _Value | float | None = None
    output_sequence_length: _Value | float | None = None
    usage_prompt_tokens: _Value | float | None = None
    usage_completion_tokens: _Value | float | None = None


class _Row(msgspec.Struct):
    metadata: _Metadata
    metrics: _Metrics
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Raw(msgspec.Struct):
    metadata: _Metadata
    payload: Any = None
    responses: list[Any] = []
    error: msgspec.Raw = msgspec.Raw(b"null")


def _recognises(head: str) -> bool:
    return any(form.search(head) is not None for form in (_RECORD, _SUMMARY, _INPUTS))


def _read(path: Path, reading: Reading) -> Trace:
    head = _head(path)
    _refuse_without_requests(path, head)
    if _BODY.search(head):
        return by_time(read_text(path, TEXT, reading))
    rows, uncounted = Rows(path), 0
    for where, row in json_rows(path, _Row, rows):
        found = row.metrics
        inputs = _first(found.usage_prompt_tokens, found.input_sequence_length)
        outputs = _first(found.usage_completion_tokens, found.output_sequence_length)
        if why := _unusable(row.metadata, row.error):
            rows.leave_out(where, why)
        elif inputs is None or outputs is None:
            rows.leave_out(where, "its lengths are not stated")
        else:
            rows.add(row.metadata.request_start_ns, inputs, outputs, _service(row.metadata))
            uncounted += _tokens(found.usage_prompt_tokens) is None
    return by_time(rows.trace("aiperf", 1e-9))._replace(doubts=tuple(_doubts(uncounted)))


def _doubts(uncounted: int) -> Iterator[Doubt]:
    """What records without a body leave open; of `uncounted` requests they do not state what the server counted."""
    text = "no prompt is in this file, so reuse is not known; `aiperf profile --export-level raw` writes them"
    yield Doubt("reuse", f"{text} (profile_export_raw.jsonl)")
    if uncounted:
        text = (
            f"of {uncounted:,} requests the prompt tokens are AIPerf's own count: without the chat template around them"
        )
        yield Doubt("tokens", f"{text}, unless it ran with --use-server-token-count")


def _head(path: Path) -> str:
    with opened(path) as file:
        try:
            return file.read(_LOOK).decode("utf-8", "replace").removeprefix("\ufeff")
        except (OSError, EOFError, ValueError):
            return ""  # what reads the lines says where the damage is


def _refuse_without_requests(path: Path, head: str) -> None:
    """Raises BadInput that names the file of the same run which holds the requests."""
    if _INPUTS.match(head):
        do = "give profile_export_raw.jsonl of the same run (aiperf profile --export-level raw)"
        raise BadInput(f"{path} holds AIPerf's prompts without their times and answers; {do}")
    if _SUMMARY.match(head):
        records = f"{path.stem.removesuffix('_aiperf')}.jsonl"
        raise BadInput(f"{path} is AIPerf's summary, which holds no requests; give {records} of the same run")


def _requests_of(where: str, row: object) -> list[Logged]:
    """A record of `--export-level raw`."""
    assert isinstance(row, bytes)
    try:
        record = msgspec.json.decode(row, type=_Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Unusable(str(problem)[:120]) from None
    if why := _unusable(record.metadata, record.error):
        raise Unusable(why)
    usage = _usage(record.responses)
    found = _requests.requests(where, {"body": record.payload, "response": usage})
    time = record.metadata.request_start_ns * 1e-9
    taken = _service(record.metadata)
    service = None if taken is None or len(found) > 1 else taken * 1e-9
    return [one._replace(time=time, service=service, record=None) for one in found]


def _service(metadata: _Metadata) -> float | None:
    """Nanoseconds from the request to the end of its answer."""
    return None if metadata.request_end_ns is None else metadata.request_end_ns - metadata.request_start_ns


def _usage(responses: list[Any]) -> dict[str, object] | None:
    """The last piece of the answer that states what the server counted."""
    for text in _pieces(responses):
        if '"usage"' in text:
            found = _requests.parsed(text)
            if isinstance(found, dict) and isinstance(found.get("usage"), dict):
                return {"usage": found["usage"]}
    return None


def _pieces(responses: list[Any]) -> Iterator[str]:
    """The answer's pieces of text, the last one first: events of a stream, or the whole of it."""
    for response in reversed(responses):
        if isinstance(response, dict):
            packets = response.get("packets")
            held = [response, *packets] if isinstance(packets, list) else [response]
            for one in reversed(held):
                for key in ("value", "text"):
                    if isinstance(one, dict) and isinstance(one.get(key), str):
                        yield one[key]


def _unusable(metadata: _Metadata, error: bytes) -> str | None:
    """Why a request is none of the traffic that was measured; None when it is."""
    if metadata.was_cancelled:
        return "the request was cancelled"
    if bytes(error) != b"null":
        return "the request failed"
    return "a request of the warm-up" if metadata.benchmark_phase == "warmup" else None


def _first(*stated: _Value | float | None) -> int | None:
    """The first whole number of tokens that is stated; None when none is."""
    return next((number for value in stated if (number := _tokens(value)) is not None), None)


def _tokens(stated: _Value | float | None) -> int | None:
    number = stated.value if isinstance(stated, _Value) else stated
    if number is None or not 0 <= number <= MOST_TOKENS or number != int(number):
        return None
    return int(number)


TEXT = TextFormat("aiperf", filled_lines, _requests_of)
READER = TraceReader("AIPerf's per-request export", _recognises, _read, TEXT)
