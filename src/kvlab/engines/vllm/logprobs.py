"""vLLM scores a whole prompt in one request: `prompt_logprobs` of POST /v1/completions.

Each position states the likeliest tokens and the one of the prompt, whatever its rank. The prefix cache is not read for
such a request. The server refuses more than its --max-logprobs (20 unless set). Probabilities are those before
sampling, so a temperature shows only in the one token that is generated.
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

from __future__ import annotations

import msgspec

from kvlab.core.errors import ServerRefused
from kvlab.core.scoring import Candidate, Post, ScoreAsk, Scored, Scores, Scoring

_MOST = 20
"""--max-logprobs by default."""


class _Token(msgspec.Struct):
    logprob: float
    decoded_token: str | None = None


class _Choice(msgspec.Struct):
    prompt_logprobs: list[dict[str, _Token] | None]


class _Answer(msgspec.Struct):
    choices: list[_Choice]


def _score(ask: ScoreAsk) -> Scoring:
    body: dict[str, object] = {
        "model": ask.model,
        "prompt": ask.ids[: ask.positions[-1] + 1],
        "max_tokens": 1,
        "temperature": ask.temperature,
        "seed": 0,
        "prompt_logprobs": ask.top,
    }
    stated = _stated((yield Post("/v1/completions", body, len(ask.positions))))
    if len(stated) <= ask.positions[-1]:
        raise ServerRefused("/v1/completions stated fewer log-probabilities than the prompt has tokens")
    return tuple(_scored(at, ask.ids[at], stated[at], ask.top) for at in ask.positions)


def _scored(at: int, true: int, stated: dict[str, _Token] | None, top: int) -> Scored:
    if stated is None or str(true) not in stated:
        raise ServerRefused(f"/v1/completions states no log-probability of the prompt's token {at}; is this vLLM?")
    tokens = (Candidate(int(name), token.logprob, token.decoded_token or "") for name, token in stated.items())
    ranked = sorted(tokens, key=lambda token: -token.logprob)
    return Scored(position=at, true=true, logprob=stated[str(true)].logprob, top=tuple(ranked[:top]))


def _stated(answer: object) -> list[dict[str, _Token] | None]:
    try:
        choices = msgspec.convert(answer, _Answer).choices
    except msgspec.ValidationError:
        choices = []
    if len(choices) != 1:
        raise ServerRefused("/v1/completions answered without prompt_logprobs; is this a vLLM server?")
    return choices[0].prompt_logprobs


SCORES = Scores(score=_score, most_top=_MOST, every_position=True, seen_in="the prefill of the whole text")
