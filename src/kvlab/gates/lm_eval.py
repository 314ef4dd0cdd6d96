"""Tasks of lm-evaluation-harness, run by the harness itself against each server, with its standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvlab.core.errors import KvlabError
from kvlab.core.exam import Marked
from kvlab.core.gate import CannotRun, Example, Figure, GateOptions, GateRule, Part, PartFinding, PartVerdict, Side
from kvlab.core.harness import HarnessRun, Sample, Score
from kvlab.core.interval import Interval
from kvlab.core.statistics import NORMAL
from kvlab.gates import _accuracy as accuracy
from kvlab.harness import command, results

NAME, TITLE = "lm-eval", "Tasks of lm-evaluation-harness"


def _collect(side: Side) -> HarnessRun:
    from tempfile import mkdtemp

    options = side.options
    binary = command.program(options)
    if binary is None:
        raise CannotRun(command.MISSING)
    folder = Path(mkdtemp(prefix="run-", dir=side.folder)).absolute()
    words = command.argv(binary, options, _target(side), folder / "results")
    include = options.lm_eval_include
    try:
        command.run(words, folder / "lm_eval.log", None if include is None else Path(include), side.progress)
    except KvlabError as problem:
        raise CannotRun(f"{problem}{_WITHOUT if 'tokenizer_backend=None' in ' '.join(words) else ''}") from None
    return results.read(folder / "results")


_WITHOUT = (
    "; without a tokenizer only tasks that generate (generate_until) run: those that score given answers"
    " (loglikelihood, multiple_choice) need --lm-eval-tokenizer, and an engine that answers echo with logprobs"
)


def _target(side: Side) -> command.Target:
    """What lm_eval must be told of the server. Raises ServerRefused when it does not answer."""
    from collections.abc import Callable

    from kvlab.load import clock
    from kvlab.load.connections import Connections
    from kvlab.load.server import contact

    async def main(_: Callable[[], float]) -> command.Target:
        from aiohttp import ClientError

        async with Connections(20.0, side.url) as connections:
            server = await contact(connections.fresh, side.url)
            try:
                async with connections.fresh.get(f"{server.url}/tokenizer_info") as answer:
                    remote = answer.status == 200
            except (ClientError, TimeoutError):
                remote = False
        return command.Target(side.url, server.model, side.context, side.temperature, remote)

    return clock.run(main)


def _judge(first: HarnessRun, again: HarnessRun, b: HarnessRun, rule: GateRule) -> PartFinding:
    runs = (first, again, b)
    judged = [task for task, score in first.judged().items() if all(task in run.judged() for run in runs)]
    accuracies = [task for task in judged if _is_accuracy(first.judged()[task])]
    figures = tuple(_figure(task, runs) for task in judged)
    if not accuracies:
        return _found("inconclusive", "no task has a metric from 0 to 1 of which more is better", figures)
    marked = [_marked(run.samples, accuracies) for run in runs]
    if _pairs(marked, runs, accuracies):
        found = accuracy.trios(*marked)
        verdict, because = accuracy.judge(found, marked, rule)
        by_task = tuple(
            accuracy.among(task, [trio for trio in found if trio.a.kind == task])
            for task in accuracies
            if len(accuracies) > 1
        )
        numbers = (*accuracy.figures(found, rule), *by_task, *figures)
        return _found(verdict, f"{because}; {_names(first, accuracies)}, paired", numbers, accuracy.examples(found))
    verdict, because = _by_errors(runs, accuracies, rule)
    return _found(verdict, f"{because}; {_names(first, accuracies)}", figures)


def _found(
    verdict: PartVerdict, because: str, numbers: tuple[Figure, ...], examples: tuple[Example, ...] = ()
) -> PartFinding:
    return PartFinding(name=NAME, title=TITLE, verdict=verdict, because=because, numbers=numbers, examples=examples)


def _is_accuracy(score: Score) -> bool:
    return score.higher_is_better is not False and 0 <= score.value <= 1


def _names(run: HarnessRun, tasks: Sequence[str]) -> str:
    named = ", ".join(f"{task}: {score.metric}" for task, score in run.judged().items() if task in tasks)
    return f"{named}, by lm_eval {run.version or 'of an unknown version'}"


def _marked(samples: Sequence[Sample], tasks: Sequence[str]) -> list[Marked]:
    return [
        Marked(
            id=f"{sample.id} {sample.hash}",
            kind=sample.task,
            asked=sample.asked,
            wanted=sample.wanted,
            said=sample.said,
            right=sample.value == 1,
        )
        for sample in samples
        if sample.task in tasks
    ]


def _pairs(marked: Sequence[Sequence[Marked]], runs: Sequence[HarnessRun], tasks: Sequence[str]) -> bool:
    """Whether every task's samples are kept, right or wrong, and the same documents in all runs."""
    whole = all(sample.value in (0, 1) for run in runs for sample in run.samples if sample.task in tasks)
    kept = all({mark.kind for mark in marks} == set(tasks) for marks in marked)
    return whole and kept and len({tuple(mark.id for mark in marks) for marks in marked}) == 1


