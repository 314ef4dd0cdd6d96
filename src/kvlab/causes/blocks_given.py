"""The number of blocks or tokens was given.

Seen: num_gpu_blocks_override or max_total_tokens in the engine's arguments, or a line that overrides the blocks.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause, Guess


def _guesses(case: Case) -> tuple[Guess, ...]:
    seen = case.observation.get("num_gpu_blocks")
    if case.plan.engine.name != "vllm" or seen is None or "num_gpu_blocks_override" not in seen.line:
        return ()
    blocks = f"{float(seen.value):.0f}"
    text = f"a line overrides the blocks with {blocks}: plan with --engine-arg num-gpu-blocks-override={blocks}"
    return (Guess(changes={"num-gpu-blocks-override": blocks}, text=text, stated=True),)


CAUSE = Cause(settings=("num-gpu-blocks-override", "max-total-tokens"), guesses=_guesses)
