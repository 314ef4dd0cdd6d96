"""What the prefix experiment must know of a server: its engine, what it states of its cache, its tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kvlab.core.errors import BadInput, ServerRefused

QUESTION_TOKENS = 80
"""More than any question and its answer take."""
_SECONDS = 20.0
_LISTED = (
    "The letter of the old castle bridge says that seven doctors travel by river in winter, while the market sells"
    " orange paper, yellow windows, garden tools, simple maps, copper bells, small ships, green apples, heavy doors,"
    " silver rings, dry wood, warm bread, long ropes, quiet horses, broken clocks, empty bottles, white stones, round"
    " tables, cheap shoes, early trains, late guests, narrow streets, distant hills, cold rain and number cards"
)
"""Common words: what a tokenizer makes of them are plain tokens of any model."""


class Known(NamedTuple):
    """A server: its engine's name where it is known, and the numbers that its pages state, by kvlab's words."""

    engine: str | None
    stated: Mapping[str, float]

    @property
    def limit(self) -> int | None:
        """Tokens that one request may hold, prompt and answer; None when the server does not say."""
        found = [int(self.stated[word]) for word in ("n_ctx_slot", "max_model_len", "kv_tokens") if word in self.stated]
        return min(found, default=None)

    @property
    def room(self) -> int | None:
        """Tokens that a prefix may have, with room for a question and its answer; None when nothing is stated."""
        return None if self.limit is None else self.limit - QUESTION_TOKENS


def look(url: str, engine: str | None) -> Known:
    """What the server at `url` says of itself. One that says nothing is still sent requests: nothing is then stated."""
    from kvlab.attach import read_server

    try:
        found = read_server(url, engine)
    except (BadInput, ServerRefused):
        return Known(engine or _told(url), {})
    numbers = {item.name: item.value for item in found.seen if isinstance(item.value, int | float)}
    return Known(found.engine, numbers)


def _told(url: str) -> str | None:
    """The engine's name by its list of models, where it serves no page that states more."""
    from kvlab.load import clock
    from kvlab.load.connections import Connections
    from kvlab.load.server import contact

    async def main(_: Callable[[], float]) -> str | None:
        async with Connections(_SECONDS, url) as connections:
            return (await contact(connections.fresh, url)).engine

    try:
        return clock.run(main)
    except (BadInput, ServerRefused):
        return None


def vocabulary(url: str, engine: str | None) -> tuple[int, ...]:
    """Ids of plain tokens by the server's own tokenizer; empty when it serves none that kvlab knows.

    Raises ServerRefused when the server cannot be reached.
    """
    from kvlab.load import clock
    from kvlab.load.connections import Connections
    from kvlab.load.exact import ServerTokenizer
    from kvlab.load.server import contact, tokens_of

    async def main(_: Callable[[], float]) -> tuple[int, ...]:
        async with Connections(_SECONDS, url) as connections:
            server = await contact(connections.fresh, url)
            try:
                ids = await ServerTokenizer(connections.fresh, server, tokens_of(engine)).ids(_LISTED, special=False)
            except (BadInput, ServerRefused):
                return ()
            return tuple(sorted(set(ids)))

    return clock.run(main)
