"""How each engine is asked for log-probabilities, on answers that engines really gave."""

from __future__ import annotations

import copy
import json
from math import exp
from pathlib import Path
from typing import Any

import pytest

from kvlab import engines
from kvlab.core.errors import ServerRefused
from kvlab.core.scoring import Candidate, NoScores, Post, ScoreAsk, Scored, Scores

FOLDER = Path(__file__).parents[1] / "golden" / "quality"
GOLDEN = json.loads((FOLDER / "vllm-prompt-logprobs.json").read_text())
IDS: list[int] = GOLDEN["ids"]
ALL = tuple(range(1, len(IDS)))


def scores(engine: str) -> Scores:
    part = engines.scoring(engine)
    assert isinstance(part, Scores)
    return part


def run(engine: str, ask: ScoreAsk, answers: list[Any]) -> tuple[list[Post], tuple[Scored, ...]]:
    """The requests that the engine's generator makes, and what it makes of the answers."""
    steps = scores(engine).score(ask)
    posts = [next(steps)]
    for answer in answers:
        try:
            posts.append(steps.send(answer))
        except StopIteration as end:
            return posts, end.value
    raise AssertionError("it asks for more")


def test_every_engine_scores_or_says_why_not() -> None:
    for name in engines.names():
        part = engines.scoring(name)
        assert isinstance(part, Scores | NoScores)
        assert isinstance(part, Scores) or part.because


def test_vllm_states_what_transformers_computes() -> None:
    """Two implementations of one model: 32 positions agree to 0.08 nats (bfloat16 against float32), not shifted."""
    posts, found = run("vllm", ScoreAsk("m", IDS, ALL, 5, 0.0), [GOLDEN["vllm"]])
    assert posts[0].path == "/v1/completions"
    assert (posts[0].body["prompt"], posts[0].body["prompt_logprobs"]) == (IDS, 5)
    truth = GOLDEN["transformers_float32"]
    assert [one.position for one in found] == list(ALL)
    assert max(abs(one.logprob - true) for one, true in zip(found, truth, strict=True)) < 0.08
    mean = sum(one.logprob for one in found) / len(found)
    assert mean == pytest.approx(sum(truth) / len(truth), abs=0.002)
    top = sum(one.top[0].id != first for one, first in zip(found, GOLDEN["transformers_float32_top1"], strict=True))
    assert top <= 1
    for one in found:
        assert len(one.top) == 5
        assert sum(exp(token.logprob) for token in one.top) <= 1 + 1e-4
        assert [token.logprob for token in one.top] == sorted((token.logprob for token in one.top), reverse=True)


def test_vllm_is_asked_for_no_more_than_the_last_position_needs() -> None:
    posts, found = run("vllm", ScoreAsk("m", IDS, (3, 9), 2, 0.0), [GOLDEN["vllm"]])
    assert posts[0].body["prompt"] == IDS[:10]
    assert [(one.position, one.true, len(one.top)) for one in found] == [(3, IDS[3], 2), (9, IDS[9], 2)]


def _without(part: str) -> dict[str, Any]:
    answer = copy.deepcopy(GOLDEN["vllm"])
    if part == "all":
        del answer["choices"][0]["prompt_logprobs"]
    elif part == "short":
        answer["choices"][0]["prompt_logprobs"] = answer["choices"][0]["prompt_logprobs"][:5]
    else:
        del answer["choices"][0]["prompt_logprobs"][9][str(IDS[9])]
    return dict(answer)


@pytest.mark.parametrize("part", ["all", "short", "token"])
def test_an_answer_of_vllm_without_the_numbers_is_one_line(part: str) -> None:
    with pytest.raises(ServerRefused, match="/v1/completions"):
        run("vllm", ScoreAsk("m", IDS, (3, 9), 5, 0.0), [_without(part)])


def _llama(chosen: int, **top: float) -> dict[str, Any]:
    """As llama-server b11549 answers /completion with n_probs."""
    likeliest = [{"id": int(name[1:]), "token": name, "bytes": [], "logprob": value} for name, value in top.items()]
    return {"content": "", "completion_probabilities": [{"id": chosen, "logprob": -1.0, "top_logprobs": likeliest}]}


def test_llamacpp_asks_a_position_at_a_time_and_forces_a_token_that_it_does_not_state() -> None:
    ids = [2, 10, 20, 30]
    answers = [_llama(10, t10=-0.1, t11=-2.0), _llama(99, t5=-0.2, t6=-3.0), _llama(30, t30=-9.5)]
    posts, found = run("llamacpp", ScoreAsk("m", ids, (1, 3), 1, 0.7), answers)
    assert [post.body["prompt"] for post in posts] == [[2], [2, 10, 20], [2, 10, 20]]
    assert [post.scores for post in posts] == [1, 1, 0]
    assert all((post.body["n_predict"], post.body["temperature"]) == (1, 0.7) for post in posts)
    assert posts[2].body["logit_bias"] == [[30, 10000.0]]
    assert [(one.true, one.chosen, len(one.top)) for one in found] == [(10, 10, 1), (30, 99, 1)]
    assert found[0].logprob == -0.1


def test_an_answer_of_llamacpp_that_does_not_fit_is_one_line() -> None:
    ask = ScoreAsk("m", [2, 10], (1,), 5, 0.0)
    wrong: tuple[list[Any], ...] = ([{"content": "x"}], [[]], [_llama(1)])
    for answers in wrong:
        with pytest.raises(ServerRefused, match="llama-server"):
            run("llamacpp", ask, answers)


