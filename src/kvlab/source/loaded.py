"""What loading a model gives."""

from __future__ import annotations

import msgspec

from kvlab.core.layout import Layout
from kvlab.core.model import Doubt, Model, Origin, Weights


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A model, what it caches, and the bytes of its weights (None when nothing says them)."""

    origin: Origin
    model: Model
    layout: Layout
    weights: Weights | None
    doubts: tuple[Doubt, ...]
