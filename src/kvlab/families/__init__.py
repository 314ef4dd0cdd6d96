"""Shapes of cache, one file each: config keys -> Layout. A file's one Family is its registration."""

from __future__ import annotations

from functools import cache

import msgspec

from kvlab import variants
from kvlab.core.config import Config
from kvlab.core.doubts import doubts, structural
from kvlab.core.errors import BadInput, KvlabError, MissingFact, UnknownModel
from kvlab.core.family import Family, Understood

GENERAL = "uniform"
"""The family that is asked first: every other shape shows itself by a key which this one leaves unread."""

_MOST_PER_TOKEN = 1 << 26
"""Cached values of one token: 28 times those of GPT-3, whose 96 layers keep 96 heads of 128 each."""
_MOST_STATE = 1 << 36


def family(name: str) -> Family:
    """The one Family in the file of that name. Raises TypeError when the file does not hold exactly one."""
    return variants.one(f"{__name__}.{name}", Family)


@cache
def families() -> tuple[Family, ...]:
    """All families but the general one, by file name. Importing them takes as long as Python's own start."""
    return tuple(family(name) for name in variants.names(__name__) if name != GENERAL)


def understand(root: Config) -> Understood:
    """The layout of a config, by the one family that explains every key which sets the shape of the cache.

    Raises UnknownModel naming model_type and the keys that no family understood; MissingFact and BadInput as the
    family that claims the config does.
    """
    general = family(GENERAL)
    first = _try(general, root) if general.claims(root.language()) else _Tried(left=_all_structural(root))
    if first.answer is not None:
        return _kept(root, first.answer)
    tried = [_try(other, root) for other in families() if other.claims(root.language())] or [first]
    answers = [one.answer for one in tried if one.answer is not None]
    if len(answers) == 1:
        return _kept(root, answers[0])
    left = sorted({key for one in tried for key in one.left})
    error = tried[0].error if len(tried) == 1 else None
    if error is not None and (not left or (len(left) == 1 and isinstance(error, UnknownModel))):
        raise error
    raise _unknown(root, left, [answer.family for answer in answers])


class _Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one family: an answer, or an error, or keys that it does not understand."""

    answer: Understood | None = None
    error: KvlabError | None = None
    left: tuple[str, ...] = ()


def _try(asked: Family, root: Config) -> _Tried:
    config = root.fresh()
    try:
        layout = asked.layout(config.language())
    except KvlabError as error:
        # The general family fails on configs of another shape, whose keys say more than what it missed.
        other_shape = asked.name == GENERAL and isinstance(error, MissingFact | UnknownModel)
        return _Tried(error=error, left=_all_structural(root) if other_shape else ())
    left = structural(config)
    if left:
        return _Tried(left=tuple(left))
    return _Tried(answer=Understood(family=asked.name, layout=layout, doubts=doubts(config)))


def _kept(root: Config, answer: Understood) -> Understood:
    """The answer, when the layers keep something, and no more than a model can.

    Raises UnknownModel for a cache of 0 bytes, BadInput for one beyond any machine.
    """
    rows = (*answer.layout.rows, *answer.layout.draft)
    tokens = sum(row.values_per_token() for row in rows)
    states = sum(len(row.layers) * state.values for row in rows for state in row.state)
    if not tokens and not states:
        kind = root.language().peek("model_type")
        raise UnknownModel(
            f"{root.where}: no layer of model_type {kind!r} keeps anything, as family {answer.family} reads its keys;"
            " check its layers, heads and head size"
        )
    if tokens > _MOST_PER_TOKEN or states > _MOST_STATE:
        raise BadInput(
            f"{root.where}: its layers, heads and head sizes make {tokens:,} cached values a token and {states:,} of"
            " recurrent state, more than any model keeps; check them"
        )
    return answer


def _all_structural(root: Config) -> tuple[str, ...]:
    config = root.fresh()
    config.language()
    return tuple(structural(config))


def _unknown(root: Config, keys: list[str], claimed: list[str]) -> UnknownModel:
    kind = root.language().peek("model_type") or root.peek("model_type")
    named = f"model_type {kind!r}" if kind else "a config without model_type"
    if claimed:
        reason = f"its keys fit more than one cache shape ({', '.join(claimed)})"
    else:
        reason = f"keys not understood: {', '.join(keys[:8]) or 'none of the keys that size a cache is there'}"
    return UnknownModel(f"{root.where}: no family knows the cache of {named}; {reason}")
