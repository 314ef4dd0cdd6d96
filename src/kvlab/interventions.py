"""A verdict's steps for one server: without other engines' flags, in the words that its engine and metrics have."""

from __future__ import annotations

import re

from kvlab import diagnoses, engines
from kvlab.core.advice import narrowed
from kvlab.core.diagnosis import Case, Intervention

_MOST_STEPS = 3
_INSTEAD = {
    "itl_seconds": (
        (("tpot_seconds", "tpot_seconds"), ("decode_seconds_total", "decode_seconds_total for each generated token")),
        "the time per output token (kvlab bench URL)",
    ),
    "ttft_seconds": ((), "the time to first token (kvlab bench URL)"),
    "kv_used_ratio": ((("kv_used_tokens", "kv_used_tokens"),), "the use of the cache"),
    "requests_total": ((("generation_tokens_total", "generation_tokens_total"),), "the count of requests"),
    "prefill_tokens_total": ((("prompt_tokens_total", "prompt_tokens_total"),), "the count of prompt tokens"),
    "preemptions_total": ((), "the count of preemptions in the log"),
}
"""Word -> the words that tell nearly the same with what to say of them, and what to say where there is none."""
_WORDS = re.compile(rf"\b({'|'.join(_INSTEAD)})\b")


def interventions(case: Case, code: str) -> tuple[Intervention, ...]:
    """Up to three steps of the verdict's page, in the order of this case, with its numbers."""
    steps, tailor = diagnoses.page(code).do, diagnoses.rule(code).tailor
    found = list[Intervention]()
    for step in tailor(case, steps) if tailor is not None else steps:
        do, verify = (own_flags(text, case.last.engine) for text in (step.do, step.verify))
        if do:
            verify = _own_words(verify or step.verify, case)
            found.append(
                Intervention(rank=len(found) + 1, do=do, why=step.why, expect=step.expect, verify=verify),
            )
    return tuple(found[:_MOST_STEPS])


def own_flags(text: str, engine: str) -> str:
    """The text without other engines' flags, and with what `kvlab ab --b` takes for this one.

    It is empty where it is the others' alone, and as it was for an engine that kvlab does not run.
    """
    titles = {name: engines.engine(name).title for name in engines.names()}
    own = titles.get(engine)
    if own is None:
        return text
    (left,) = narrowed((text,), own, titles.values())
    others = [title for title in titles.values() if title != own and title in left]
    return "" if left == text and others and own not in text else _own_options(left, engine)


def _own_options(text: str, engine: str) -> str:
    """With the engine's cache dtype of 8 bits, and its own option for how many requests run together."""
    planner = engines.planner(engine)
    byte = next((dtype for dtype in planner.dtypes if re.match(r"fp8|int8|q8", dtype)), None)
    if byte is not None:
        text = text.replace("--b kv-dtype=fp8", f"--b kv-dtype={byte}")
    if "max_num_seqs" not in planner.options and "parallel" in planner.options:
        text = text.replace("--b max-num-seqs=", "--b parallel=")
    return text


def _own_words(text: str, case: Case) -> str:
    """With words that the server's metrics have, or its engine's may have, in place of those that they never have."""
    seen = case.last.values.keys() | case.last.histograms.keys()
    may = set[str]()
    if case.last.engine in engines.names():
        map_ = engines.metric_map(case.last.engine)
        may = {series.word for series in map_.series} | map_.histograms.keys() | map_.told.keys()

    def own(match: re.Match[str]) -> str:
        word = match[1]
        nearly, otherwise = _INSTEAD[word]
        every = ((word, word), *nearly)
        return next((said for served in (seen, may) for other, said in every if other in served), otherwise)

    return _WORDS.sub(own, text)
