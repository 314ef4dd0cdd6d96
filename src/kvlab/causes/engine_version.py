"""The log is from another release of the engine.

Seen: the version that the log names is not the plan's, or, without one, numbers that an older release gives. The line
of the tokens has changed its meaning: with groups of layers, vLLM up to 0.20 prints the blocks of one group, later
releases the requests that run together times their length.
"""

from __future__ import annotations

from kvlab import engines
from kvlab.core.cause import Case, Cause, Guess


def _guesses(case: Case) -> tuple[Guess, ...]:
    if case.observation.version is not None:
        return ()
    return tuple(
        Guess(
            changes={"engine_version": version},
            text=f"the log's numbers are those that {version} prints, the plan is for {case.plan.engine.version}:"
            f" plan with --engine-version {version}",
        )
        for version in engines.stated_args(case.plan.engine.name).releases
        if version != case.plan.engine.version
    )


CAUSE = Cause(settings=("engine_version",), guesses=_guesses)
