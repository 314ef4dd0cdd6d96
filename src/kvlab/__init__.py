"""kvlab: plan the KV cache of any open-weight model, launch the engine, check the plan, measure, gate, report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kvlab.api import (
        ab,
        artefacts,
        bench,
        check,
        compare,
        demo,
        diagnose,
        explain,
        gpus,
        plan,
        prefix,
        quality,
        quality_parts,
        report,
        traffic,
    )

__all__ = [
    "__version__",
    "ab",
    "artefacts",
    "bench",
    "check",
    "compare",
    "demo",
    "diagnose",
    "explain",
    "gpus",
    "plan",
    "prefix",
    "quality",
    "quality_parts",
    "report",
    "traffic",
]


def __getattr__(name: str) -> Any:
    """Verbs are imported when they are first used, so that `import kvlab` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'kvlab' has no attribute {name!r}")
    from kvlab import api

    return getattr(api, name)
