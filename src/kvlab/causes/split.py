"""The model is split over another number of GPUs.

Seen: tensor, pipeline, data or decode-context parallel sizes in the engine's arguments. Without them: tokens that
change by the factor of another split, the pool being what the log states. vLLM multiplies the tokens by the
decode-context size.
"""

from __future__ import annotations

from kvlab import engines
from kvlab.core.cause import Case, Cause, Guess

_SIZES = (2, 4, 8)


def _guesses(case: Case) -> tuple[Guess, ...]:
    """Other sizes, where the log states neither arguments nor sizes."""
    if case.observation.all_settings:
        return ()
    tried = [("tp", size) for size in (1, *_SIZES)]
    if "dcp" in engines.planner(case.plan.engine.name).options:
        tried += [("dcp", size) for size in _SIZES]
    return tuple(
        Guess(
            changes={name: size}, text=f"the log's numbers are those of --{name} {size}, the plan's --{name} {planned}"
        )
        for name, size in tried
        if (planned := getattr(case.plan.ask, name) or 1) != size and case.observation.setting(name) is None
    )


CAUSE = Cause(
    settings=("tp", "pp", "dp", "dcp", "ep", "enable-dp-attention"), engines=("vllm", "sglang"), guesses=_guesses
)
