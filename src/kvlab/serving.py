"""One engine in the foreground: look at the GPU first, start, check the plan against the log, say how it is doing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from kvlab import engines, store
from kvlab.attach import read_server, read_words
from kvlab.core.check import Check, listing
from kvlab.core.errors import BadInput, EngineFailed, ServerRefused
from kvlab.core.observation import Observation
from kvlab.core.plan import Plan
from kvlab.core.vocabulary import WORDS
from kvlab.following import Following
from kvlab.launch import READY_SECONDS, OnLine, Server, start
from kvlab.load.address import base_url
from kvlab.observe import read_log
from kvlab.ports import refuse_taken
from kvlab.reasons import checked

_COLUMNS = 77
"""Characters of a line of status: a terminal of 80 has a turning sign before it."""
_LOOK_AGAIN = 2.0
"""Seconds between two looks at a server that does not answer yet."""
_AT_WORK = frozenset(WORDS["Gauges"]) | frozenset(WORDS["Counters"])
_LOST_AFTER = 3
"""Unanswered looks in a row after which a server that was attached to counts as gone."""


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab serve`: where the server is, what was planned, and what it says of itself."""

    schema: Literal["kvlab/serve@1"] = "kvlab/serve@1"
    url: str
    engine: str
    pid: int | None
    """The process that stops the engine and all it started when it ends; None for a server attached to."""
    log: str | None
    plan: Plan | None
    check: Check


class Look(NamedTuple):
    """What the server's metrics said at one moment (`time.monotonic`); words that are absent were not seen."""

    at: float
    words: dict[str, float]


def make_room(plan: Plan, log: Path, port: int | None) -> None:
    """Readies the place of a log before the plan's engine is started: what lies there is kept as NAME.old.

    Raises BadInput when no log can be written there, EngineFailed when the engine is missing or the port is taken.
    """
    launcher = engines.launcher(plan.engine.name)
    if launcher.binary(plan.ask) is None:
        raise EngineFailed(launcher.missing)
    refuse_taken(launcher.default_port if port is None else port)
    if log.exists() and not log.is_file() and not log.is_dir():
        raise BadInput(f"{log} is no regular file; choose another --log")
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make the folder of {log}: {error.strerror}; choose another --log") from None
    store.check_target(log, "--log")
    store.put_aside(log, "--log")


@contextmanager
def started(
    plan: Plan, log: Path, *, port: int | None, on_line: OnLine | None = None
) -> Iterator[tuple[Serving, Server]]:
    """The plan's engine, ready and checked; leaving the block stops it and everything it started.

    `port` None: the engine's usual one. Raises EngineFailed when the engine is not installed, its port is taken, or it
    does not get ready.
    """
    usual = engines.launcher(plan.engine.name).default_port
    with start(plan, log, port=usual if port is None else port, on_line=on_line) as server:
        check = checked(plan, read_log(str(log), plan.engine.name))
        yield (
            Serving(url=server.url, engine=plan.engine.name, pid=server.pid, log=str(log), plan=plan, check=check),
            server,
        )


