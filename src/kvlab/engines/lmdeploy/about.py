"""LMDeploy serves no page that states its version or its cache: metrics and log alone tell."""

from __future__ import annotations

from kvlab.core.about import About, Described

ABOUT = About(read=lambda pages: Described())
