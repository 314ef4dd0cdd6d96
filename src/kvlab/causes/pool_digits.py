"""The pool is known to the digits that the log prints.

Seen: tokens that a pool gives whose bytes are printed alike: one of 46.8 GiB may be five hundredths more or less.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause, Guess
from kvlab.core.follows import stated_pool
from kvlab.core.units import gib


def _guesses(case: Case) -> tuple[Guess, ...]:
    stated = stated_pool(case.observation)
    if stated is None or case.pool_off() is not None:
        return ()
    text = f"the pool is printed as {gib(stated[0])}, and one that is printed so holds as many"
    return (Guess(changes={}, text=text, stated=True),)


CAUSE = Cause(guesses=_guesses, taught=True)