def attached(
    url: str,
    engine: str | None,
    plan: Plan | None,
    *,
    log: Following | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Serving:
    """A server that runs already, by what its metrics and info pages state, and its log where there is one.

    With a log, waits for a server that still loads, and tells what it waits for. Raises ServerRefused when it does not
    answer, EngineFailed when its log says that it will not, BadInput when it does not say which engine it is or is
    another one than the plan's.
    """
    name = engine or (plan.engine.name if plan else None)
    seen = read_server(url, name) if log is None else _awaited(url, name, log, tell)
    remarks: tuple[str, ...] = ()
    if log is not None:
        seen, remarks = joined(log.observation(seen.engine), seen)
    check = listing(_lasting(seen)) if plan is None else checked(plan, seen)
    check = msgspec.structs.replace(check, remarks=(*check.remarks, *remarks))
    return Serving(url=base_url(url), engine=seen.engine, pid=None, log=None, plan=plan, check=check)


def _lasting(seen: Observation) -> Observation:
    """What does not change while the server works: the rest is for the line of status."""
    return msgspec.structs.replace(seen, seen=tuple(item for item in seen.seen if item.name not in _AT_WORK))


def _awaited(url: str, engine: str | None, log: Following, tell: Callable[[str], None]) -> Observation:
    deadline, told = time.monotonic() + READY_SECONDS, ""
    while True:
        try:
            return read_server(url, engine)
        except ServerRefused as refusal:
            if log.failing:
                raise EngineFailed(f"{base_url(url)} does not serve: {log.failing}") from None
            if log.ended or time.monotonic() > deadline:
                raise
            if str(refusal) != told:
                told = str(refusal)
                tell(told)
            time.sleep(_LOOK_AGAIN)


def joined(logged: Observation, server: Observation) -> tuple[Observation, tuple[str, ...]]:
    """What log and server state together, and a remark on each number that both state and not alike.

    The log's line is kept where they agree, the server's word where they do not: the log may be an earlier start's.
    """
    stated = {item.name: item for item in server.seen}
    remarks, doubted = [], set()
    for name in sorted({item.name for item in logged.seen} & stated.keys()):
        ours, theirs = logged.get(name), stated[name]
        if ours is not None and _unlike(ours.value, theirs.value):
            doubted.add(name)
            remarks.append(
                f"{name.replace('_', ' ')}: the log says {_shown(ours.value)} and the server {_shown(theirs.value)}:"
                " it may be the log of another start"
            )
    seen = (
        *(item for item in server.seen if item.name not in doubted),
        *logged.seen,
        *(stated[name] for name in doubted),
    )
    version = server.version or logged.version
    return Observation(engine=server.engine, version=version, seen=seen), tuple(remarks)


def _unlike(one: float | str, other: float | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one != other and "auto" not in (one, other)
    return abs(one - other) > 0.005 * max(abs(one), abs(other))


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.10g}"


def watch(
    serving: Serving,
    server: Server | None,
    tell: Callable[[Look, Look | None], None],
    *,
    address: str | None = None,
    log: Following | None = None,
    pause: float = 2.0,
) -> None:
    """Looks at the metrics every `pause` seconds and tells the last two looks, until the server is gone.

    `address` is the server's with the user name and password that it wants, which `serving` does not keep. `log`, if
    it is there, says why a server that was attached to is gone.

    Raises EngineFailed when the engine that was started dies, ServerRefused when the one attached to stops answering.
    Ends only by an exception: KeyboardInterrupt is how a person stops it.
    """
    before: Look | None = None
    missed = 0
    while True:
        if server is not None and (gone := server.died()):
            raise gone
        words = read_words(address or serving.url, serving.engine)
        missed = missed + 1 if words is None else 0
        if server is None and missed >= _LOST_AFTER:
            why = f": {log.failing}" if log is not None and log.failing else "; what it last said is above"
            raise ServerRefused(f"{serving.url} has stopped answering{why}")
        if words is not None:
            now = Look(time.monotonic(), words)
            tell(now, before)
            before = now
        time.sleep(pause)


def pool_tokens(serving: Serving) -> float | None:
    """Tokens that the cache holds, as planned or as the server states; None when neither is known."""
    if serving.plan is not None and serving.plan.capacity is not None:
        return serving.plan.capacity.tokens
    stated = {row.name: row.seen for row in serving.check.rows}
    found = stated.get("kv_tokens", stated.get("n_ctx"))
    return found if isinstance(found, (int, float)) else None


def status(now: Look, before: Look | None, pool: float | None = None) -> str:
    """One line that 80 columns hold: requests, cache use, speed, preemptions and hits, of what the engine states.

    Rates are those since `before`, and use is of `pool` tokens where the engine states tokens alone. What does not fit
    is left out, from the end.
    """
    parts = [f"{word} {now.words[word]:.0f}" for word in ("running", "waiting") if word in now.words]
    if "kv_used_ratio" in now.words:
        parts.append(f"cache {now.words['kv_used_ratio']:.0%} used")
    elif "kv_used_tokens" in now.words and pool:
        parts.append(f"cache {now.words['kv_used_tokens'] / pool:.0%} used")
    elif "kv_used_tokens" in now.words:
        parts.append(f"cache {now.words['kv_used_tokens']:,.0f} tokens used")
    for word, title in (("prompt_tokens_total", "prompt"), ("generation_tokens_total", "output")):
        grown = _grown(word, now, before)
        # some engines count a request's tokens when it ends: until then none made is not known, and not said
        if before is not None and grown is not None and (grown or not now.words.get("running")):
            parts.append(f"{title} {grown / (now.at - before.at):,.0f} tok/s")
    if now.words.get("preemptions_total"):
        parts.append(f"preemptions {now.words['preemptions_total']:,.0f}")
    asked, hit = (_grown(word, now, before) for word in ("prefix_queries_tokens_total", "prefix_hits_tokens_total"))
    if asked and hit is not None:
        parts.append(f"prefix hits {hit / asked:.0%}")
    while len(" · ".join(parts)) > _COLUMNS:
        parts.pop()
    return " · ".join(parts) or "no metric that kvlab knows"


def _grown(word: str, now: Look, before: Look | None) -> float | None:
    """By how much a counter rose; None when it was not seen twice, or fell (a restart)."""
    if before is None or word not in now.words or word not in before.words:
        return None
    grown = now.words[word] - before.words[word]
    return grown if grown >= 0 else None