def test_sglang_states_the_prompt_from_where_it_was_asked() -> None:
    """Its documented form: [logprob, id, text] a token, the first without a number."""
    meta = {
        "input_token_logprobs": [[None, 20, "b"], [-0.5, 30, "c"], [-0.25, 40, "d"]],
        "input_top_logprobs": [None, [[-0.5, 30, "c"], [-1.0, 31, "x"]], [[-0.1, 41, "y"], [-0.25, 40, "d"]]],
    }
    posts, found = run("sglang", ScoreAsk("m", [2, 20, 30, 40], (2, 3), 2, 0.0), [{"meta_info": meta}])
    assert posts[0].body["logprob_start_len"] == 1
    assert [(one.true, one.logprob, one.top[0].id) for one in found] == [(30, -0.5, 30), (40, -0.25, 41)]
    silent = {"meta_info": {**meta, "input_top_logprobs": [None, None, None]}}
    for broken in ({}, {"meta_info": {**meta, "input_top_logprobs": [None]}}, silent):
        with pytest.raises(ServerRefused, match="/generate"):
            run("sglang", ScoreAsk("m", [2, 20, 30, 40], (2, 3), 2, 0.0), [broken])


def test_a_long_text_is_asked_position_by_position() -> None:
    """The logits of a long prefill over a whole vocabulary are memory that no server sets aside."""
    ids = list(range(1000, 1600))
    generated = {"tokens": ["token_id:7"], "token_logprobs": [-0.1], "top_logprobs": [{"token_id:7": -0.1}]}
    forced = {"tokens": ["token_id:1599"], "token_logprobs": [-9.5], "top_logprobs": [{"token_id:7": -0.1}]}
    answers = [{"choices": [{"logprobs": one}]} for one in (generated, forced)]
    posts, found = run("vllm", ScoreAsk("m", ids, (599,), 5, 1.0), answers)
    assert [len(post.body["prompt"]) for post in posts] == [599, 599]  # type: ignore[arg-type]
    assert all("prompt_logprobs" not in post.body and post.body["logprobs"] == 5 for post in posts)
    assert posts[1].body["allowed_token_ids"] == [1599]
    assert found == (Scored(position=599, true=1599, logprob=-9.5, top=(Candidate(7, -0.1),), chosen=7),)

    meta = {"input_token_logprobs": [[-1.0, 1598, "a"], [-0.5, 1599, "b"]]}
    meta["input_top_logprobs"] = [[[-1.0, 1598, "a"]], [[-0.5, 1599, "b"]]]
    posts, found = run("sglang", ScoreAsk("m", ids, (599,), 5, 0.0), [{"meta_info": meta}])
    assert posts[0].body["logprob_start_len"] == 598
    assert (found[0].logprob, len(posts)) == (-0.5, 1)


def test_vllm_states_the_same_of_a_prompt_and_of_a_generated_token() -> None:
    """Two ways to ask the same server for the same positions; at two of them the text's token had to be forced."""
    recorded = json.loads((FOLDER / "vllm-logprobs-by-position.json").read_text())
    at = tuple(recorded["positions"])
    filler = [0] * 600  # what follows the last position makes the text long, and is not sent
    posts, one_by_one = run("vllm", ScoreAsk("m", IDS + filler, at, 20, 0.0), recorded["answers"])
    _, whole = run("vllm", ScoreAsk("m", IDS, at, 5, 0.0), [GOLDEN["vllm"]])
    assert [post.body["prompt"] for post in posts if post.scores] == [IDS[:n] for n in at]
    assert len(posts) == 7
    for left, right in zip(one_by_one, whole, strict=True):
        assert left.logprob == pytest.approx(right.logprob, abs=1e-6)
        assert [token.id for token in left.top[:1]] == [token.id for token in right.top[:1]]
        assert left.chosen == left.top[0].id


@pytest.mark.parametrize(
    "changed",
    [
        {"tokens": [" the"]},
        {"top_logprobs": [{" the": -0.1}]},
        {"tokens": []},
        {"token_logprobs": []},
        {"top_logprobs": []},
        {"token_logprobs": [None], "top_logprobs": [None]},
    ],
)
def test_a_generated_token_without_ids_or_numbers_is_refused(changed: dict[str, Any]) -> None:
    generated = {"tokens": ["token_id:7"], "token_logprobs": [-0.1], "top_logprobs": [{"token_id:7": -0.1}]} | changed
    with pytest.raises(ServerRefused, match="by its id"):
        run("vllm", ScoreAsk("m", list(range(600)), (599,), 5, 0.0), [{"choices": [{"logprobs": generated}]}])


def test_a_forced_token_without_a_number_is_refused() -> None:
    stated = {"tokens": ["token_id:7"], "token_logprobs": [-0.1], "top_logprobs": [{"token_id:7": -0.1}]}
    forced = {"tokens": ["token_id:599"], "token_logprobs": [None], "top_logprobs": [{"token_id:7": -0.1}]}
    answers = [{"choices": [{"logprobs": one}]} for one in (stated, forced)]
    with pytest.raises(ServerRefused, match="allowed_token_ids"):
        run("vllm", ScoreAsk("m", list(range(600)), (599,), 5, 0.0), answers)
