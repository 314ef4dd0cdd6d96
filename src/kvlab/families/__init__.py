"""Shapes of cache, one file each: config keys -> Layout. A file's one Family is its registration."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from kvlab.core.config import Config
from kvlab.core.doubts import doubts, structural
from kvlab.core.errors import KvlabError, UnknownModel
from kvlab.core.family import Family, Understood


@cache
def families() -> tuple[Family, ...]:
    """All families, by file name."""
    found = []
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        module = import_module(f"kvlab.families.{path.stem}")
        values = [value for value in vars(module).values() if isinstance(value, Family)]
        if len(values) != 1:
            raise TypeError(f"{module.__name__} must hold exactly one Family, it holds {len(values)}")
        found += values
    return tuple(found)


def understand(root: Config) -> Understood:
    """The layout of a config, by the one family that explains every key which sets the shape of the cache.

    Raises UnknownModel naming model_type and the keys that no family understood; MissingFact and BadInput as the
    family that claims the config does.
    """
    root = root.fresh()
    claiming = [family for family in families() if not family.general and family.claims(root.language())]
    if not claiming:
        claiming = [family for family in families() if family.general and family.claims(root.language())]
    answers, errors, left_over = [], [], set[str]()
    for family in claiming:
        config = root.fresh()
        try:
            layout = family.layout(config.language())
        except KvlabError as error:
            errors.append(error)
            if family.general:
                left_over.update(structural(config))
            continue
        left = structural(config)
        left_over.update(left)
        if not left:
            answers.append(Understood(family=family.name, layout=layout, doubts=doubts(config)))
    if len(answers) == 1:
        return answers[0]
    if len(errors) == 1 and not left_over and not answers:
        raise errors[0]
    raise _unknown(root, sorted(left_over) or structural(root), [answer.family for answer in answers])


def _unknown(root: Config, keys: list[str], claimed: list[str]) -> UnknownModel:
    kind = root.language().peek("model_type") or root.peek("model_type")
    named = f"model_type {kind!r}" if kind else "a config without model_type"
    if claimed:
        reason = f"its keys fit more than one cache shape ({', '.join(claimed)})"
    else:
        reason = f"keys not understood: {', '.join(keys[:8]) or 'none of the keys that size a cache is there'}"
    return UnknownModel(f"{root.where}: no family knows the cache of {named}; {reason}")
