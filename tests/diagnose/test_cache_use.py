"""How full a cache is where the engine counts tokens alone: what is said rests on pools that it can have."""

from __future__ import annotations

import json

from kvlab import engines
from kvlab.core.diagnosis import Case, Diagnosis, Look, Planned
from kvlab.core.scrape import Reading
from kvlab.diagnosing import judge

SLOT = {"n_ctx": 2_048, "is_processing": True}


def reading(*prompts: int, waiting: int = 3) -> Reading:
    """Four slots of 2,048 tokens, of which as many work as there are prompts."""
    working = [{**SLOT, "id": at, "n_prompt_tokens": tokens} for at, tokens in enumerate(prompts)]
    idle = [{**SLOT, "id": at, "is_processing": False} for at in range(len(prompts), 4)]
    metrics = f"llamacpp:requests_processing {len(prompts)}\nllamacpp:requests_deferred {waiting}\n"
    return engines.reading("llamacpp", {"/metrics": metrics, "/slots": json.dumps(working + idle)})


def verdict(*prompts: int, waiting: int = 3, tokens: int | None = None) -> Diagnosis:
    plan = None if tokens is None else Planned(engine="llamacpp", kv_dtype="f16", tokens=tokens)
    looks = tuple(Look(float(at), reading(*prompts, waiting=waiting)) for at in range(3))
    return judge(Case(looks=looks, plan=plan))


def of_capacity(found: Diagnosis) -> tuple[str, str]:
    return next((one.holds, one.because) for one in found.others if one.verdict == "capacity_bound")


def test_a_cache_that_is_little_used_either_way_is_not_full() -> None:
    """4 x 100 tokens are 20 % of the 2,048 that slots may share, and 5 % of four times as many."""
    found = verdict(100, 100, 100, 100)
    assert of_capacity(found)[0] == "no"
    assert "no more than 20% of the cache is in use, whether slots share it or divide it" in of_capacity(found)[1]
    assert not any("how full" in text for text in found.missing)


def test_what_depends_on_whether_slots_share_is_asked_for() -> None:
    """4 x 500 tokens fill a shared cache of 2,048 and a quarter of a divided one."""
    found = verdict(500, 500, 500, 500)
    assert of_capacity(found)[0] == "unknown"
    assert "24% of the cache is in use where slots divide it, 98% where they share it" in of_capacity(found)[1]
    assert any("--plan" in text for text in found.missing if "how full" in text)


def test_the_plan_tells_whether_slots_share() -> None:
    shared, divided = verdict(500, 500, 500, 500, tokens=2_048), verdict(500, 500, 500, 500, tokens=8_192)
    assert shared.verdict == "capacity_bound"
    assert [(one.metric, one.line) for one in shared.evidence if one.metric == "kv_used_ratio"]
    assert of_capacity(divided) == ("no", "24% of the cache is in use")


def test_a_plan_of_another_pool_does_not_tell() -> None:
    assert of_capacity(verdict(500, 500, 500, 500, tokens=5_000))[0] == "unknown"


def test_more_than_one_slot_may_hold_says_that_slots_divide_the_cache() -> None:
    assert of_capacity(verdict(1_500, 1_500, 100, 100)) == ("no", "39% of the cache is in use")


def test_tokens_of_a_stated_pool_are_evidence() -> None:
    values = {"running": 9.0, "waiting": 4.0, "kv_used_tokens": 990.0, "kv_tokens": 1_000.0}
    found = judge(Case(looks=tuple(Look(float(at), Reading(engine="trt", values=values)) for at in range(3))))
    assert found.verdict == "capacity_bound"
    assert next(one.value for one in found.evidence if one.metric == "kv_used_ratio") == 0.99
