"""kvlab: plan the KV cache of any open-weight model, launch the engine, check the plan, measure, gate, report."""

from __future__ import annotations

__version__ = "0.1.0"
