"""Advice for several engines, narrowed to one: what names another engine's flags goes."""

from __future__ import annotations

import re
from collections.abc import Iterable


def narrowed(items: Iterable[str], title: str, titles: Iterable[str]) -> tuple[str, ...]:
    """`items` without the clauses that belong to other engines of `titles`, and without items that have no other.

    A clause is what stands between commas or semicolons. It belongs to the engine that it starts with, or that follows
    its colon: "lower the share: vLLM --a, SGLang --b" is "lower the share: vLLM --a" for vLLM. An item that starts
    with another engine ("SGLang: ...") goes as a whole.
    """
    named = "|".join(re.escape(name) for name in titles)
    start = re.compile(rf"(?:with )?({named})(?=[ :,]|'s)")
    every = tuple(items)
    return tuple(filter(None, (_narrowed(item, title, start) for item in every))) or every


def _narrowed(item: str, title: str, start: re.Pattern[str]) -> str:
    clauses = re.split(r"(?<=[,;]) ", item)
    opening = start.match(item)
    heir = opening.group(1) if opening and item[opening.end() : opening.end() + 1] in ":," else None
    owners: list[str | None] = []
    for clause in clauses:
        found = start.match(clause) or re.search(rf": {start.pattern}", clause)
        heir = found.group(1) if found and heir else heir
        owners.append(found.group(1) if found else heir)
    if title not in owners:
        return item if None in owners else ""
    left = [_own(clause, owner, title, start) for clause, owner in zip(clauses, owners, strict=True)]
    return re.sub(r"[,;:]$", "", " ".join(filter(None, left)))


def _own(clause: str, owner: str | None, title: str, start: re.Pattern[str]) -> str:
    if owner in (None, title) or clause.count("(") != clause.count(")"):
        return clause
    intro = re.split(rf"(?<=:) (?={start.pattern})", clause)[0]
    return intro if intro != clause and not start.match(intro) else ""
