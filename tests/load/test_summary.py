"""vLLM's own requests, summed up by us, must give vLLM's own numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.errors import BadInput
from kvlab.core.measure import RequestRow
from kvlab.load.summary import summarise

GOLDEN = Path(__file__).parent.parent / "golden" / "results" / "vllm_0.32-detailed.json"
VLLM: dict[str, Any] = json.loads(GOLDEN.read_text())


def vllm_rows() -> list[RequestRow]:
    found = []
    for index, (start, ttft, itls) in enumerate(zip(VLLM["start_times"], VLLM["ttfts"], VLLM["itls"], strict=True)):
        output = VLLM["output_lens"][index]
        e2e = VLLM["latencies"][index]
        found.append(
            RequestRow(
                index=index, prompt_id=str(index), scheduled=start, sent=start, first=start + ttft, done=start + e2e,
                ttft=ttft, e2e=e2e, tpot=(e2e - ttft) / (output - 1), itls=tuple(itls),
                prompt_tokens=VLLM["input_lens"][index], output_tokens=output,
            )
        )  # fmt: skip
    return found


def test_vllm_rows_give_vllm_numbers() -> None:
    ours = summarise(vllm_rows(), VLLM["duration"], (50, 90, 99))
    for name, value in ours.items():
        assert value == pytest.approx(VLLM[name], rel=1e-9), name
    numbers = {name for name, value in VLLM.items() if isinstance(value, int | float)}
    assert numbers - ours.keys() == {"num_prompts", "burstiness", "max_concurrency", "rtfx"}


def row(error: str | None = None, **values: Any) -> RequestRow:
    return RequestRow(index=0, prompt_id="p", scheduled=0, sent=0, error=error, **values)


def test_failed_requests_count_as_failed_and_in_nothing_else() -> None:
    good = row(first=0.1, done=0.5, ttft=0.1, e2e=0.5, tpot=0.1, itls=(0.1,) * 4, prompt_tokens=7, output_tokens=5)
    found = summarise([good, row("cut", first=0.2, ttft=0.2, itls=(9.0,), output_tokens=1)], 2.0)
    assert (found["completed"], found["failed"]) == (1, 1)
    assert (found["total_output_tokens"], found["output_throughput"], found["request_throughput"]) == (5, 2.5, 0.5)
    assert found["p99_itl_ms"] == pytest.approx(100)


def test_what_was_not_measured_is_absent() -> None:
    found = summarise([row(first=0.1, done=0.1, ttft=0.1, e2e=0.1, output_tokens=1)], 1.0)
    assert "total_input_tokens" not in found
    assert "total_token_throughput" not in found
    assert not any("tpot" in name or "itl" in name for name in found)
    nothing = summarise([row("refused")], 1.0)
    assert nothing == {"duration": 1.0, "completed": 0, "failed": 1, "request_throughput": 0.0}


@given(st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_are_those_of_numpy(seconds: list[float], percentile: float) -> None:
    rows = [row(first=s, done=s, ttft=s, e2e=s, output_tokens=1) for s in seconds]
    found = summarise(rows, 1.0, (percentile,))
    assert found[f"p{percentile:g}_ttft_ms"] == pytest.approx(float(np.percentile(seconds, percentile)) * 1000)
    assert found["median_ttft_ms"] == pytest.approx(float(np.median(seconds)) * 1000)


def test_percentile_names_and_limits() -> None:
    assert "p99.9_ttft_ms" in summarise([row(first=1, done=1, ttft=1, e2e=1, output_tokens=1)], 1.0, (99.9,))
    with pytest.raises(BadInput, match="percentile 101 is not between 0 and 100"):
        summarise([], 1.0, (101,))
