"""The quality gate alone: arm A, arm B, and arm A again after a restart, through the parts that were asked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, NamedTuple

import msgspec

from kvlab import gates, machine, prompts
from kvlab.answers import judge_quality
from kvlab.attach import named, read_server
from kvlab.core.errors import BadInput, KvlabError, ServerRefused
from kvlab.core.gate import ARMS, TAGS, GateAsk, Side, Tag, whole
from kvlab.core.plan import Plan
from kvlab.core.quality import Quality
from kvlab.lab import Lab
from kvlab.launch import DYING_SECONDS, start
from kvlab.load import clock
from kvlab.load.address import base_url
from kvlab.load.connections import Connections
from kvlab.preflight import check_installed
from kvlab.settings import ArmName, OnStep, Step

QUALITY = "quality.json"
"""The verdict in the gate's lab."""


class How(NamedTuple):
    """What was asked, where evidence and the engines' logs go, and who is told of progress."""

    ask: GateAsk
    lab: Lab
    on_step: OnStep


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """What a lab of the gate was made with: the same folder takes up only the same."""

    schema: Literal["kvlab/gate-lab@1"] = "kvlab/gate-lab@1"
    a: str
    b: str
    ask: GateAsk


def run(a: str | Plan, b: str | Plan, ask: GateAsk, on_step: OnStep) -> Quality:
    """The gate on two plans, which are launched, or on two addresses of servers that run.

    Raises BadInput for one of each, for arms that are the same, and for parts of which none can run; EngineFailed when
    an engine is not installed, does not start or dies. Whatever was started is stopped.
    """
    if ask.lab is not None:
        return _gate(a, b, ask, Path(ask.lab), on_step)
    folder = Path(mkdtemp(prefix="kvlab-quality-"))
    kept = ""
    try:
        return _gate(a, b, ask, folder, on_step)
    except KvlabError as problem:
        kept = str(problem)
        raise
    finally:
        if str(folder) not in kept:  # where an error points to the engine's log, the log stays
            shutil.rmtree(folder, ignore_errors=True)


def _gate(a: str | Plan, b: str | Plan, ask: GateAsk, folder: Path, on_step: OnStep) -> Quality:
    how = How(ask=msgspec.structs.replace(ask, lab=None), lab=Lab(folder), on_step=on_step)
    if isinstance(a, Plan) and isinstance(b, Plan):
        return _gate_plans({"a": a, "b": b}, how)
    if isinstance(a, str) and isinstance(b, str):
        return _gate_servers(a, b, how)
    raise BadInput("quality compares two plans or two addresses, not one of each")


def _gate_plans(plans: dict[ArmName, Plan], how: How) -> Quality:
    """Starts A, B and A again, one after another."""
    if _label(plans["a"]) == _label(plans["b"]) and not how.ask.b_temperature:
        raise BadInput("both arms are the same configuration; say what B changes (--b kv-dtype=q8_0)")
    check_installed(plans.values())
    names = _names(how.ask, plans["a"].engine.name)
    contexts = [plan.kv.context for plan in plans.values() if plan.kv.context is not None]

    def visit(number: int, tag: Tag) -> None:
        if all(how.lab.has(gates.file_of(name, tag)) for name in names):
            return
        plan = plans["b" if tag == "b" else "a"]
        how.on_step(Step(number, len(TAGS), f"{ARMS[tag]}: starting the engine"))
        with start(plan, how.lab.path(f"engine-{number + 1}-{tag}.log")) as server:
            side = _side(how, tag, server.url, (plan.engine.name, min(contexts, default=None)))
            try:
                gates.collect(names, tag, side, how.lab, _tell(how, number, ARMS[tag]))
            except ServerRefused as error:
                raise server.died(DYING_SECONDS) or error from None

    with how.lab.claimed(Protocol(a=_label(plans["a"]), b=_label(plans["b"]), ask=how.ask)):
        for number, tag in enumerate(TAGS):
            visit(number, tag)
        return _kept(judged(names, how), how)


