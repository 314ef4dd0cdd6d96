"""A server's address, and the user name and password in it, which go into a header and nowhere else."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import SplitResult, unquote, urlsplit

from kvlab.core.errors import BadInput, shortened

_LONGEST = 2048


def base_url(url: str) -> str:
    """The address without user name, password, /v1 and trailing slash.

    Raises BadInput when it is not an http address, or its host cannot be the name of one.
    """
    parts = _split(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path.rstrip('/').removesuffix('/v1').rstrip('/')}"


def authorization(url: str) -> str | None:
    """The Authorization header of the user name and password in the address; None without them."""
    parts = _split(url)
    if "@" not in parts.netloc:
        return None
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def shown(url: str) -> str:
    """The address as it may be printed, whatever it is: without user name and password."""
    before, slashes, rest = url.strip().rpartition("://")
    host, slash, path = rest.partition("/")
    return shortened(f"{before}{slashes}{host.rpartition('@')[2]}{slash}{path}", 200)


def _split(url: str) -> SplitResult:
    text = url.strip()
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")
    except ValueError:  # UnicodeError among them: an empty label, or one of more than 63 characters
        raise BadInput(f"{shown(url)!r} is not an address; write http://HOST:PORT") from None
    odd = len(text) > _LONGEST or any(letter.isspace() or not letter.isprintable() for letter in text)
    if parts.scheme not in ("http", "https") or not host or port == 0 or odd:
        raise BadInput(f"{shown(url)!r} is not an http address; write http://HOST:PORT")
    return parts
