"""Engines whose caches are asked for: what the free memory holds comes before a cache of lower quality."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.plan import MAY_FIT

QWEN = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen2.5-0.5B.json"


@pytest.mark.parametrize("engine", ["llamacpp", "ollama"])
def test_free_memory_is_proposed_first_and_the_proposal_fits(engine: str) -> None:
    found = api.plan(QWEN, engine=engine, gpu="rtx4090-24gb", weights_gib=1.0, context=8192)
    assert found.capacity is not None
    first = found.verdict.moves[0]
    assert first.text.startswith("--users ")
    assert "kv-dtype" in found.verdict.moves[1].text
    users = int(first.text.split()[1])
    taken = api.plan(QWEN, engine=engine, gpu="rtx4090-24gb", weights_gib=1.0, context=8192, users=users)
    assert taken.verdict.code == "fits"
    assert not taken.verdict.text.startswith(MAY_FIT)
    assert taken.verdict.holds_users
    assert taken.capacity is not None
    assert first.gain_tokens == taken.capacity.tokens - found.capacity.tokens
    assert not any(move.text.startswith("--users") for move in taken.verdict.moves)


@pytest.mark.parametrize("options", [{"pool_gib": 4.0}, {"gpu_gib": 1.2, "weights_gib": 1.0}, {}])
def test_nothing_is_proposed_without_free_memory(options: dict[str, float]) -> None:
    found = api.plan(QWEN, engine="llamacpp", context=8192, **options)  # type: ignore[arg-type]
    assert not any(move.text.startswith("--users") for move in found.verdict.moves)


def test_an_engine_that_takes_the_whole_pool_has_none_free() -> None:
    found = api.plan(QWEN, engine="vllm", gpu="rtx4090-24gb", weights_gib=1.0, context=8192)
    assert not any(move.text.startswith("--users") for move in found.verdict.moves)
