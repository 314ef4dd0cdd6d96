"""The number of blocks or tokens was given.

Seen: num_gpu_blocks_override or max_total_tokens in the engine's arguments, or a line that overrides the blocks.
"""

from __future__ import annotations

import re

from kvlab.core.cause import Case, Cause, Guess
from kvlab.core.check import Reason
from kvlab.core.follows import ratio, slack

_OVERRIDE = re.compile(r"num_gpu_blocks_override=\d")
_COUNTED = ("num_gpu_blocks", "kv_tokens", "max_concurrency")


def _given(case: Case) -> tuple[str, str] | None:
    """The blocks that a line of the log was given, and the text."""
    seen = case.observation.get("num_gpu_blocks")
    if seen is None or _OVERRIDE.search(seen.line) is None:
        return None
    blocks = f"{float(seen.value):.0f}"
    text = f"a line overrides the blocks with {blocks}: plan with --engine-arg num-gpu-blocks-override={blocks}"
    return blocks, text


def _guesses(case: Case) -> tuple[Guess, ...]:
    found = _given(case)
    if found is None:
        return ()
    return (Guess(changes={"num-gpu-blocks-override": found[0]}, text=found[1], stated=True),)


def _test(case: Case) -> Reason | None:
    found, blocks = _given(case), case.row("num_gpu_blocks")
    whole = None if blocks is None else ratio(blocks)
    if found is None or whole is None:
        return None
    # Rows that changed as the blocks did; other block sizes and lengths of a request change them otherwise.
    alike = [row for row in case.open if (got := ratio(row)) and abs(got / whole - 1) <= slack(case.plan, row)]
    names = tuple(row.name for row in alike if row.name in _COUNTED)
    return Reason(code="blocks_given", text=found[1], certainty="stated", explains=names)


CAUSE = Cause(settings=("num-gpu-blocks-override", "max-total-tokens"), test=_test, guesses=_guesses)
