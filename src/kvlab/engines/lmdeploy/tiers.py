"""Tiers of LMDeploy: none that kvlab knows."""

from __future__ import annotations

from kvlab.core.engine import Offloading, Tiered

OFFLOADING = Offloading(kinds={}, tiers=lambda deployment, carved: Tiered())
