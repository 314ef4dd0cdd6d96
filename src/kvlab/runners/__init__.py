"""Load generators of others that `kvlab bench --runner` can run: one a file of this folder."""

from __future__ import annotations

from functools import cache

from kvlab import variants
from kvlab.core.errors import BadInput, nearest
from kvlab.core.runner import Runner


@cache
def runners() -> dict[str, Runner]:
    """Every runner by name, sorted."""
    return {runner.name: runner for runner in variants.collected(__name__, Runner).values()}


def runner(name: str) -> Runner:
    """The runner of a name. Raises BadInput with the closest names."""
    found = runners().get(name)
    if found is None:
        raise BadInput(f"no runner called {name!r}; {nearest(name, runners())}")
    return found
