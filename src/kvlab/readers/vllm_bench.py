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
from kvlab.readers._fields import check_vllm_numbers

_MARKS = {"model_id", "tokenizer_id", "num_prompts", "duration", "completed", "request_throughput"}


class _Detailed(msgspec.Struct, frozen=True):
    """The lists of --save-detailed, one entry per request; seconds."""

    output_lens: list[int] | None = None
    input_lens: list[int] | None = None
    ttfts: list[float] | None = None
    itls: list[list[float]] | None = None
    start_times: list[float] | None = None
    latencies: list[float] | None = None
    errors: list[str] | None = None


def _recognises(document: Mapping[str, object]) -> bool:
    return document.keys() >= _MARKS and "kvlab" not in document


def _read(document: Mapping[str, object], path: Path) -> Result:
    check_vllm_numbers(document, path)
    try:
        detailed = msgspec.convert(document, _Detailed)
    except msgspec.ValidationError as problem:
        raise BadInput(f"{path} has vLLM's keys with other contents: {problem}") from None
    return Result(format="vllm", metrics=metrics_of(document), load=load_of(document), lists=_lists(detailed))


def _lists(detailed: _Detailed) -> dict[str, tuple[float, ...]]:
    """Per-request values of the completed requests; empty without --save-detailed."""
    ttfts, itls, outputs = detailed.ttfts, detailed.itls, detailed.output_lens
    if ttfts is None or itls is None or outputs is None or not len(ttfts) == len(itls) == len(outputs):
        return {}
    # vLLM gives a failed request an output length of 0.
    good = [index for index, tokens in enumerate(outputs) if tokens > 0]
    # Its latency ends with the last token, so it is the first token's time plus all gaps.
    latency = {index: ttfts[index] + sum(itls[index]) for index in good}
    found: dict[str, list[float]] = {
        "ttft_ms": [ttfts[index] * 1000 for index in good],
        "tpot_ms": [
            (latency[index] - ttfts[index]) / (outputs[index] - 1) * 1000 for index in good if outputs[index] > 1
        ],
        "e2el_ms": [latency[index] * 1000 for index in good],
        "output_tokens": [outputs[index] for index in good],
    }
    inputs, starts = detailed.input_lens, detailed.start_times
    if inputs is not None and len(inputs) == len(ttfts):
        found["input_tokens"] = [inputs[index] for index in good]
    if starts is not None and len(starts) == len(ttfts):
        found["first_at"] = [starts[index] + ttfts[index] for index in good]
        found["done_at"] = [starts[index] + latency[index] for index in good]
    return {name: tuple(values) for name, values in found.items()}


VLLM = Reader(name="vllm", title="vllm bench serve", recognises=_recognises, read=_read)
