"""A parsed config that remembers which of its keys were read, so that the others can be doubted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from kvlab.core.class_defaults import NESTED_DEFAULTS
from kvlab.core.errors import BadInput, MissingFact, shortened

T = TypeVar("T")

MOST_TOKENS = 1 << 31
"""Longest context or window: two hundred times the longest that was published."""
_LIMITS = (
    # Bounds far above any published model: a number beyond them is a typing error or another kind of file.
    (("position", "context", "seq", "window", "chunk", "n_ctx"), MOST_TOKENS),
    (("layer", "block", "modules"), 4_000),
    (("head", "dim", "rank", "channels", "kernel", "state", "group", "length", "interval", "freq"), 100_000),
)
_LIMIT = 100_000_000
_LONGEST = 10_000
"""Numbers in a list: more than layers that a model has."""
TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "thinker_config", "language_model_config")
"""Keys under which multimodal configs keep the config of their language model."""
LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")


class Config:
    """The keys of a config, or of one nested in it. A null value counts as absent, as in Hugging Face's configs.

    `where` names the file in error messages; `path` is the dotted way to a nested config ("text_config.").
    """

    def __init__(self, values: Mapping[str, object], where: str, path: str = "", parent: Config | None = None) -> None:
        self.where = where
        self.path = path
        self._parent = parent
        self._values = values
        self._read: set[str] = set()
        self._children: dict[str, Config] = {}
        self._checked: dict[tuple[str, int], list[int]] = {}

    def fresh(self) -> Config:
        """The same config with nothing read."""
        return Config(self._values, self.where, self.path)

    def has(self, *keys: str) -> bool:
        """Whether any of the keys has a value; does not count as reading."""
        return any(self._values.get(key) is not None for key in keys)

    def peek(self, key: str) -> object:
        """The raw value, None when absent; does not count as reading."""
        return self._values.get(key)

    def understood(self, *keys: str) -> None:
        """Count the keys as read: what they say is known and does not change the cache."""
        self._read.update(keys)

    def maybe(self, *keys: str, least: int = 1) -> int | None:
        """The whole number under the first key that has a value, at least `least`; None when none has.

        Raises BadInput for what is no whole number, or beyond any published model.
        """
        key = self._first(keys)
        if key is None:
            return None
        return self.number(self._values[key], key, least)

    def need(self, *keys: str, least: int = 1) -> int:
        """As `maybe`, but raises MissingFact naming every spelling when no key has a value."""
        value = self.maybe(*keys, least=least)
        if value is None:
            raise MissingFact(
                f"{self.where}: none of {', '.join(self.path + key for key in keys)} is set; add it to the config"
                if len(keys) > 1
                else f"{self.where}: {self.path}{keys[0]} is not set; add it to the config"
            )
        return value

    def number(self, value: object, key: str, least: int = 1) -> int:
        """`value`, found under `key`, as a whole number in a believable range. Raises BadInput otherwise."""
        limit = next((limit for words, limit in _LIMITS if any(word in key for word in words)), _LIMIT)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= limit:
            raise self.bad(key, value, f"a whole number from {least:,} to {limit:,}")
        return value

    def flag(self, *keys: str) -> bool | None:
        """The truth value under the first key that has a value; None when none has."""
        return self._typed(keys, bool, "true or false")

    def text(self, *keys: str) -> str | None:
        """The string under the first key that has a value; None when none has."""
        return self._typed(keys, str, "a string")

    def items(self, *keys: str) -> list[object] | None:
        """The list under the first key that has a value; None when none has."""
        return self._typed(keys, list, "a list")

    def numbers(self, *keys: str, least: int = 0) -> list[int] | None:
        """The list of whole numbers under the first key that has a value; None when none has."""
        key = self._first(keys)
        values = self.items(*keys)
        if values is None or key is None:
            return None
        if len(values) > _LONGEST:
            raise self.bad(key, f"a list of {len(values):,}", f"a list of at most {_LONGEST:,} numbers")
        # Asked for once a layer.
        checked = self._checked.get((key, least))
        if checked is None:
            checked = self._checked[key, least] = [self.number(value, key, least) for value in values]
        return list(checked)

    def numbers_or_one(self, key: str) -> list[int]:
        """The list of whole numbers under `key`, or the one number there as a list.

        Raises MissingFact without one, BadInput for an empty list.
        """
        if not isinstance(self._values.get(key), list):
            return [self.need(key, least=0)]
        found = self.numbers(key)
        if not found:
            raise self.bad(key, found, "a number, or a list of them")
        return found

    def sub(self, *keys: str) -> Config | None:
        """The nested config under the first key that holds one; None when none does."""
        for key in keys:
            value = self._values.get(key)
            if isinstance(value, dict):
                if key not in self._children:
                    kind = value.get("model_type")
                    if key in TEXT_CONFIGS and isinstance(kind, str):
                        value = {**NESTED_DEFAULTS.get(kind, {}), **value}
                    self._children[key] = Config(value, self.where, f"{self.path}{key}.", self)
                return self._children[key]
        return None

    def beside(self, key: str) -> Config | None:
        """The nested config under `key`, here or in a config that this one is nested in; None when there is none."""
        found = self.sub(key)
        return found if found is not None or self._parent is None else self._parent.beside(key)

    def need_sub(self, key: str) -> Config:
        """The nested config under `key`. Raises BadInput when it holds none."""
        nested = self.sub(key)
        if nested is None:
            raise self.bad(key, self.peek(key), "an object")
        return nested

    def language(self) -> Config:
        """The config of the language model: this one, or the one nested in it that states the layers."""
        nested = self.sub(*TEXT_CONFIGS)
        if nested is None:
            return self
        inner = nested.language()
        return (
            inner if inner.has(*LAYER_KEYS, "layers_block_type", "hidden_size") or not self.has(*LAYER_KEYS) else self
        )

    def unread(self) -> Iterator[tuple[str, object]]:
        """Dotted keys with a value that nothing read, here and in the nested configs, and their values."""
        for key, value in self._values.items():
            if key in self._children:
                yield from self._children[key].unread()
            elif key not in self._read and value is not None:
                yield self.path + key, value

    def bad(self, key: str, value: object, wanted: str) -> BadInput:
        """The error for a value that cannot be used: what, where, and what would be right."""
        return BadInput(f"{self.where}: {self.path}{key} is {shortened(repr(value))}; it must be {wanted}")

    def _typed(self, keys: tuple[str, ...], kind: type[T], wanted: str) -> T | None:
        key = self._first(keys)
        if key is None:
            return None
        value = self._values[key]
        if not isinstance(value, kind):
            raise self.bad(key, value, wanted)
        return value

    def _first(self, keys: tuple[str, ...]) -> str | None:
        """The first key with a value. Other spellings that say the same count as read; those that differ do not."""
        self._read.update(key for key in keys if self._values.get(key) is None)
        found = next((key for key in keys if self._values.get(key) is not None), None)
        if found is not None:
            value = self._values[found]
            self._read.update(key for key in keys if self._values.get(key) == value)
        return found
