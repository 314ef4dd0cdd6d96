"""The verdict on a server at work: every rule asked, the first that holds given, with what decided the others."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import msgspec

from kvlab import diagnoses, engines, recordings, store
from kvlab.core.cache_use import filled
from kvlab.core.diagnosis import (
    NOT_ENOUGH,
    Case,
    Condition,
    Confidence,
    Diagnosis,
    DiagnosisList,
    Evidence,
    Intervention,
    Look,
    Objectives,
    Other,
    Planned,
    Way,
    all_hold,
    any_holds,
    other_plan,
)
from kvlab.core.errors import BadInput, nearest
from kvlab.core.plan import Plan
from kvlab.core.scrape import MOST_SECONDS, STARTED_AT, Window, window
from kvlab.core.speed import Range
from kvlab.interventions import interventions

SECONDS = 30.0
"""How long a URL is looked at unless said otherwise."""
_EXPERT_BITS = 24
"""Bits of weights for each parameter that a token visits above which there must be others that it does not visit."""
_NO_VERDICT = "What was seen does not decide it"
_NOTHING_LEFT = (
    "what the time goes to: no verdict fits what was seen. The host (a busy CPU, CUDA graphs off), traffic between GPUs"
    " or other programs on them are not in the metrics; see kvlab explain LOG, or take a profile"
)
_AGAIN = Intervention(
    rank=1,
    do="look again with what is missing, while the load is on",
    why="a verdict from less would be a guess",
    expect="a verdict, or fewer lines under missing",
    verify="kvlab diagnose URL --seconds 60 --plan plan.json",
)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What may be said beside the scrapes."""

    seconds: float | None = None
    """How long to look at a URL (30 unless said), or what lies between two scrapes (or two rows that state no time)."""
    engine: str | None = None
    ttft_seconds: float = Objectives().ttft_seconds
    tpot_seconds: float = Objectives().tpot_seconds
    traffic: str | None = None
    """A file of `kvlab traffic --json`: how much of the prompts an endless cache would have held."""
    save: str | None = None
    """Where the pages of a URL are kept; a file that lies there is kept as NAME.old."""


def diagnose(
    sources: tuple[str, ...],
    plan: Plan | str | None,
    asked: Asked,
    on_count: Callable[[int, int], None] | None = None,
) -> Diagnosis:
    """The verdict on a URL, one file or two; `plan` may be a file. Raises BadInput and ServerRefused in one line."""
    model = store.read(plan, Plan, "plan") if isinstance(plan, str) else plan
    if asked.engine is not None and asked.engine not in engines.names():
        raise BadInput(f"no engine called {asked.engine!r}; {nearest(asked.engine, engines.names())}")
    for name in ("seconds", "ttft_seconds", "tpot_seconds"):
        value = getattr(asked, name)
        if value is not None and not 0 < value <= MOST_SECONDS:
            raise BadInput(f"{name}={value:g}: give a number of seconds above 0, and below ten years")
    possible = None if asked.traffic is None else store.read(asked.traffic, _Traffic, "result of kvlab traffic --json")
    case = Case(
        looks=_looks(sources, asked, on_count),
        objectives=Objectives(ttft_seconds=asked.ttft_seconds, tpot_seconds=asked.tpot_seconds),
        plan=None if model is None else planned(model),
        reuse_possible=possible.reuse.ideal.token_weighted if possible is not None and possible.reuse else None,
    )
    same_engine = case.plan is not None and case.plan.engine == case.last.engine
    doubt = other_plan(case.plan, case.last) if same_engine and case.plan is not None else None
    if doubt is None:
        return judge(case)
    found = judge(msgspec.structs.replace(case, plan=None))
    return msgspec.structs.replace(found, missing=(doubt, *found.missing))


def _looks(sources: tuple[str, ...], asked: Asked, on_count: Callable[[int, int], None] | None) -> tuple[Look, ...]:
    urls = [source for source in sources if source.startswith(("http://", "https://"))]
    if not 1 <= len(sources) <= 2 or (urls and len(sources) > 1):
        raise BadInput("give the URL of a running server, a file with a scrape or a series, or two scrapes")
    if not urls:
        if asked.save is not None:
            raise BadInput("--save keeps what a URL answers; the files are there already")
        return from_files(sources, asked.engine, asked.seconds)
    from kvlab.polling import looks, poll

    if asked.save is not None:
        store.check_target(asked.save, "--save")
        if os.path.isfile(asked.save):
            store.check_target(f"{asked.save}.old", "--save")
    scrapes = poll(urls[0], asked.engine, asked.seconds or SECONDS, on_count)
    if asked.save is not None:
        if os.path.isfile(asked.save):
            store.put_aside(asked.save, "--save")
        text = b"".join(msgspec.json.encode(scrape) + b"\n" for scrape in scrapes)
        store.write_atomic(asked.save, text, private=True)  # a page may say more of the server than its metrics
    return looks(scrapes)


