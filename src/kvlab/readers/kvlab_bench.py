"""Result files of `kvlab bench`, with the rows beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from kvlab import store
from kvlab.core.errors import BadInput, shortened
from kvlab.core.measure import RequestRow
from kvlab.core.result import BENCH_SCHEMA, Own, Reader, Result, rows_beside
from kvlab.core.vllm_result import load_of, metrics_of
from kvlab.readers._fields import check_vllm_numbers


def _recognises(document: Mapping[str, object]) -> bool:
    own = document.get("kvlab")
    return isinstance(own, dict) and str(own.get("schema", "")).startswith("kvlab/bench@")


def _read(document: Mapping[str, object], path: Path) -> Result:
    check_vllm_numbers(document, path)
    own = document["kvlab"]
    assert isinstance(own, dict)
    if own["schema"] != BENCH_SCHEMA:
        written = shortened(str(own["schema"]))
        raise BadInput(f"{path} was written as {written}, this kvlab reads {BENCH_SCHEMA}; use the newer kvlab")
    if "latency_from" not in own:
        raise BadInput(f"{path} does not say from when its latencies count (kvlab.latency_from); repeat the run")
    return Result(
        format="kvlab",
        metrics=metrics_of(document),
        load=load_of(document),
        lists=_lists(rows_beside(path)),
        latency_from=str(own["latency_from"]),
        prompts=str(own["prompts_sha256"]) if "prompts_sha256" in own else None,
        cached=_cached(own),
        own=_own(own, path),
    )


def _own(document: Mapping[str, object], path: Path) -> dict[str, Own]:
    """What another load generator measured by definitions of its own, where `--runner` was given."""
    try:
        return msgspec.convert(document.get("own", {}), dict[str, Own])
    except msgspec.ValidationError as problem:
        raise BadInput(f"{path}: kvlab.own has other contents than kvlab writes: {problem}; repeat the run") from None


def _cached(own: Mapping[str, object]) -> float | None:
    pool = own.get("pool")
    rate = pool.get("prefix_hit_rate") if isinstance(pool, dict) else None
    return float(rate) if isinstance(rate, int | float) and 0 <= rate <= 1 else None


def _lists(path: Path) -> dict[str, tuple[float, ...]]:
    """Per-request values; empty when the rows were not kept."""
    if not path.exists():
        return {}
    data = store.read_bytes(path, "file of requests")
    found: dict[str, list[float]] = {
        name: [] for name in ("ttft_ms", "tpot_ms", "e2el_ms", "first_at", "done_at", "input_tokens", "output_tokens")
    }
    for number, line in enumerate(data.splitlines(), 1):
        try:
            row = msgspec.json.decode(line, type=RequestRow)
        except (msgspec.DecodeError, RecursionError) as problem:
            raise BadInput(f"{path} line {number} is not a request: {problem}") from None
        if row.error is not None or row.first is None or row.done is None:
            continue
        for name, value, scale in (
            ("ttft_ms", row.ttft, 1000),
            ("tpot_ms", row.tpot, 1000),
            ("e2el_ms", row.e2e, 1000),
            ("first_at", row.first, 1),
            ("done_at", row.done, 1),
            ("input_tokens", row.prompt_tokens, 1),
            ("output_tokens", row.output_tokens, 1),
        ):
            if value is not None:
                found[name].append(value * scale)
    return {name: tuple(values) for name, values in found.items()}


KVLAB = Reader(name="kvlab", title="kvlab bench", recognises=_recognises, read=_read)