def _gate_servers(a: str, b: str, how: How) -> Quality:
    """The same on two servers that run already. A answers twice without a restart, which the floor cannot see."""
    if base_url(a) == base_url(b) and not how.ask.b_temperature:
        raise BadInput("both arms are the same server; give the address of A and the address of B")
    engine_of = {url: _known(url) for url in dict.fromkeys((a, b))}
    context = min((limit for _, limit in engine_of.values() if limit is not None), default=None)
    names = _names(how.ask, engine_of[a][0])
    with how.lab.claimed(Protocol(a=base_url(a), b=base_url(b), ask=how.ask)):
        for number, tag in enumerate(TAGS):
            url = b if tag == "b" else a
            how.on_step(Step(number, len(TAGS), f"{ARMS[tag]}: {base_url(url)}"))
            side = _side(how, tag, url, (engine_of[url][0], context))
            gates.collect(names, tag, side, how.lab, _tell(how, number, ARMS[tag]))
        return _kept(judged(names, how), how)


def judged(names: Sequence[str], how: How) -> Quality:
    """The gate's verdict from the evidence in the lab, with the agreement of the answers under their own keys."""
    ask = how.ask
    findings = gates.judged(names, how.lab, ask.rule)
    gate = whole(findings, ask.rule, ask.parts)
    answers = [gates.evidence(_AGREEMENT, tag, how.lab) if _AGREEMENT in names else None for tag in TAGS]
    first, b, second = answers
    if first is None or b is None or second is None:
        found = Quality(
            max_tokens=ask.max_tokens,
            noise_floor=None,
            candidate=None,
            by_kind={},
            divergences=(),
            verdict="not run",
            because="the answers were not compared",
        )
    else:
        found = judge_quality(first, second, b, max_tokens=ask.max_tokens, seed=ask.rule.seed)
    return msgspec.structs.replace(found, gate=gate, parts=findings)


def _kept(found: Quality, how: How) -> Quality:
    """The verdict, written into the gate's lab beside its evidence."""
    dated = msgspec.structs.replace(found, finished=machine.now())
    how.lab.save(QUALITY, dated)
    return dated


_AGREEMENT, _HARNESS = "agreement", "lm-eval"
_SECONDS = 20.0


def _names(ask: GateAsk, engine: str | None) -> tuple[str, ...]:
    """The parts to run: those that were asked for, or all. Raises BadInput for a name that is none.

    Tasks of lm_eval ask for that part, and are refused at once where it cannot run.
    """
    lacking = gates.lacking(ask.parts, engine, ask.options)
    if ask.lm_eval and (why := gates.lacking((_HARNESS,), engine, ask.options)):
        raise BadInput(why[_HARNESS])
    if ask.parts and len(lacking) == len(set(ask.parts)):
        raise BadInput(f"no part that was asked for can run: {'; '.join(lacking.values())}")
    if ask.prompts is not None:
        prompts.load(Path(ask.prompts))  # refused before anything starts
    asked = (*ask.parts, _HARNESS) if ask.parts and ask.lm_eval else ask.parts
    return tuple(dict.fromkeys(asked)) or gates.names()


def _side(how: How, tag: Tag, url: str, known: tuple[str | None, int | None]) -> Side:
    return Side(
        url=url,
        engine=known[0],
        context=known[1],
        temperature=how.ask.b_temperature if tag == "b" else 0.0,
        options=how.ask.options,
    )


def _known(url: str) -> tuple[str | None, int | None]:
    """The engine of a running server and the tokens that it allows a request, as far as it says.

    Raises ServerRefused when nothing answers there.
    """
    try:
        seen = read_server(url)
    except KvlabError:  # without a metrics page it still answers requests
        return _engine(url), None
    limit = seen.get("n_ctx_slot") or seen.get("max_model_len")
    return seen.engine, None if limit is None or isinstance(limit.value, str) else int(limit.value)


def _engine(url: str) -> str | None:
    async def main(_: Callable[[], float]) -> str:
        async with Connections(_SECONDS, url) as connections:
            return (await named(connections.fresh, url, None))[1]

    try:
        return clock.run(main)
    except BadInput:
        return None


def _tell(how: How, number: int, arm: str) -> gates.Tell:
    def tell(title: str, done: int, total: int) -> None:
        how.on_step(Step(number, len(TAGS), f"{arm}: {title[:1].lower()}{title[1:]}", done, total))

    return tell


def _label(plan: Plan) -> str:
    """A configuration in one line, to tell two apart; a request holds no secret (`request.settled`)."""
    return f"{' '.join(plan.launch.argv)} {msgspec.json.encode(plan.ask).decode()}"