class _Ideal(msgspec.Struct):
    token_weighted: float


class _Reuse(msgspec.Struct):
    ideal: _Ideal


class _Traffic(msgspec.Struct):
    reuse: _Reuse | None = None


def from_files(paths: tuple[str, ...], engine: str | None, seconds: float | None) -> tuple[Look, ...]:
    """The looks in one file (a scrape or a series), or in two scrapes `seconds` apart, the earlier first.

    Raises BadInput as `recordings.read` does, and when two files are given without the seconds between them.
    """
    if len(paths) == 1:
        return recordings.read(paths[0], engine, seconds)
    if seconds is None:
        raise BadInput("two scrapes say nothing of the time between them: give it with --seconds N")
    first, last = (recordings.read(path, engine) for path in paths)
    if len(first) != 1 or len(last) != 1:
        raise BadInput("a file that holds a series is given alone; two files are two scrapes")
    found = (first[0], Look(seconds, last[0].reading))
    _refuse_swapped(window(found[0].reading, found[1].reading, seconds))
    return found


def _refuse_swapped(seen: Window) -> None:
    """Raises BadInput when the server's own start says that the second of two scrapes is the earlier one."""
    before, after = (reading.values.get(STARTED_AT) for reading in (seen.first, seen.last))
    fell = [word for word in seen.restarted if word.endswith("_total")]
    if before is not None and after is not None and (after < before - 1 or (after < before + 1 and fell)):
        why = f"{fell[0]} fell without a restart" if after > before - 1 else "the second is of an earlier start"
        raise BadInput(f"the two scrapes are swapped ({why}); give the earlier one first")


def listing() -> DiagnosisList:
    """Every verdict, the one that goes first first."""
    return DiagnosisList(diagnoses=tuple(diagnoses.page(code) for code in diagnoses.codes()))


def planned(plan: Plan) -> Planned:
    """What the rules need of a plan."""
    from kvlab.facts import efficiency, gpus

    gpu = gpus.find(plan.ask.gpu) if plan.ask.gpu is not None else None
    weights = next((-line.bytes for line in plan.ledger if line.name == "weights"), None)
    speed = plan.speed
    active = speed.active_parameters if speed is not None else None
    bits = 8 * weights * (plan.ask.tp or 1) * plan.ask.pp / active if weights and active else None
    few = bits is not None and bits < efficiency.FEW_BITS
    reached = efficiency.DECODE_QUANTISED if few else efficiency.DECODE
    capacity = plan.capacity
    given = plan.source.name if plan.source.kind in ("hub", "gguf") else None  # a folder may have any name
    return Planned(
        engine=plan.engine.name,
        names=tuple(filter(None, (given, plan.ask.arg("served-model-name") if given else None))),
        kv_dtype=plan.kv.dtype,
        replicas=plan.ask.dp,
        stages=plan.ask.pp,
        drafts=plan.ask.arg("speculative-config") is not None,
        experts=bits is not None and bits > _EXPERT_BITS,
        weights_bytes=weights,
        pool_bytes=capacity.pool_bytes if capacity else None,
        tokens=capacity.tokens if capacity else None,
        token_bytes=plan.kv.bytes_per_token,
        bandwidth=gpu.bandwidth if gpu else None,
        reached=Range(reached.low, reached.high),
        prefill=speed.prefill.tokens_per_second if speed and speed.prefill else None,
        compute_from=speed.compute_bound_from if speed else None,
        most_requests=plan.ask.max_num_seqs or plan.ask.parallel,
        alternatives=plan.alternatives,
        moves=plan.verdict.moves,
    )


