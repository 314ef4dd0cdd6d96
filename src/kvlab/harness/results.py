"""The files of lm-evaluation-harness: results_TIME.json, and samples_TASK_TIME.jsonl beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.harness import HarnessRun, Sample, Score
from kvlab.store import read_bytes

KEPT = 600
"""Characters of a prompt and of an answer that are kept."""
_PLAIN = ("alias", "name", "sample_len")


class _Results(msgspec.Struct, frozen=True, rename={"n_samples": "n-samples"}):
    results: dict[str, dict[str, Any]]
    configs: dict[str, dict[str, Any]]
    higher_is_better: dict[str, dict[str, Any]] = {}
    n_samples: dict[str, dict[str, Any]] = {}
    lm_eval_version: str | None = None


class _Line(msgspec.Struct, frozen=True):
    """A line of the samples; the values of the metrics stand beside these keys, under the metrics' names."""

    doc_id: int
    filter: str = "none"
    doc_hash: str = ""
    prompt_hash: str = ""
    target: Any = None
    arguments: Any = None
    filtered_resps: Any = None


def read(folder: Path) -> HarnessRun:
    """The newest results below `folder`, with their samples. Raises BadInput when there are none, or they are damaged.

    Tasks are those with a configuration: the numbers of groups are means of theirs, and are left out.
    """
    files = sorted(folder.rglob("results_*.json"), key=lambda path: path.stat().st_mtime_ns)
    if not files:
        raise BadInput(f"lm_eval left no results_*.json in {folder}; see its log")
    path = files[-1]
    try:
        found = msgspec.json.decode(read_bytes(path, "results of lm_eval"), type=_Results)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise BadInput(f"{path} is not a results file of lm_eval: {problem}; run the tasks again") from None
    scores = tuple(score for task in found.configs if task in found.results for score in _scores(task, found))
    if not scores:
        raise BadInput(f"{path} states no number for any task; run the tasks again")
    first: dict[str, Score] = {}
    for score in scores:
        first.setdefault(score.task, score)
    time = path.name.removeprefix("results_").removesuffix(".json")
    samples = [
        sample
        for task, score in first.items()
        for sample in _samples(path.with_name(f"samples_{task}_{time}.jsonl"), score)
    ]
    types = dict.fromkeys(str(config.get("output_type", "unknown")) for config in found.configs.values())
    return HarnessRun(version=found.lm_eval_version, scores=scores, samples=tuple(samples), requests=tuple(types))


def _scores(task: str, found: _Results) -> list[Score]:
    """The task's numbers, in the order of its configuration: its first metric under its first filter comes first."""
    stated, config = found.results[task], found.configs[task]
    metrics = [str(item.get("metric")) for item in config.get("metric_list") or () if isinstance(item, dict)]
    filters = [str(item.get("name")) for item in config.get("filter_list") or () if isinstance(item, dict)]
    scores = []
    for key, value in stated.items():
        metric, comma, name = key.partition(",")
        if not comma or metric.endswith("_stderr") or metric in _PLAIN or not _is_number(value):
            continue
        error = stated.get(f"{metric}_stderr,{name}")
        better = found.higher_is_better.get(task, {}).get(metric)
        scores.append(
            Score(
                task=task,
                metric=metric,
                filter=name,
                value=float(value),
                stderr=float(error) if _is_number(error) else None,
                higher_is_better=better if isinstance(better, bool) else None,
                samples=_count(found.n_samples.get(task)),
            )
        )

    def rank(score: Score) -> tuple[int, int]:
        return (
            metrics.index(score.metric) if score.metric in metrics else len(metrics),
            filters.index(score.filter) if score.filter in filters else len(filters),
        )

    return sorted(scores, key=rank)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(stated: Mapping[str, Any] | None) -> int | None:
    count = (stated or {}).get("effective")
    return count if isinstance(count, int) else None


def _samples(path: Path, score: Score) -> Iterator[Sample]:
    """The lines under the score's filter whose metric is one number; none when the file is missing."""
    if not path.is_file():
        return
    for number, line in enumerate(read_bytes(path, "samples of lm_eval").splitlines(), 1):
        if not line.strip():
            continue
        try:
            known = msgspec.json.decode(line, type=_Line)
            value = msgspec.json.decode(line, type=dict[str, Any]).get(score.metric)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise BadInput(f"{path} line {number} is not a sample of lm_eval: {problem}; run the tasks again") from None
        if known.filter == score.filter and _is_number(value):
            yield Sample(
                id=f"{score.task} {known.doc_id}",
                task=score.task,
                hash=f"{known.doc_hash} {known.prompt_hash}",
                value=float(value),
                asked=_asked(known.arguments)[-KEPT:],
                wanted=str(known.target)[:KEPT],
                said=_first(known.filtered_resps)[:KEPT],
            )


def _asked(arguments: object) -> str:
    """The prompt: the first argument of the first request."""
    while isinstance(arguments, dict | list) and arguments:
        arguments = next(iter(arguments.values() if isinstance(arguments, dict) else arguments))
    return str(arguments or "")


def _first(answers: object) -> str:
    while isinstance(answers, list) and answers:
        answers = answers[0]
    return str(answers or "")
