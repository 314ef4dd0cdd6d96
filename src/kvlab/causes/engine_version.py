"""The log is from another release of the engine.

Seen: the version that the log names is not the plan's, or, without one, numbers that an older release gives. The line
of the tokens has changed its meaning: with groups of layers, vLLM up to 0.20 prints the blocks of one group, later
releases the requests that run together times their length.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause, Guess

_ERAS = {"vllm": ("0.28.0", "0.27.0", "0.25.0", "0.19.0", "0.10.0")}
"""A release of each set of rules, for logs that do not name theirs."""


def _guesses(case: Case) -> tuple[Guess, ...]:
    if case.observation.version is not None:
        return ()
    return tuple(
        Guess(
            changes={"engine_version": version},
            text=f"the log's numbers are those that {version} prints, the plan is for {case.plan.engine.version}:"
            f" plan with --engine-version {version}",
        )
        for version in _ERAS.get(case.plan.engine.name, ())
        if version != case.plan.engine.version
    )


CAUSE = Cause(settings=("engine_version",), guesses=_guesses)
