"""Conditions over a window: prompts and tokens a second, hits, and percentiles."""

from __future__ import annotations

from itertools import pairwise

from msgspec.structs import replace

from kvlab.core.diagnosis import Case, Condition, Evidence
from kvlab.core.scrape import Histogram
from kvlab.diagnoses._gauges import LEAST_LOOKS, SECOND, UNSTATED, unseen
from kvlab.diagnoses._tiers import tier_hits

FEW_HITS = 0.3
"""Below this share of prompt tokens found in the cache, prompts are computed again or share nothing."""
PROMPTS_LEAD = 5.0
"""Computed prompt tokens for each generated one from which prompts take most of the steps. A step has room for some
hundred tokens before it takes longer (its weights are read anyway), and a decoding batch fills it with its requests."""
_LEAST_PROMPTS = 5
"""First tokens below which a late one may have been the only one that was cold."""
_FEW_PROMPTS = "time to first token: too few prompts were counted; a longer window (--seconds N)"
_LONGER = "generated tokens: none was counted though requests run; a longer window (--seconds N)"
_SHARE = 0.95
_LEAST_OBSERVED = 20
"""Observations below which the 95th percentile is the slowest one."""


def first_token(case: Case) -> Condition:
    """Whether requests wait long for their first token: the 95th percentile in the window against the objective."""
    told = _percentile(case, "ttft_seconds", case.objectives.ttft_seconds, "time to first token")
    if told is not None:
        few = case.window.histogram("ttft_seconds") if case.window is not None else None
        rare = told.holds and few is not None and few.count < _LEAST_PROMPTS
        return Condition(text=told.text, holds=None, missing=_FEW_PROMPTS) if rare else told
    share, window = prompt_time(case), case.window
    if share is not None and window is not None:
        # slots take turns, so the times of all of them add up to the window's where prompts are all that is done
        busy = (window.grown("prefill_seconds_total") or 0.0) / window.seconds
        text = f"prompts take {share:.0%} of the time that slots work, and {busy:.0%} of the window in all"
        holds: bool | None = min(share, busy) >= 0.5
        if holds and _rises(case, "prefill_tokens_total") < LEAST_LOOKS:
            return Condition(text=text, holds=None, missing=_FEW_PROMPTS)
        return Condition(text=text, holds=holds, evidence=_prompt_time_lines(case, share), sure=False)
    return Condition(text="time to first token", holds=None, missing=_needs(case, "ttft_seconds"))


def per_token(case: Case) -> Condition:
    """Whether tokens come slowly: between two tokens, or by how many run and how fast they are made together."""
    for word in ("itl_seconds", "tpot_seconds"):
        told = _percentile(case, word, case.objectives.tpot_seconds, "time per output token")
        if told is not None:
            return told
    mean = token_seconds(case)
    if mean is None:
        return Condition(text="time per output token", holds=None, missing=_needs(case, "itl_seconds"))
    limit = case.objectives.tpot_seconds
    text = f"a token takes {mean * 1000:,.0f} ms on average, objective {limit * 1000:,.0f} ms"
    evidence = Evidence("tpot_seconds", mean, "mean of running requests over generated tokens a second")
    return Condition(text=text, holds=mean > limit, evidence=(evidence,), sure=False)


def token_seconds(case: Case) -> float | None:
    """Mean seconds between two tokens of a request; Little's law where no histogram tells."""
    window = case.window
    if window is None:
        return None
    for word in ("itl_seconds", "tpot_seconds"):
        told = window.histogram(word)
        mean = None if told is None else told.mean()
        if mean is not None:
            return mean
    rate, running = window.rate("generation_tokens_total"), mean_of(case, "running")
    return running / rate if rate and running else None


def mean_of(case: Case, word: str) -> float | None:
    """A gauge's mean over the looks; None when it was never seen."""
    seen = [look.reading.values[word] for look in case.looks if word in look.reading.values]
    return sum(seen) / len(seen) if seen else None


def prompts(case: Case) -> tuple[float, float] | None:
    """Prompt tokens computed a second, and tokens generated; None when one was not seen."""
    window = case.window
    if window is None:
        return None
    asked, hits = window.rate("prompt_tokens_total"), window.rate("prefix_hits_tokens_total")
    computed = window.rate("prefill_tokens_total")
    if computed is None and asked is not None:
        # what a tier held is loaded, not computed
        computed = max(0.0, asked - (hits or 0.0) - (window.rate("external_hits_tokens_total") or 0.0))
    made = window.rate("generation_tokens_total")
    return None if computed is None or made is None else (computed, made)


def prompts_lead(case: Case) -> Condition:
    """Whether computing prompts is most of the work."""
    rates = prompts(case)
    if rates is None:
        missing = "prompt tokens, generated tokens: " + _window_or(case, "the counters were not seen twice")
        return Condition(text="what prompts cost", holds=None, missing=missing)
    computed, made = rates
    if not made and mean_of(case, "running"):  # some engines count a request's tokens when it ends
        return Condition(text="what prompts cost", holds=None, missing=_LONGER)
    return Condition(
        text=f"{_rate(computed)} prompt tokens are computed a second and {_rate(made)} tokens generated",
        holds=computed > 0 and computed >= PROMPTS_LEAD * made,
        evidence=_grown(case, "prefill_tokens_total", "prompt_tokens_total", "generation_tokens_total"),
    )


def prompts_are_few(case: Case) -> Condition:
    """Whether prompts are the smaller part of the work: less computed than generated."""
    found = prompts_lead(case)
    rates = prompts(case)
    return found if rates is None or found.holds is None else replace(found, holds=rates[0] < rates[1])


