"""The log is of another GPU.

Seen: the memory of the whole GPU in the log's own line, or more free memory than the plan's GPU has. The pool then says
nothing about the plan's estimates.
"""

from __future__ import annotations

from kvlab.causes._bytes import PRINTED
from kvlab.core.cause import Case, Cause, Guess
from kvlab.core.check import Reason
from kvlab.core.observation import Observation, Value
from kvlab.core.units import GIB, gib

_NEAR, _PART = 0.5 * GIB, 0.01
"""How far drivers move the memory of one GPU: bytes, or a part of a large one (facts/gpus.toml)."""


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= max(_NEAR, _PART * other)


def other_memory(observation: Observation, planned: float) -> tuple[float, bool] | None:
    """Bytes of the log's GPU, and whether that is all of it; None where the planned one fits, or no line tells."""
    whole, free = observation.hint("gpu_bytes"), observation.hint("free_at_start_bytes")
    if whole is not None and not isinstance(whole.value, str):
        return None if _near(whole.value, planned) else (whole.value, True)
    if free is None or isinstance(free.value, str) or free.value <= planned or _near(free.value, planned):
        return None
    return free.value, False


def _found(case: Case) -> tuple[dict[str, Value], float, str] | None:
    """The GPU as a request names it, how much more memory it has, and the text."""
    planned = case.planned("gpu_memory")
    other = None if planned is None else other_memory(case.observation, planned)
    if planned is None or other is None or case.plan.ask.gpu == "cpu":
        return None
    memory, whole = other
    changes = _named(memory, case.plan.ask.gpu_gib) if whole else None
    how = "has" if whole else "has at least"
    text = f"the log is of another GPU: it {how} {gib(memory)}, the plan's {gib(planned)}"
    if changes is None:
        return {}, memory - planned, f"{text}: plan with --gpu NAME (kvlab gpus lists them)"
    name = changes["gpu"]
    asked = f"--gpu {name}" if name is not None else f"--gpu NAME (kvlab gpus), or --gpu-gib {memory / GIB:.2f}"
    return changes, memory - planned, f"{text}: plan with {asked}"


def _named(memory: float, planned: float | None) -> dict[str, Value]:
    """The one known GPU of that memory, to the printed digits or else nearly; the memory alone where several are."""
    from kvlab.facts import gpus

    every = gpus.table().values()
    exact = [gpu.name for gpu in every if abs(gpu.usable_bytes - memory) <= PRINTED]
    near = exact or [gpu.name for gpu in every if _near(memory, gpu.usable_bytes)]
    if len(near) == 1:
        return {"gpu": near[0]} if planned is None else {"gpu": near[0], "gpu_gib": None}
    return {"gpu": None, "gpu_gib": round(memory / GIB, 2)}


def _guesses(case: Case) -> tuple[Guess, ...]:
    found = _found(case)
    if found is None or not found[0]:
        return ()
    return (Guess(changes=found[0], text=found[2], stated=True),)


def _test(case: Case) -> Reason | None:
    found, off = _found(case), case.pool_off()
    if found is None:
        return None
    pool = next((line for line in case.plan.ledger if line.name == "pool"), None)
    share = 1.0
    left, whole = case.planned("left_free"), case.planned("gpu_memory")
    if left is not None and whole:
        share = 1 - left / whole
    accounts = off is not None and pool is not None and abs(off - found[1] * share) <= pool.high - pool.low
    explains = case.after("pool") if accounts else ()
    return Reason(code="other_gpu", text=found[2], certainty="stated", explains=explains)


CAUSE = Cause(settings=("gpu", "gpu_gib"), test=_test, guesses=_guesses)
