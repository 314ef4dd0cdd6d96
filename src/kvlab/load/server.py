"""First contact with a server: whether it answers, what it serves, which engine it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvlab import engines
from kvlab.core.engine import TokenApi
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.metric_map import MetricMap
from kvlab.load.address import base_url
from kvlab.load.connections import KEY_VARIABLE
from kvlab.load.failures import connect_problem
from kvlab.load.pages import MODELS_BYTES, body, without_secrets
from kvlab.load.reply import server_message, shorten

if TYPE_CHECKING:
    from aiohttp import ClientSession

_SECONDS = 20.0


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server that answered. `url` has no trailing slash and no /v1."""

    url: str
    model: str
    models: tuple[str, ...]
    engine: str | None
    """The engine's name when the server says who it is and kvlab knows it."""


class _Model(msgspec.Struct):
    id: str
    owned_by: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


async def contact(session: ClientSession, url: str, model: str | None = None) -> Server:
    """Ask the server for its models. Raises ServerRefused in one line when it is not one to send load to.

    `model` may be a name that the server does not list (an adapter, an alias); None takes the first one listed.
    """
    base = base_url(url)
    status, answer = await _get(session, f"{base}/v1/models")
    # A few servers list nothing; with a model named, the first requests will tell.
    unlisted = status == 404 and model is not None and answer.lstrip()[:1] != b"<"
    try:
        listing = _Models(data=[]) if unlisted else _listing(base, (status, answer))
    except ServerRefused as refusal:
        raise ServerRefused(without_secrets(str(refusal), session)) from None
    names = tuple(entry.id for entry in listing.data)
    if model is None and not names:
        raise ServerRefused(f"{base}/v1/models lists no model; wait until one is loaded, or name it with --model")
    owner = next((entry.owned_by for entry in listing.data if entry.owned_by), None)
    return Server(url=base, model=model or names[0], models=names, engine=_engine(owner))


async def _get(session: ClientSession, url: str) -> tuple[int, bytes]:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with session.get(url, timeout=timeout, allow_redirects=False) as response:
            return response.status, await body(response, MODELS_BYTES)
    except aiohttp.ClientConnectorError as problem:
        raise ServerRefused(
            f"no server at {url}: {connect_problem(problem)}; start the engine or correct the address"
        ) from None
    except TimeoutError:
        raise ServerRefused(f"{url} did not answer within {_SECONDS:g} s; is the engine still loading?") from None
    except aiohttp.ClientError as problem:
        raise ServerRefused(f"{url} does not speak HTTP as expected: {shorten(str(problem))}") from None


def _listing(base: str, answer: tuple[int, bytes]) -> _Models:
    status, content = answer
    where = f"{base}/v1/models"
    if status in (401, 403):
        raise ServerRefused(f"{where} answered {status}: it wants an API key; set {KEY_VARIABLE}")
    if status != 200:
        hint = "; where a server lists no models, name one with --model" if status == 404 else ""
        raise ServerRefused(f"{where} answered {status}: {server_message(content[:4096]) or 'no message'}{hint}")
    try:
        return msgspec.json.decode(content, type=_Models)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        kind = "HTML" if content.lstrip()[:1] == b"<" else "something"
        raise ServerRefused(
            f"{where} answered {kind} instead of a JSON list of models"
            f" ({shorten(content[:4096].decode(errors='replace'), 60)!r}); is this an OpenAI-compatible server?"
        ) from None


def _engine(owner: str | None) -> str | None:
    plain = (owner or "").lower().replace(".", "").replace("-", "").replace("_", "")
    return next((name for name in engines.names() if name.replace("-", "") == plain), None)


def metrics_of(engine: str | None) -> MetricMap | None:
    """The engine's metric names; None when it is not known which engine it is. Raises BadInput for an unknown name."""
    return None if engine is None else engines.metric_map(engine)


def tokens_of(engine: str | None) -> TokenApi:
    """The engine's tokenizer endpoints. Raises BadInput for an unknown name, or when no engine is named."""
    if engine is None:
        raise BadInput(
            "prompts of an exact length need the engine's tokenizer, and the server does not say which engine it is;"
            f" name it ({', '.join(engines.names())}), or the model's own with --tokenizer, or give a prompts file"
        )
    return engines.token_api(engine)
