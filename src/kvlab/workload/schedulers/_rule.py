"""What the simulation of an engine's scheduler has to say of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvlab.workload.blockpool import BlockPool
from kvlab.workload.scheduler import Limits, Simulation, Speed, Watch


class Scheduler(NamedTuple):
    """How one engine schedules."""

    simulation: Callable[[BlockPool, Limits, Speed, Watch], Simulation]
    most_sequences: int
    """Requests at a time, where nobody says."""
    most_tokens: int
    """Tokens that a step computes at most, where nobody says."""
    preemptions: str
    """The engine's word for requests that lose their blocks."""
    definition: str
    """What is simulated, in a sentence for the reader of the numbers."""
