"""Rows of a run as the numbers of `vllm bench serve`: same names, same definitions, milliseconds and seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kvlab.core.errors import BadInput
from kvlab.core.measure import RequestRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def summarise(rows: Sequence[RequestRow], duration: float, percentiles: Sequence[float] = (99.0,)) -> dict[str, float]:
    """The metrics of the completed requests; a metric that nothing was measured for is absent.

    Percentiles interpolate linearly and standard deviations are those of the whole (numpy's and vLLM's defaults).
    Gaps between tokens are pooled over all requests. Raises BadInput for a percentile outside 0..100.
    """
    for percentile in percentiles:
        if not 0 <= percentile <= 100:
            raise BadInput(f"percentile {percentile} is not between 0 and 100")
    good = [row for row in rows if row.error is None]
    found: dict[str, float] = {"duration": duration, "completed": len(good)}
    found["failed"] = sum(row.error is not None and not row.cancelled for row in rows)
    prompt = _total(row.prompt_tokens for row in good)
    output = _total(row.output_tokens for row in good)
    if prompt is not None:
        found["total_input_tokens"] = prompt
    if output is not None:
        found["total_output_tokens"] = output
    found["request_throughput"] = len(good) / duration
    if output is not None:
        found["output_throughput"] = output / duration
        if prompt is not None:
            found["total_token_throughput"] = (prompt + output) / duration
    if good:
        found |= _peaks(good)
    for name, values in (
        ("ttft", [row.ttft for row in good]),
        ("tpot", [row.tpot for row in good]),
        ("itl", [gap for row in good for gap in row.itls]),
        ("e2el", [row.e2e for row in good]),
    ):
        found |= _spread(name, [value for value in values if value is not None], percentiles)
    return found


def percentile_name(percentile: float) -> str:
    """ "p99", "p99.9": how vLLM writes it."""
    return f"p{percentile:g}"


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum; None when the server did not count every one."""
    found = list(counts)
    known = [count for count in found if count is not None]
    return sum(known) if len(known) == len(found) and found else None


def _spread(name: str, seconds: Sequence[float], percentiles: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    import numpy as np

    values = np.asarray(seconds) * 1000
    found = {
        f"mean_{name}_ms": float(values.mean()),
        f"median_{name}_ms": float(np.median(values)),
        f"std_{name}_ms": float(values.std()),
    }
    for percentile in percentiles:
        found[f"{percentile_name(percentile)}_{name}_ms"] = float(np.percentile(values, percentile))
    return found


def _peaks(good: Sequence[RequestRow]) -> dict[str, float]:
    """The busiest second. A request counts in every second that it touches, so the peak may exceed the concurrency."""
    import numpy as np

    begin = min(row.sent for row in good)
    ends = [row.done if row.done is not None else row.sent for row in good]
    seconds = int(np.ceil(max(ends) - begin)) + 1
    tokens, requests = np.zeros(seconds), np.zeros(seconds + 1)
    for row, end in zip(good, ends, strict=True):
        requests[int(row.sent - begin)] += 1
        requests[int(end - begin) + 1] -= 1
        if row.first is not None:
            moments = row.first - begin + np.concatenate([[0.0], np.cumsum(row.itls)])
            np.add.at(tokens, np.minimum(moments.astype(int), seconds - 1), 1)
    return {
        "max_output_tokens_per_s": float(tokens.max()),
        "max_concurrent_requests": int(requests.cumsum().max()),
    }
