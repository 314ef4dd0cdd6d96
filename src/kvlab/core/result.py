"""Result files of load generators, whoever wrote them, under vLLM's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

BENCH_SCHEMA = "kvlab/bench@1"
"""Of the `kvlab` object in kvlab's own result files."""


def rows_beside(path: Path) -> Path:
    """Where kvlab keeps a row per request beside the result file `path`: X.json, X.requests.jsonl."""
    return path.with_suffix(".requests.jsonl")


class Own(msgspec.Struct, frozen=True):
    """A number that its tool defines otherwise than vLLM does, or that vLLM does not have, kept under the tool's name.

    `means` completes "this is ..."; two files of one tool have it in common and can be compared.
    """

    value: float
    unit: str
    means: str
    higher_is_better: bool = False
    values: tuple[float, ...] = ()
    """The repetitions that `value` is the mean of, where the file has them."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a result file.

    `metrics`: numbers under the names and units of `vllm bench serve --save-result`, only what is defined as there.
    `load`: what describes the load (num_prompts, request_rate, max_concurrency ...) under vLLM's names. `lists`: what
    was kept per completed request, all of one length: `ttft_ms`, `tpot_ms` (only requests of two tokens and more),
    `e2el_ms`, and for throughput `first_at`, `done_at` (seconds from any fixed moment), `input_tokens`,
    `output_tokens`. `latency_from` says where ttft and e2el start. `own`: numbers of other definitions.
    """

    format: str
    metrics: dict[str, float]
    load: dict[str, float | str | None] = {}
    lists: dict[str, tuple[float, ...]] = {}
    latency_from: str = "sent"
    prompts: str | None = None
    """A hash of what was sent: equal hashes make request i of two files a pair."""
    cached: float | None = None
    """Share of the prompt tokens that came from the engine's prefix cache; None when it was not seen."""
    own: dict[str, Own] = {}


Document = Mapping[str, object]
"""A JSON object; of a CSV file, `{"csv": [block, ...]}`, each block a list of rows between empty lines."""


def whole(document: Document) -> tuple[Document, ...]:
    """The one run of a document that holds one."""
    return (document,)


def unnamed(document: Document) -> str:
    """Nothing tells the runs of such a file apart."""
    return ""


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """One format: how its document is recognised, and how it is read (`path` for what lies beside it).

    A document with several runs is taken apart by `runs`; `label` says what a run was, for the user who must choose.
    """

    name: str
    title: str
    recognises: Callable[[Document], bool]
    read: Callable[[Document, Path], Result]
    runs: Callable[[Document], Sequence[Document]] = whole
    label: Callable[[Document], str] = unnamed
