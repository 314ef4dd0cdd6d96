"""Blocks have another size.

Seen: a block or page size in the engine's arguments or in a line of the log. Without one: tokens that another size
gives to the digit, the pool being what the log states.
"""

from __future__ import annotations

from kvlab import engines
from kvlab.core.cause import Case, Cause, Guess

_SIZES = (16, 32, 64, 128)


def _guesses(case: Case) -> tuple[Guess, ...]:
    capacity, seen = case.plan.capacity, case.observation.get("block_size")
    if capacity is None or "block_size" not in engines.planner(case.plan.engine.name).options:
        return ()
    if seen is not None and not isinstance(seen.value, str):
        size = int(seen.value)
        if size == capacity.block_size:
            return ()
        text = f"the log states blocks of {size} tokens, the plan has {capacity.block_size}: plan with --block-size"
        return (Guess(changes={"block_size": size}, text=f"{text} {size}", stated=True),)
    return tuple(
        Guess(
            changes={"block_size": size},
            text=f"the log's numbers are those of blocks of {size} tokens, the plan has {capacity.block_size}",
        )
        for size in _SIZES
        if size != capacity.block_size and not case.observation.all_settings
    )


CAUSE = Cause(settings=("block_size",), guesses=_guesses)
