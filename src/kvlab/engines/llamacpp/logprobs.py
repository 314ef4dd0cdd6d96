"""llama-server scores one position a request: `n_probs` of POST /completion.

The server echoes no prompt with its log-probabilities. What comes next after n tokens is what one generated token
shows, and with `cache_prompt` the n tokens are not computed again when the request before held a part of them, so
positions in ascending order cost about one decoding step each. The probabilities are those before sampling
(`post_sampling_probs` is false); the token that was taken shows what sampling makes of them.
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
"""

from __future__ import annotations

import msgspec

from kvlab.core.errors import ServerRefused
from kvlab.core.scoring import Candidate, Post, ScoreAsk, Scored, Scores, Scoring

_ASKED = 100
"""Likeliest tokens asked for: the token of the text is seldom less likely than these."""
_FORCED = 10_000.0
"""A logit bias that makes a token certain to be taken. Stated probabilities are those before it."""


class _Token(msgspec.Struct, kw_only=True):
    id: int
    logprob: float
    token: str = ""


class _Next(_Token):
    top_logprobs: list[_Token]


class _Answer(msgspec.Struct):
    completion_probabilities: list[_Next]


def _score(ask: ScoreAsk) -> Scoring:
    found = []
    for at in ask.positions:
        true = ask.ids[at]
        body: dict[str, object] = {
            "prompt": ask.ids[:at],
            "n_predict": 1,
            "n_probs": max(_ASKED, ask.top),
            "temperature": ask.temperature,
            "seed": at,
            "cache_prompt": at != ask.positions[0],  # what other texts left there would change the batches
            "id_slot": 0,
        }
        step = _next((yield Post("/completion", body, 1)))
        logprob = next((token.logprob for token in step.top_logprobs if token.id == true), None)
        if logprob is None:
            forced = body | {"n_probs": 1, "logit_bias": [[true, _FORCED]]}
            taken = _next((yield Post("/completion", forced)))
            if taken.id != true:
                raise ServerRefused("/completion took another token than logit_bias forces; is this a llama-server?")
            logprob = taken.logprob
        top = tuple(Candidate(token.id, token.logprob, token.token) for token in step.top_logprobs[: ask.top])
        found.append(Scored(position=at, true=true, logprob=logprob, top=top, chosen=step.id))
    return tuple(found)


def _next(answer: object) -> _Next:
    try:
        steps = msgspec.convert(answer, _Answer).completion_probabilities
    except msgspec.ValidationError:
        steps = []
    if len(steps) != 1 or not steps[0].top_logprobs:
        raise ServerRefused("/completion did not answer with the probabilities of one token; is this a llama-server?")
    return steps[0]


SCORES = Scores(score=_score, most_top=_ASKED, whole=0, seen_in="one decoding step after the cached beginning")
