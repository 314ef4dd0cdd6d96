"""Advice for several engines and lines, narrowed to those of one log: what names another engine's flags goes."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FOR = re.compile(r'for ((?:"[^"]+"(?: or )?)+): ')
_BRACKETS = re.compile(r" \(([^()]+)\)")


def fitting(items: Iterable[str], lines: str) -> tuple[str, ...]:
    """`items` without those that begin with `for "WORDS" or "WORDS": ` when none of the words is in `lines`.

    What is left loses that condition, since it holds. Where nothing is left, all stay as they are.
    """
    every = tuple(items)
    left = []
    for item in every:
        condition = _FOR.match(item)
        if condition is None:
            left.append(item)
        elif any(words in lines for words in re.findall(r'"([^"]+)"', condition.group(1))):
            left.append(item[condition.end() :])
    return tuple(left) or every


def narrowed(items: Iterable[str], own: str | Iterable[str], titles: Iterable[str]) -> tuple[str, ...]:
    """`items` without the clauses that belong to engines of `titles` that are not `own`, and without items of no other.

    A clause is what stands between commas or semicolons. It belongs to the engine that it starts with, or that follows
    its colon: "lower the share: vLLM --a, SGLang --b" is "lower the share: vLLM --a" for vLLM. An item that starts
    with another engine ("SGLang: ...") goes as a whole, and so do brackets that name only others ("(SGLang --b)").
    """
    named = "|".join(re.escape(name) for name in titles)
    start = re.compile(rf"(?:with )?({named})(?=[ :,]|'s)")
    mine = frozenset({own} if isinstance(own, str) else own)
    every = tuple(items)
    return tuple(filter(None, (_narrowed(_inside(item, mine, start), mine, start) for item in every))) or every


def _inside(item: str, own: frozenset[str], start: re.Pattern[str]) -> str:
    def left(match: re.Match[str]) -> str:
        if not start.match(match.group(1)):
            return match.group()
        kept = _narrowed(match.group(1), own, start)
        return f" ({kept})" if kept and own.intersection(start.findall(kept)) else ""

    return _BRACKETS.sub(left, item)


def _narrowed(item: str, own: frozenset[str], start: re.Pattern[str]) -> str:
    clauses = re.split(r"(?<=[,;]) ", item)
    opening = start.match(item)
    heir = opening.group(1) if opening and item[opening.end() : opening.end() + 1] in ":," else None
    owners: list[str | None] = []
    for clause in clauses:
        found = start.match(clause) or re.search(rf": {start.pattern}", clause)
        heir = found.group(1) if found and heir else heir
        owners.append(found.group(1) if found else heir)
    if own.isdisjoint(owners):
        return item if None in owners else ""
    left = [_own(clause, owner, own, start) for clause, owner in zip(clauses, owners, strict=True)]
    return re.sub(r"[,;:]$", "", " ".join(filter(None, left)))


def _own(clause: str, owner: str | None, own: frozenset[str], start: re.Pattern[str]) -> str:
    if owner is None or owner in own or clause.count("(") != clause.count(")"):
        return clause
    intro = re.split(rf"(?<=:) (?={start.pattern})", clause)[0]
    return intro if intro != clause and not start.match(intro) else ""
