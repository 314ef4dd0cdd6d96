"""Conditions over gauges, look by look: queue, pool, and how many run."""

from __future__ import annotations

from statistics import median

from msgspec.structs import replace

from kvlab.core.cache_use import bounds
from kvlab.core.diagnosis import Case, Condition, Evidence, Pool

QUEUED_SHARE = 0.1
"""Share of the looks from which requests count as waiting: a queue that is seen once in a while is a burst."""
FULL = 0.95
"""vLLM admits a request only when the blocks of its whole prompt are free, so a full pool stays a little below 1."""
NEARLY_FULL = 0.85
"""Below it a queue is not the pool's doing; between the two it depends on what else holds requests back."""
ROOM_FOR = 2.0
"""Requests like the running ones that must fit beside them for the pool to have room: the next may be a longer one."""
UNSTATED = "not in the metrics"
"""What is missing where the engine states no such number; the same words for all, so that they share a line."""
SECOND = "a second scrape (--seconds N), or a URL"
"""What a window needs."""
_CLOSE = "whether the cache or a limit on running requests holds the queue back: both are near"
AT_LIMIT = 0.98
"""Requests that have just ended leave a limit of some hundred a few below it at the moment of a look."""
LIMITED_SHARE = 0.5
"""Share of the looks with a queue at which the limit must be reached: a burst takes a while to be let in."""
LEAST_LOOKS = 3
"""Looks from which a number that is not exceeded counts as a limit that nobody stated."""


def queue_word(pool: Pool) -> str:
    """The word for requests that wait for room: those deferred for other reasons (an adapter, a transfer) are not."""
    return "waiting_capacity" if pool.seen("waiting_capacity") else "waiting"


def waits(case: Case, pool: Pool) -> Condition:
    """Whether requests wait at a tenth of the looks or more."""
    word = queue_word(pool)
    queue = pool.seen(word)
    if not queue:
        return Condition(text="whether requests wait", holds=None, missing=unseen(case, "waiting", "waiting requests"))
    queued = [value for value in queue if value >= 1]
    where = _looks(len(queued), len(queue))
    deferred = max(pool.seen("waiting_deferred"), default=0.0)
    beside = f" for room, up to {deferred:,.0f} for other reasons (an adapter, a transfer)" if deferred else ""
    text = f"requests wait {where}, up to {max(queue):,.0f}" if queued else f"nothing waits{beside}"
    evidence = (gauge(case, pool, word, max(queue)),)
    return Condition(text=text + _at(pool), holds=len(queued) >= QUEUED_SHARE * len(queue), evidence=evidence)


def used(pool: Pool) -> float | None:
    """The share of the pool in use while requests wait (the median of those looks), or over all looks."""
    return _median(pool, "kv_used_ratio")


def another(pool: Pool) -> float | None:
    """How many more requests like the running ones the rest of the pool holds; None when that cannot be told."""
    share, running = used(pool), _median(pool, "running")
    return None if not share or not running else (1 - share) * running / share


def full(case: Case, pool: Pool) -> Condition:
    """Whether the pool is full while requests wait: 95 %, or less where not even one more of their kind fits.

    From 85 % to 95 % it depends on whether a limit on their number holds them back.
    """
    share, more = used(pool), another(pool)
    if share is None:
        return _between(case, pool)
    found = Condition(text=use_of(pool), holds=share >= FULL, evidence=(gauge(case, pool, "kv_used_ratio", share),))
    if found.holds or (more is not None and more < 1):
        return replace(found, holds=True)
    if share < NEARLY_FULL:
        return found if more is None or more >= ROOM_FOR else replace(found, holds=None, missing=_CLOSE)
    held = limited(case, pool)
    holds = None if held.holds is None else not held.holds
    return replace(found, text=f"{found.text}, and {held.text}", holds=holds, missing=_CLOSE)


def _between(case: Case, pool: Pool) -> Condition:
    """As `full`, where slots share a cache or divide it: what holds of the smallest and the largest pool holds."""
    sizes, tokens, running = bounds(pool), _median(pool, "kv_used_tokens"), _median(pool, "running")
    if sizes is None or tokens is None:
        missing = unseen(case, "kv_used_ratio", "how full the cache is (kv_used_ratio)")
        return Condition(text="how full the cache is", holds=None, missing=missing)
    least, most = tokens / sizes.high, tokens / sizes.low
    evidence = (gauge(case, pool, "kv_used_tokens", tokens),)
    if most < NEARLY_FULL and (not running or (1 - most) * running >= ROOM_FOR * most):
        text = f"no more than {most:.0%} of the cache is in use, whether slots share it or divide it{_at(pool)}"
        return Condition(text=text, holds=False, evidence=evidence)
    text = f"{least:.0%} of the cache is in use where slots divide it, {most:.0%} where they share it{_at(pool)}"
    if least >= FULL:
        return Condition(text=text, holds=True, evidence=evidence)
    missing = (
        f"how full the cache is ({least:.0%} to {most:.0%}): the metrics do not state whether slots share it; --plan"
    )
    return Condition(text=text, holds=None, evidence=evidence, missing=missing)


def brimming(case: Case, pool: Pool) -> Condition:
    """Whether 95 % of the pool is in use, whoever waits."""
    share = used(pool)
    return full(case, pool) if share is None else replace(full(case, pool), holds=share >= FULL, missing="")


def room(case: Case, pool: Pool) -> Condition:
    """Whether the pool has room for more than one other while requests wait."""
    share, more = used(pool), another(pool)
    found = full(case, pool)
    if share is None:
        return found.denied()
    holds = share < NEARLY_FULL and (more is None or more >= ROOM_FOR)
    return Condition(text=use_of(pool), holds=holds, evidence=found.evidence)