def _figure(task: str, runs: Sequence[HarnessRun]) -> Figure:
    """A task's number as lm_eval states it, with its standard errors; it decides nothing where samples pair."""
    a, _, b = (run.judged()[task] for run in runs)
    return Figure(
        name=f"{task} {a.metric} (as lm_eval states it)",
        unit="share" if _is_accuracy(a) else "ratio",
        a=_interval(a),
        b=_interval(b),
        difference=_difference(a, b),
    )


def _interval(score: Score) -> Interval | None:
    if score.stderr is None:
        return None
    return Interval(score.value, score.value - NORMAL * score.stderr, score.value + NORMAL * score.stderr)


def _difference(a: Score, b: Score) -> Interval | None:
    """b less a from the two standard errors, as if the runs had asked different documents: wider than a paired one."""
    if a.stderr is None or b.stderr is None:
        return None
    half = NORMAL * (a.stderr**2 + b.stderr**2) ** 0.5
    return Interval(b.value - a.value, b.value - a.value - half, b.value - a.value + half)


def _by_errors(runs: Sequence[HarnessRun], tasks: Sequence[str], rule: GateRule) -> tuple[PartVerdict, str]:
    """The verdict from the standard errors: the mean change over the tasks, since samples do not pair."""
    loss = rule.accuracy_loss
    first, again, b = (run.judged() for run in runs)
    own = _mean([_difference(first[task], again[task]) for task in tasks])
    change = _mean([_difference(first[task], b[task]) for task in tasks])
    if change is None or own is None:
        return "inconclusive", "lm_eval states no standard error, and kept no samples that pair"
    told = (
        f"the mean change over {len(tasks)} tasks is {100 * change.value:+.1f} points (95 % interval"
        f" {100 * change.low:+.1f} to {100 * change.high:+.1f}, unpaired, from lm_eval's standard errors);"
        f" A against itself {100 * own.value:+.1f}"
    )
    if own.high < -loss or own.low > loss:
        return "inconclusive", f"{told}: the server does not repeat itself"
    if change.high < -loss:
        return "fail", f"{told}: more than the rule allows"
    if change.low > -loss:
        return "pass", told
    return "inconclusive", f"{told}: neither seen nor excluded; more documents, or samples that pair, would settle it"


def _mean(changes: Sequence[Interval | None]) -> Interval | None:
    told = [change for change in changes if change is not None]
    if not told or len(told) < len(changes):
        return None
    value = sum(change.value for change in told) / len(told)
    half = sum((change.high - change.value) ** 2 for change in told) ** 0.5 / len(told)
    return Interval(value, value - half, value + half)


def _lacks(engine: str | None, options: GateOptions) -> str | None:
    if not options.lm_eval:
        return "no tasks were named: --lm-eval TASK,TASK runs those of lm-evaluation-harness"
    return command.MISSING if command.program(options) is None else None


PART = Part(
    name=NAME,
    title=TITLE,
    needs="lm_eval on this machine, and --lm-eval TASK,TASK",
    evidence=HarnessRun,
    collect=_collect,
    judge=_judge,
    lacks=_lacks,
)
