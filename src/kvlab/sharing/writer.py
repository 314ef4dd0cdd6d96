"""Passages to make prompts of: token ids where the server has a tokenizer, else words."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

Passage = tuple[int, ...] | str
"""Token ids, or text of about as many tokens."""
_WORDS = (
    *("a", "note", "on", "the", "long", "road", "from", "old", "harbour", "to", "market", "with", "its", "price"),
    *("weight", "and", "date"),
)
_TOKENS_PER_WORD = 1.1


class Writer:
    """Makes passages that share nothing with any other, from `ids` (empty: from words)."""

    def __init__(self, ids: Sequence[int], source: Random) -> None:
        self._ids = tuple(ids)
        self._source = source

    @property
    def exact(self) -> bool:
        """Whether passages have exactly as many tokens as asked for."""
        return bool(self._ids)

    def passage(self, tokens: int) -> Passage:
        """A new passage of `tokens` tokens; of text, of about as many."""
        if self._ids:
            return tuple(self._source.choices(self._ids, k=tokens))
        name = f"{self._source.getrandbits(40):010x}"
        return " ".join([name, *self._source.choices(_WORDS, k=max(1, round(tokens / _TOKENS_PER_WORD) - 5))])

    def unlike(self, token: int, tokens: int) -> tuple[int, ...]:
        """A passage of ids that begins with another token than this one."""
        others = [one for one in self._ids if one != token]
        return (self._source.choice(others), *self._source.choices(self._ids, k=tokens - 1))

    def joined(self, *passages: Passage) -> Passage:
        """One passage after another."""
        texts = [passage for passage in passages if isinstance(passage, str)]
        if texts:
            return " ".join(texts)
        return tuple(token for passage in passages for token in passage if isinstance(token, int))