def limit(case: Case, pool: Pool) -> float | None:
    """Requests that the scheduler runs together, where the engine or the plan states it."""
    stated = pool.seen("slots") or pool.seen("max_running_requests")
    if stated:
        return stated[-1]
    return float(case.plan.most_requests) if case.plan and case.plan.most_requests else None


def limited(case: Case, pool: Pool) -> Condition:
    """Whether as many run as may run: the stated limit, or the same number at nearly every look with a queue."""
    word = queue_word(pool)
    running = [look["running"] for look in pool.looks if "running" in look and look.get(word, 0) >= 1]
    running = running or list(pool.seen("running"))
    if not running:
        return Condition(text="how many run", holds=None, missing=unseen(case, "running", "running requests"))
    stated, most = limit(case, pool), max(pool.seen("running"))
    evidence = (gauge(case, pool, "running", max(running)),)
    at = sum(value >= AT_LIMIT * (stated or most) for value in running)
    holds = most > 0 and at >= LIMITED_SHARE * len(running)
    text = f"no more than {most:,.0f} run, {_looks(at, len(running))} with a queue{_at(pool)}"
    if stated is not None:
        text = f"{max(running):,.0f} run of the {stated:,.0f} that may{_at(pool)}"
    elif not at:
        text = f"{max(running):,.0f} run where {most:,.0f} did{_at(pool)}"
    elif len(running) < LEAST_LOOKS:
        missing = "the limit on running requests (the engine does not state it): a series of looks, or --plan"
        return Condition(text=f"{most:,.0f} run{_at(pool)}", holds=None, evidence=evidence, missing=missing)
    elif not holds:
        text = f"{min(running):,.0f} to {max(running):,.0f} run{_at(pool)}"
    enough = stated is not None or at >= LEAST_LOOKS
    return Condition(text=text, holds=holds and enough, evidence=evidence)


def preempts(case: Case) -> Condition:
    """Whether requests are thrown out of the pool: twice or more, and more than once a minute or one in ten that ended.

    SGLang's makers call about one a minute harmless:
    https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html
    """
    window = case.window
    grown = None if window is None else window.grown("preemptions_total")
    if grown is None and any(pool.seen("slots") for pool in case.pools):
        return Condition(text="requests with slots of their own are not thrown out", holds=False)
    if window is None or grown is None:
        most = [max(seen) for pool in case.pools if (seen := pool.seen("kv_used_ratio"))]
        if most and max(most) < NEARLY_FULL:
            text = f"no more than {max(most):.0%} of the cache is in use, so nothing is thrown out of it"
            return Condition(text=text, holds=False, sure=False)
        missing = unseen(case, "preemptions_total", "preemptions")
        return Condition(text="whether requests are preempted", holds=None, missing=missing)
    before, after = (reading.values["preemptions_total"] for reading in (window.first, window.last))
    line = f"{before:,.0f} -> {after:,.0f} in {window.seconds:,.0f} s"
    text = f"{grown:,.0f} preemptions in {window.seconds:,.0f} s" if grown else "no preemption in the window"
    ended = window.grown("requests_total")
    often = grown / window.seconds > 1 / 60 or (ended is not None and grown >= ended / 10)
    evidence = (Evidence("preemptions_total", grown, line),)
    return Condition(text=text, holds=grown >= 2 and often, evidence=evidence)


def has_preempted(case: Case) -> Condition:
    """With one look: whether any request was preempted since the engine started. It may be long ago."""
    word, count = "preemptions_total", case.last.values.get("preemptions_total")
    if count is None:
        return Condition(text="preemptions since the start", holds=None, missing=unseen(case, word, "preemptions"))
    evidence = (Evidence(word, count, case.last.lines.get(word, word)),)
    text, missing = f"{count:,.0f} preemptions since the engine started", f"whether they go on: {SECOND}"
    return Condition(text=text, holds=count >= 1, evidence=evidence, missing=missing if count else "", sure=False)


def gauge(case: Case, pool: Pool, word: str, value: float) -> Evidence:
    """A gauge as evidence: the newest sample line where it says the same, else the values look by look."""
    seen = pool.seen(word)
    line = case.last.lines.get(word, "").split("\n")[0]
    if len(seen) > 1 or pool.name or not line:
        few = seen if len(seen) <= 12 else (*seen[:5], *seen[-6:])
        shown = [f"{one:.3g}" for one in few]
        if len(seen) > len(few):
            shown.insert(5, "...")
        line = f"{pool.name + ': ' if pool.name else ''}{word} look by look: {' '.join(shown)}"
    return Evidence(word, value, line)


def _looks(some: int, every: int) -> str:
    return "at the one look" if every == 1 else f"at {some} of {every} looks"


def _at(pool: Pool) -> str:
    return f" ({pool.name})" if pool.name else ""


def unseen(case: Case, word: str, what: str) -> str:
    """What to give so that a word is seen."""
    seen = word in case.last.values or any(word in pool for pool in case.last.pools.values())
    if word.endswith("_total") and len(case.looks) < 2:
        return f"{what}: {SECOND}"
    if word.endswith("_total") and seen:
        return f"{what}: {word} was not seen at both ends of the window"
    return f"{what}: {UNSTATED}"


def use_of(pool: Pool) -> str:
    """The pool's use in words, with how many more fit where they are few."""
    share, more = used(pool) or 0.0, another(pool)
    text = f"{share:.0%} of the cache is in use{_at(pool)}"
    return text if more is None or more >= ROOM_FOR else f"{text}, and the rest holds {more:.1f} more of the same kind"


def _median(pool: Pool, word: str) -> float | None:
    queue = queue_word(pool)
    queued = [look[word] for look in pool.looks if word in look and look.get(queue, 0) >= 1]
    every = queued or list(pool.seen(word))
    return median(every) if every else None
