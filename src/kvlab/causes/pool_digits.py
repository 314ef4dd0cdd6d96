"""The pool is known to the digits that the log prints.

Seen: the tokens are those of a pool that rounds to the printed one: "46.80 GiB" may be 0.005 GiB more or less.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause, Guess
from kvlab.core.follows import stated_pool
from kvlab.core.units import gib


def _guesses(case: Case) -> tuple[Guess, ...]:
    stated = stated_pool(case.observation)
    if stated is None or case.pool_off() is not None:
        return ()
    text = f"the log prints the pool as {gib(stated[0])}, and a pool that rounds to that gives the log's numbers"
    return (Guess(changes={}, text=text, stated=True),)


CAUSE = Cause(guesses=_guesses, taught=True)
