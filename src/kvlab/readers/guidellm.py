"""guidellm's benchmarks.json: one run for each strategy (guidellm 0.8; older files where the same keys stand in them).

What differs from vLLM's file: time_per_output_token_ms is time to the last token / output tokens, so it contains TTFT;
inter_token_latency_ms is (last - first token) / (tokens - 1) of a request, but its statistics count a request once for
each of its tokens. Both keep guidellm's names; TPOT comes from the requests, where the file holds them all. Percentiles
are values that occurred, without interpolation. request_latency is in seconds, and ends when the stream closes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kvlab.core.result import Document, Own, Reader, Result
from kvlab.readers._fields import SHOWN, columns, number, objects, present, said, section, spread, summary

_STATISTICS = {"mean": "mean", "median": "median", "std": "std_dev"}
_PERCENTILES = {f"p{n}": f"p{n:02}" for n in (1, 5, 10, 25, 75, 90, 95, 99)} | {"p99.9": "p999"}
_WEIGHTED = "guidellm's (last - first token) / (tokens - 1), a request counted once for each of its tokens"
_WITH_TTFT = "guidellm's time to the last token / output tokens, so TTFT is in it"


def _recognises(document: Document) -> bool:
    return any("metrics" in run and "requests_per_second" in section(run, "metrics") for run in _benchmarks(document))


def _benchmarks(document: Document) -> tuple[Document, ...]:
    return objects(document.get("benchmarks"))


def _strategy(run: Document) -> Document:
    return section(section(run, "config"), "strategy") or section(section(run, "args"), "strategy")


def _label(run: Document) -> str:
    strategy = _strategy(run)
    return said(**{str(strategy.get("type_", "strategy")): strategy.get("rate", strategy.get("streams"))})


def _of(run: Document, metric: str) -> Document:
    """A metric's statistics over the answered requests."""
    return section(section(section(run, "metrics"), metric), "successful")


def _read(run: Document, path: Path) -> Result:
    totals = section(section(run, "metrics"), "request_totals")
    answered, errored = number(totals, "successful", path), number(totals, "errored", path)
    lists = _lists(run, path, answered)
    return Result(
        format="guidellm",
        metrics=present(
            {
                "duration": number(run, "duration", path),
                "completed": answered,
                "failed": errored,
                "total_input_tokens": number(_of(run, "prompt_token_count"), "total_sum", path),
                "total_output_tokens": number(_of(run, "output_token_count"), "total_sum", path),
                "request_throughput": number(_of(run, "requests_per_second"), "mean", path),
                "output_throughput": number(_of(run, "output_tokens_per_second"), "mean", path),
                "total_token_throughput": number(_of(run, "tokens_per_second"), "mean", path),
            }
        )
        | _times(run, "time_to_first_token_ms", "ttft", path)
        | summary(lists.get("tpot_ms", ()), "tpot")
        | _times(run, "request_latency", "e2el", path, scale=1000),
        load=_load(run, path),
        lists=lists,
        own=_own(run, "inter_token_latency_ms", _WEIGHTED, path)
        | _own(run, "time_per_output_token_ms", _WITH_TTFT, path),
    )


def _times(run: Document, key: str, metric: str, path: Path, scale: float = 1.0) -> dict[str, float]:
    stats = _of(run, key)
    if number(stats, "count", path) == 0:  # guidellm writes zeros where nothing was measured
        return {}
    places = section(stats, "percentiles")
    return spread(stats, metric, path, keys=_STATISTICS, scale=scale) | spread(
        places, metric, path, keys=_PERCENTILES, scale=scale
    )


def _own(run: Document, key: str, means: str, path: Path) -> dict[str, Own]:
    found = _times(run, key, "own", path)
    return {f"{key}.{part}": Own(found[name], "ms", means) for part in SHOWN if (name := f"{part}_own_ms") in found}


def _load(run: Document, path: Path) -> dict[str, float | str | None]:
    strategy = _strategy(run)
    rate, streams = number(strategy, "rate", path), number(strategy, "streams", path)
    found: dict[str, float | str | None] = {}
    made = number(section(section(run, "metrics"), "request_totals"), "total", path)
    if made is not None:
        found["num_prompts"] = made
    if rate is not None:
        found["request_rate"] = rate
    elif streams is not None:
        found |= {"request_rate": "inf", "max_concurrency": streams}
    return found


def _lists(run: Document, path: Path, answered: float | None) -> dict[str, tuple[float, ...]]:
    """Values by request; empty when the file holds a sample of them only."""
    rows: Sequence[Document] = objects(section(run, "requests").get("successful"))
    if answered is None or len(rows) != answered:
        return {}
    needed = ("ttft_ms", "e2el_ms", "first_at", "done_at")
    lists = columns(_rows(rows, path), needed, ("tpot_ms", "input_tokens", "output_tokens"))
    return lists if len(lists.get("ttft_ms", ())) == answered else {}


def _rows(requests: Sequence[Document], path: Path) -> Iterator[dict[str, float | None]]:
    for row in requests:
        start, whole = number(row, "request_start_time", path), number(row, "request_latency", path)
        ttft = number(row, "time_to_first_token_ms", path)
        tokens = number(row, "output_tokens", path)
        known = start is not None and whole is not None and ttft is not None
        yield {
            "ttft_ms": ttft,
            "tpot_ms": number(row, "inter_token_latency_ms", path) if tokens is not None and tokens > 1 else None,
            "e2el_ms": None if whole is None else whole * 1000,
            "first_at": (start or 0) + (ttft or 0) / 1000 if known else None,
            "done_at": (start or 0) + (whole or 0) if known else None,
            "input_tokens": number(row, "prompt_tokens", path),
            "output_tokens": tokens,
        }


GUIDELLM = Reader(name="guidellm", title="guidellm", recognises=_recognises, read=_read, runs=_benchmarks, label=_label)
