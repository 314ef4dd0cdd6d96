"""Result files of `vllm bench serve --save-result`, with and without `--save-detailed`, vLLM 0.8 to 0.33.

0.8 has no `failed` and writes "request_goodput:"; start_times come with 0.15, latencies and queue_times after 0.26.
Without start_times the tokens cannot be placed in time, so throughput gets no interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.result import Reader, Result
from kvlab.core.vllm_result import load_of, metrics_of
from kvlab.readers._fields import Streams, check_vllm_numbers, completed

_MARKS = {"model_id", "tokenizer_id", "num_prompts", "duration", "completed", "request_throughput"}


class _Detailed(msgspec.Struct, frozen=True):
    """The lists of --save-detailed that are read, one entry per request; seconds."""

    output_lens: list[int] | None = None
    input_lens: list[int] | None = None
    ttfts: list[float] | None = None
    itls: list[list[float]] | None = None
    start_times: list[float] | None = None


def _recognises(document: Mapping[str, object]) -> bool:
    return document.keys() >= _MARKS and "kvlab" not in document


def _read(document: Mapping[str, object], path: Path) -> Result:
    check_vllm_numbers(document, path)
    try:
        detailed = msgspec.convert(document, _Detailed)
    except msgspec.ValidationError as problem:
        raise BadInput(f"{path} has vLLM's keys with other contents: {problem}") from None
    return Result(format="vllm", metrics=metrics_of(document), load=load_of(document), lists=_lists(detailed))


def _lists(kept: _Detailed) -> dict[str, tuple[float, ...]]:
    """Per-request values of the completed requests; empty without --save-detailed."""
    starts, inputs = kept.start_times or (), kept.input_lens or ()
    return completed(Streams(kept.ttfts or (), kept.itls or (), kept.output_lens or (), inputs, starts))


VLLM = Reader(name="vllm", title="vllm bench serve", recognises=_recognises, read=_read)
