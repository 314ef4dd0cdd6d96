"""What loading a model gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from kvlab.core.layout import Layout
from kvlab.core.model import Doubt, Model, Origin, Weights

if TYPE_CHECKING:
    from kvlab.core.roofline import Work


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A model, what it caches, and the bytes of its weights (None when nothing says them)."""

    origin: Origin
    model: Model
    layout: Layout
    weights: Weights | None
    doubts: tuple[Doubt, ...]
    work: Callable[[int | None], Work | None] | None = None
    """What a token costs, given the checkpoint's bytes where they were read; counted only when it is asked for."""
