"""SGLang scores a prompt from a token on: `return_logprob` and `logprob_start_len` of POST /generate.

A short text is one request. Of a long one each position is asked for alone: the logits of all its tokens over the whole
vocabulary would be memory that the server did not set aside, and the beginning is in the radix cache.

Written from its documentation and not yet tried against a running SGLang. Entry i of `input_token_logprobs` is the
prompt's token `logprob_start_len` + i, and the first has no log-probability where nothing stands before it.
https://docs.sglang.io/basic_usage/sampling_params.html
"""

from __future__ import annotations

import msgspec

from kvlab.core.errors import ServerRefused
from kvlab.core.scoring import Candidate, Post, ScoreAsk, Scored, Scores, Scoring

_Stated = tuple[float | None, int, str | None]
_MOST = 20
_WHOLE = 512
"""Tokens of a prompt that is scored whole."""


class _Meta(msgspec.Struct):
    input_token_logprobs: list[_Stated]
    input_top_logprobs: list[list[_Stated] | None]


class _Answer(msgspec.Struct):
    meta_info: _Meta


def _score(ask: ScoreAsk) -> Scoring:
    if len(ask.ids) <= _WHOLE:
        return (yield from _from_first(ask))
    found: tuple[Scored, ...] = ()
    for at in ask.positions:
        found += yield from _from_first(ask._replace(positions=(at,)))
    return found


def _from_first(ask: ScoreAsk) -> Scoring:
    ids = ask.ids[: ask.positions[-1] + 1]
    start = max(0, ask.positions[0] - 1)  # so that the first entry, which may have no number, is none that counts
    body: dict[str, object] = {
        "input_ids": ids,
        "sampling_params": {"max_new_tokens": 1, "temperature": ask.temperature},
        "return_logprob": True,
        "logprob_start_len": start,
        "top_logprobs_num": ask.top,
        "return_text_in_logprobs": True,
    }
    meta = _meta((yield Post("/generate", body, len(ask.positions))))
    if len(meta.input_token_logprobs) != len(ids) - start or len(meta.input_top_logprobs) != len(ids) - start:
        raise ServerRefused("/generate stated another number of log-probabilities than the prompt has tokens")
    return tuple(_scored(at, ask, meta, start) for at in ask.positions)


def _scored(at: int, ask: ScoreAsk, meta: _Meta, start: int) -> Scored:
    logprob, token, _ = meta.input_token_logprobs[at - start]
    if logprob is None or token != ask.ids[at]:
        raise ServerRefused(f"/generate states no log-probability of the prompt's token {at}; is this SGLang?")
    stated = meta.input_top_logprobs[at - start] or []
    top = tuple(Candidate(name, value, text or "") for value, name, text in stated[: ask.top] if value is not None)
    if not top:
        raise ServerRefused(f"/generate states no likeliest tokens at the prompt's token {at}; is this SGLang?")
    return Scored(position=at, true=token, logprob=logprob, top=top)


def _meta(answer: object) -> _Meta:
    try:
        return msgspec.convert(answer, _Answer).meta_info
    except msgspec.ValidationError:
        raise ServerRefused("/generate answered without the prompt's log-probabilities; is this SGLang?") from None


SCORES = Scores(
    score=_score, most_top=_MOST, whole=_WHOLE, seen_in="the prefill, which for long texts reads the cached beginning"
)