def hit_rate(case: Case) -> float | None:
    """Share of looked-up prompt tokens that were found in the window; 0 where prompts came and none was looked up."""
    window = case.window
    queries = None if window is None else window.grown("prefix_queries_tokens_total")
    hits = None if window is None else window.grown("prefix_hits_tokens_total")
    if window is None or queries is None or hits is None or hits > queries:
        return None
    if queries:
        # what another tier held is looked up when the first one misses
        beyond = window.grown("external_hits_tokens_total") or 0.0
        return min(1.0, (hits + beyond) / queries)
    return 0.0 if window.grown("prompt_tokens_total") else None


def reused(case: Case) -> Condition:
    """Whether prompts find what was computed before. The rate leaves out what preempted requests compute again."""
    rate = hit_rate(case)
    if rate is None:
        missing = "prefix hits: " + _window_or(case, "the metrics do not state hits and queries in the window")
        return Condition(text="what prompts find in the cache", holds=None, missing=missing)
    text = f"{rate:.0%} of the prompts' tokens are found in the cache"
    queries, loaded = case.window.grown("prefix_queries_tokens_total") if case.window else None, tier_hits(case)
    text += f", {loaded / queries:.0%} in a tier below the GPU" if queries and loaded else ""
    words = ("prefix_hits_tokens_total", "external_hits_tokens_total", "prefix_queries_tokens_total")
    evidence = tuple(one for one in _grown(case, *words) if one.value or not one.metric.startswith("external"))
    possible = case.reuse_possible
    if possible is None:
        return Condition(text=text, holds=rate >= FEW_HITS, evidence=evidence)
    text = f"{text}, and {possible:.0%} could be by the trace"
    return Condition(text=text, holds=rate >= possible / 2, evidence=evidence)


def active(case: Case) -> Condition:
    """Whether the server works at all."""
    made = None if case.window is None else case.window.grown("generation_tokens_total")
    running = [look.reading.values["running"] for look in case.looks if "running" in look.reading.values]
    if made is None and not running:
        missing = unseen(case, "generation_tokens_total", "generated tokens")
        if missing.endswith(UNSTATED):
            missing = f"running requests, {missing}"
        return Condition(text="whether anything runs", holds=None, missing=missing)
    if made is not None:
        if not made and any(running):
            return Condition(text="whether tokens are generated", holds=None, missing=_LONGER)
        text = f"{made:,.0f} tokens are generated in the window"
        return Condition(text=text, holds=made > 0, evidence=_grown(case, "generation_tokens_total"))
    most = max(running)
    return Condition(text=f"up to {most:,.0f} requests run" if most else "no request runs", holds=most > 0)


def prompt_time(case: Case) -> float | None:
    """Share of the slots' working time that prompts take, where an engine counts both times."""
    window = case.window
    if window is None:
        return None
    reading, writing = (window.grown(word) for word in ("prefill_seconds_total", "decode_seconds_total"))
    return reading / (reading + writing) if reading and writing is not None else None


def _prompt_time_lines(case: Case, share: float) -> tuple[Evidence, ...]:
    lines = (one.line for one in _grown(case, "prefill_seconds_total", "decode_seconds_total"))
    return (Evidence("prefill_time_share", share, "; ".join(lines)),)


def _rises(case: Case, word: str) -> int:
    """Between how many looks a counter rose: as many things at least were counted."""
    seen = [look.reading.values[word] for look in case.looks if word in look.reading.values]
    return sum(after > before for before, after in pairwise(seen))


def _percentile(case: Case, word: str, objective: float, what: str) -> Condition | None:
    """None when the window holds no observation."""
    told = None if case.window is None else case.window.histogram(word)
    found = None if told is None else told.percentile(_SHARE)
    if told is None or found is None:
        return None
    limit = _bound(told, objective)
    low = found.low
    span = f"above {_seconds(low)}" if found.estimate is None else f"{_seconds(low)} to {_seconds(found.high)}"
    read_at = "" if limit == objective else f", read at the bucket bound {_seconds(limit)}"
    text = f"{what}, 95th percentile of {told.count:,.0f}: {span}; objective {_seconds(objective)}{read_at}"
    line = case.last.lines.get(word, word).replace("\n", "; ")
    evidence = (Evidence(f"{word}_p95", low, f"{told.count:,.0f} observations in the window; at its end {line}"),)
    return Condition(text=text, holds=low >= limit, evidence=evidence, sure=told.count >= _LEAST_OBSERVED)


def _bound(told: Histogram, objective: float) -> float:
    """The objective as a histogram can tell it: the first bound at or above."""
    return next((bound for bound in told.bounds if bound >= objective), objective)


def _seconds(value: float) -> str:
    return f"{value * 1000:,.0f} ms" if value < 1 else f"{value:,.3g} s"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.2g}"


def _grown(case: Case, *words: str) -> tuple[Evidence, ...]:
    """The counters' growth, with the two numbers and the seconds between."""
    window, found = case.window, []
    for word in words:
        grown = None if window is None else window.grown(word)
        if window is not None and grown is not None:
            before, after = (reading.values[word] for reading in (window.first, window.last))
            found.append(Evidence(word, grown, f"{word} {before:,.6g} -> {after:,.6g} in {window.seconds:,.3g} s"))
    return tuple(found)


def _needs(case: Case, word: str) -> str:
    what = {"ttft_seconds": "time to first token", "itl_seconds": "time per output token"}[word]
    return f"{what}: {_window_or(case, f'no observation of it was seen in the window ({word})')}"


def _window_or(case: Case, otherwise: str) -> str:
    return otherwise if case.window is not None else SECOND
