"""The verb `kvlab prefix`, typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from kvlab.core.plan import Plan
from kvlab.store import place

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvlab.core.quality import Prefix
    from kvlab.options import PrefixOptions

    OnCount = Callable[[int, int], None]


def prefix(
    url: str,
    *,
    engine: str | None = None,
    rounds: int = 4,
    warm: int = 3,
    prefix_tokens: int | tuple[int, ...] | None = None,
    progress: OnCount | None = None,
    **asked: Unpack[PrefixOptions],
) -> Prefix:
    """Time to first token with a cold and a warm prefix, and the engine's own cached-token counts.

    `lengths`, `churn`, `block_size` and `salts` ask further; several `prefix_tokens` are the lengths to measure.
    `progress` is told of the requests of the first part, `on_part` of all.
    Raises BadInput for settings without an answer, ServerRefused and EngineFailed when the server gives none.
    """
    from kvlab.request import stated
    from kvlab.sharing import QUICK, Asked, measure
    from kvlab.store import read

    on_part = asked.pop("on_part", None)

    def tell(part: str, done: int, total: int) -> None:
        if progress is not None and part == QUICK:
            progress(done, total)
        if on_part is not None:
            on_part(part, done, total)

    model = asked.get("plan")
    if model is not None and not isinstance(model, Plan):
        asked["plan"] = read(place(model, "plan"), Plan, "plan")
    lengths = (prefix_tokens,) if isinstance(prefix_tokens, int) else tuple(prefix_tokens or ())
    wanted = stated(Asked, {**asked, "prefix_tokens": lengths}, "prefix")
    return measure(url, engine, wanted, rounds=rounds, warm=warm, on_part=tell)
