"""vLLM scores a short prompt whole, by `prompt_logprobs`, and a long one position by position, by `logprobs`.

`prompt_logprobs` makes the server hold the logits of every token of a prefill chunk over the whole vocabulary: 8,192
tokens of a vocabulary of 262,144 in 32 bits are 8 GiB that its profiling run did not set aside. Up to `_WHOLE` tokens
it is one cheap request; beyond, what one generated token shows at each position is asked for, which reads the cache as
decoding does and costs little where the prefix cache is on. Both state probabilities before sampling, and at most
--max-logprobs (20 unless set) of the likeliest tokens beside the one of the text, or the one that was taken.
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

from __future__ import annotations

import msgspec

from kvlab.core.errors import ServerRefused
from kvlab.core.scoring import Candidate, Post, ScoreAsk, Scored, Scores, Scoring

_MOST = 20
"""--max-logprobs by default."""
_WHOLE = 512
"""Tokens of a prompt that is scored whole."""
_PATH = "/v1/completions"
_NAMED = "token_id:"


class _Token(msgspec.Struct):
    logprob: float
    decoded_token: str | None = None


class _Generated(msgspec.Struct):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]


class _Choice(msgspec.Struct):
    prompt_logprobs: list[dict[str, _Token] | None] | None = None
    logprobs: _Generated | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice]


def _score(ask: ScoreAsk) -> Scoring:
    return _whole(ask) if len(ask.ids) <= _WHOLE else _by_position(ask)


def _whole(ask: ScoreAsk) -> Scoring:
    body = _body(ask, ask.ids[: ask.positions[-1] + 1]) | {"prompt_logprobs": ask.top}
    stated = _choice((yield Post(_PATH, body, len(ask.positions)))).prompt_logprobs or []
    if len(stated) <= ask.positions[-1]:
        raise ServerRefused(f"{_PATH} stated fewer log-probabilities than the prompt has tokens; is this vLLM?")
    return tuple(_scored(at, ask.ids[at], stated[at], ask.top) for at in ask.positions)


def _scored(at: int, true: int, stated: dict[str, _Token] | None, top: int) -> Scored:
    if stated is None or str(true) not in stated or not all(map(str.isdecimal, stated)):
        raise ServerRefused(f"{_PATH} states no log-probability of the prompt's token {at}; is this vLLM?")
    tokens = (Candidate(int(name), token.logprob, token.decoded_token or "") for name, token in stated.items())
    ranked = sorted(tokens, key=lambda token: -token.logprob)
    return Scored(position=at, true=true, logprob=stated[str(true)].logprob, top=tuple(ranked[:top]))


def _by_position(ask: ScoreAsk) -> Scoring:
    found = []
    for at in ask.positions:
        true = ask.ids[at]
        body = _body(ask, ask.ids[:at]) | {"logprobs": ask.top, "return_tokens_as_token_ids": True}
        taken, stated = _next(_choice((yield Post(_PATH, body, 1))))
        logprob = stated.get(true)
        if logprob is None:  # less likely than all that are stated: generated alone, it states its own
            forced, only = _next(_choice((yield Post(_PATH, body | {"allowed_token_ids": [true]}))))
            if forced != true or true not in only:
                raise ServerRefused(f"{_PATH} took another token than allowed_token_ids names; is this vLLM?")
            logprob = only[true]
        ranked = sorted((Candidate(token, value) for token, value in stated.items()), key=lambda token: -token.logprob)
        found.append(Scored(position=at, true=true, logprob=logprob, top=tuple(ranked[: ask.top]), chosen=taken))
    return tuple(found)


def _next(choice: _Choice) -> tuple[int, dict[int, float]]:
    """The token that was generated, and all that are stated with it."""
    one = choice.logprobs
    lists = () if one is None else (one.tokens, one.token_logprobs, one.top_logprobs)
    if one is not None and [len(some) for some in lists] == [1, 1, 1]:
        top = one.top_logprobs[0] or {}
        names = [name.removeprefix(_NAMED) for name in (one.tokens[0], *top)]
        if all(map(str.isdecimal, names)):
            taken, *others = map(int, names)
            stated = dict(zip(others, top.values(), strict=True))
            if one.token_logprobs[0] is not None:
                stated[taken] = one.token_logprobs[0]
            if stated:
                return taken, stated
    raise ServerRefused(f"{_PATH} did not answer with the log-probabilities of one token by its id; is this vLLM?")


def _body(ask: ScoreAsk, prompt: list[int]) -> dict[str, object]:
    return {"model": ask.model, "prompt": prompt, "max_tokens": 1, "temperature": ask.temperature, "seed": 0}


def _choice(answer: object) -> _Choice:
    try:
        choices = msgspec.convert(answer, _Answer).choices
    except msgspec.ValidationError:
        choices = []
    if len(choices) != 1:
        raise ServerRefused(f"{_PATH} answered without log-probabilities; is this a vLLM server?")
    return choices[0]


SCORES = Scores(
    score=_score,
    most_top=_MOST,
    whole=_WHOLE,
    seen_in="the prefill of short texts, and one decoding step after the cached beginning of long ones",
)