def judge(case: Case) -> Diagnosis:
    """The verdict. Looks before the server's last start are left out. Raises BadInput for another engine's plan."""
    if case.plan is not None and case.plan.engine != case.last.engine:
        raise BadInput(
            f"the metrics are {case.last.engine}'s and the plan is for {case.plan.engine}; give the plan of this server"
        )
    both, case = case, filled(_since_start(case))
    asked = {code: diagnoses.rule(code).ways(case) for code in diagnoses.codes()}
    answers = {code: any_holds(ways) for code, ways in asked.items()}
    code = next((code for code, answer in answers.items() if answer), NOT_ENOUGH)
    holding = [way for way in asked.get(code, ()) if all_hold(way)]
    deciding = tuple(dict.fromkeys(condition for way in holding for condition in way))
    seconds = case.window.seconds if case.window is not None else None
    return Diagnosis(
        engine=case.last.engine,
        replicas=len(case.pools),
        verdict=code,
        title=_NO_VERDICT if code == NOT_ENOUGH else diagnoses.page(code).title,
        confidence=_confidence(case, holding),
        because=tuple(condition.text for condition in deciding),
        seconds=seconds,
        looks=len(case.looks),
        evidence=_evidence(deciding or _told(asked)),
        missing=(*_cut(both, case), *_missing(asked, code)),
        interventions=(_AGAIN,) if code == NOT_ENOUGH else interventions(case, code),
        others=tuple(_other(name, asked[name], answers[name]) for name in asked if name != code),
    )


def _since_start(case: Case) -> Case:
    pairs = list(enumerate(zip(case.looks, case.looks[1:], strict=False), 1))
    starts = [at for at, (one, other) in pairs if window(one.reading, other.reading, 1.0).restarted]
    return msgspec.structs.replace(case, looks=case.looks[starts[-1] :]) if starts else case


def _cut(both: Case, left: Case) -> tuple[str, ...]:
    """What is missing where only the last of two looks is judged."""
    if (len(both.looks), len(left.looks)) != (2, 1):
        return ()
    seen = window(both.looks[0].reading, both.looks[1].reading, 1.0)
    later = both.last.values.get(STARTED_AT, 0.0) - both.looks[0].reading.values.get(STARTED_AT, math.inf) > 1
    why = "" if later else "they are swapped, or "
    fell = "counters fell" if any(word.endswith("_total") for word in seen.restarted) else "the server changed"
    return (f"the time between the two: {fell}, so {why}the server was restarted in between",)


def _confidence(case: Case, holding: list[Way]) -> Confidence:
    if not holding:
        return "none"
    sure = any(all(condition.sure for condition in way) for way in holding)
    return "firm" if len(case.looks) > 2 and sure else "tentative"


def _missing(asked: dict[str, tuple[Way, ...]], code: str) -> tuple[str, ...]:
    """What would answer the unknown conditions of the verdict, and of those that would go before it.

    Things that the same would tell share a line.
    """
    before = list(asked)[: list(asked).index(code)] if code in asked else list(asked)
    ways = [way for name in before for way in asked[name] if all_hold(way) is None]
    ways += [way for way in asked.get(code, ()) if all_hold(way)]
    by_remedy = dict[str, list[str]]()
    for text in dict.fromkeys(one.missing for way in ways for one in way if one.missing):
        what, _, remedy = text.partition(": ")
        by_remedy.setdefault(remedy or what, []).extend(what.split(", ") if remedy else ())
    found = tuple(": ".join(filter(None, (", ".join(dict.fromkeys(w)), remedy))) for remedy, w in by_remedy.items())
    return found or (() if code in asked else (_NOTHING_LEFT,))


def _told(asked: dict[str, tuple[Way, ...]]) -> tuple[Condition, ...]:
    return tuple(one for ways in asked.values() for way in ways for one in way if one.holds is not None)


def _evidence(conditions: tuple[Condition, ...]) -> tuple[Evidence, ...]:
    found = {(one.metric, one.line): one for condition in conditions for one in condition.evidence}
    return tuple(found.values())


def _other(code: str, ways: tuple[Way, ...], answer: bool | None) -> Other:
    """Why a verdict was not given: the condition that came out otherwise, of the way that went furthest."""
    if answer:
        return Other(code, "yes", "it holds too; the verdict goes first")
    refused = min(ways, key=lambda way: sum(one.holds is not True for one in way))
    if answer is None:
        refused = next(way for way in ways if all_hold(way) is None)
    decided = next((one for one in refused if one.holds is answer), refused[0])
    return Other(code, "no" if answer is False else "unknown", decided.text)
