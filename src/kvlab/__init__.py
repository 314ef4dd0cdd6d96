"""kvlab: plan the KV cache of any open-weight model, launch the engine, check the plan, measure, gate, report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kvlab.api import (
        ab,
        artefacts,
        bench,
        bench_ladder,
        check,
        compare,
        demo,
        diagnose,
        explain,
        explain_code,
        explain_list,
        freeze,
        gpus,
        history,
        plan,
        prefix,
        quality,
        quality_parts,
        report,
        sweep,
        traffic,
        verify,
    )

__all__ = [
    "__version__",
    "ab",
    "artefacts",
    "bench",
    "bench_ladder",
    "check",
    "compare",
    "demo",
    "diagnose",
    "explain",
    "explain_code",
    "explain_list",
    "freeze",
    "gpus",
    "history",
    "plan",
    "prefix",
    "quality",
    "quality_parts",
    "report",
    "sweep",
    "traffic",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Verbs are imported when they are first used, so that `import kvlab` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'kvlab' has no attribute {name!r}")
    from kvlab import api

    return getattr(api, name)
