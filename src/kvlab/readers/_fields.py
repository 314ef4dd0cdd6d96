"""What readers share: numbers out of documents that anyone may have edited, and the statistics that stand in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kvlab.core.errors import BadInput, shortened
from kvlab.core.result import Document
from kvlab.core.units import MOST
from kvlab.core.vllm_result import LOAD_KEYS, is_metric

SHOWN = ("mean", "median", "p99")
"""Statistics kept of a number that has no name of vLLM's."""


def number(document: Document, key: str, path: Path) -> float | None:
    """The number at `key`; None when it is absent, null or no number (NaN).

    Raises BadInput when something else stands there.
    """
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(f"{path}: {key} is {shortened(repr(value))}, and must be a number; repeat the run")
    try:
        found = float(value)
    except OverflowError:
        raise BadInput(f"{path}: {key} is {shortened(str(value))}, which no run measures; repeat the run") from None
    return None if math.isnan(found) else found


def numbers(document: Document, key: str, path: Path) -> Sequence[float]:
    """The numbers of a list; none when it is absent or lacks one. Raises BadInput when something else stands there."""
    values = document.get(key)
    if values is None:
        return ()
    if not isinstance(values, list):
        raise BadInput(f"{path}: {key} is no list of numbers; repeat the run")
    found = [number({key: value}, key, path) for value in values]
    return [value for value in found if value is not None] if None not in found else ()


def check_vllm_numbers(document: Document, path: Path) -> None:
    """Raises BadInput for one of vLLM's keys that holds what cannot have been measured."""
    for key, value in document.items():
        if not is_metric(key) and key not in LOAD_KEYS:
            continue
        wrong_kind = is_metric(key) and (isinstance(value, bool) or not isinstance(value, int | float | None))
        if wrong_kind or (isinstance(value, int | float) and not 0 <= value <= MOST):
            raise absurd(path, key, value)


def absurd(path: Path, key: str, value: object) -> BadInput:
    """The error for a number that no run measures."""
    return BadInput(
        f"{path}: {key} is {shortened(repr(value))}, and must be a number from 0 to 2^60; the file was edited or is"
        " damaged: repeat the run"
    )


def section(document: Document, key: str) -> Document:
    """The object at `key`; an empty one when there is none."""
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def objects(value: object) -> tuple[Document, ...]:
    """The objects of a list; none when it is no list."""
    return tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def present(pairs: Mapping[str, float | None]) -> dict[str, float]:
    """What is there, without what is absent."""
    return {name: value for name, value in pairs.items() if value is not None}


def stated(pairs: Mapping[str, float | str | None]) -> dict[str, float | str | None]:
    """What describes the load, without what the file does not say."""
    return {name: value for name, value in pairs.items() if value is not None}


def spread(
    stats: Document, metric: str, path: Path, *, keys: Mapping[str, str], scale: float = 1.0
) -> dict[str, float]:
    """Statistics of one latency under vLLM's names: `keys` from vLLM's part ("mean", "p99") to the tool's key."""
    found = {}
    for part, key in keys.items():
        value = number(stats, key, path)
        if value is not None:
            found[f"{part}_{metric}_ms"] = value * scale
    return found


def columns(
    rows: Iterable[Mapping[str, float | None]], needed: Sequence[str], optional: Sequence[str]
) -> dict[str, tuple[float, ...]]:
    """Lists by name of rows that have all `needed` names; an optional name is listed only where every row has it.

    `tpot_ms` is the exception, as in vLLM's file: requests of one token have none.
    """
    whole = [row for row in rows if all(row.get(name) is not None for name in needed)]
    found: dict[str, tuple[float, ...]] = {}
    for name in (*needed, *optional):
        values = tuple(value for row in whole if (value := row.get(name)) is not None)
        if len(values) == len(whole) or name == "tpot_ms":
            found[name] = values
    return {name: values for name, values in found.items() if values}


class Streams(NamedTuple):
    """What a file keeps of each request, failed ones too: seconds, tokens, and no `starts` or `inputs` in some."""

    ttfts: Sequence[float]
    gaps: Sequence[Sequence[float]]
    outputs: Sequence[float]
    inputs: Sequence[float] = ()
    starts: Sequence[float] = ()


def completed(of: Streams) -> dict[str, tuple[float, ...]]:
    """Lists by name of the requests that completed; none when the lists do not go together.

    A failed request has an output length of 0 (vLLM's and SGLang's). The latency ends with the last chunk, so it is
    the first token's time plus all gaps.
    """
    if not of.ttfts or not len(of.ttfts) == len(of.gaps) == len(of.outputs):
        return {}
    good = [index for index, tokens in enumerate(of.outputs) if tokens > 0]
    decode = {index: sum(of.gaps[index]) for index in good}
    found = {
        "ttft_ms": [of.ttfts[index] * 1000 for index in good],
        "tpot_ms": [decode[index] / (of.outputs[index] - 1) * 1000 for index in good if of.outputs[index] > 1],
        "e2el_ms": [(of.ttfts[index] + decode[index]) * 1000 for index in good],
        "output_tokens": [of.outputs[index] for index in good],
    }
    if len(of.inputs) == len(of.ttfts):
        found["input_tokens"] = [of.inputs[index] for index in good]
    if len(of.starts) == len(of.ttfts):
        found["first_at"] = [of.starts[index] + of.ttfts[index] for index in good]
        found["done_at"] = [of.starts[index] + of.ttfts[index] + decode[index] for index in good]
    return {name: tuple(values) for name, values in found.items()}


def summary(values: Sequence[float], metric: str) -> dict[str, float]:
    """Mean, median, standard deviation and 99th percentile as vLLM computes them; nothing of no values."""
    if not values:
        return {}
    import numpy as np

    data = np.asarray(values, dtype=float)
    statistics = {"mean": data.mean(), "median": np.median(data), "std": data.std(), "p99": np.percentile(data, 99)}
    return {f"{part}_{metric}_ms": float(value) for part, value in statistics.items()}


def said(**words: object) -> str:
    """What a run was, of the words that are known: "request_rate 4, max_concurrency 8"."""
    return ", ".join(f"{name} {value}" for name, value in words.items() if value is not None)
