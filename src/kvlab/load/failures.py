"""Why a request failed, in one line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kvlab.load.reply import Reply, shorten

if TYPE_CHECKING:
    from aiohttp import ClientConnectorError

CONNECT_SECONDS = 10.0


def told(problem: Exception, reply: Reply, limit: float | None) -> str | None:
    """A failed request in words; None for one whose answer was complete all the same. Raises what is a bug."""
    import aiohttp

    if isinstance(problem, aiohttp.ConnectionTimeoutError):
        return f"refused: no connection within {CONNECT_SECONDS:g} s"
    if isinstance(problem, aiohttp.ClientConnectorError):
        return f"refused: {connect_problem(problem)}"
    if isinstance(problem, TimeoutError):
        return f"timeout: no complete answer within {limit:g} s"
    if isinstance(problem, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | aiohttp.ClientOSError):
        # A server that hangs up after [DONE] has still answered.
        complete = reply.finished and reply.error is None
        return None if complete else f"cut: the connection broke after {reply.chunks} chunks"
    if isinstance(problem, aiohttp.ClientError):
        return f"bad answer: {type(problem).__name__}: {shorten(str(problem))}"
    raise problem


def connect_problem(problem: ClientConnectorError) -> str:
    """Why no connection came about, in the system's words: "Connection refused"."""
    from ssl import SSLError

    from aiohttp import ClientConnectorCertificateError

    if isinstance(problem, ClientConnectorCertificateError):
        return (
            f"the certificate is not believed ({_why(problem.certificate_error)}); name its authority's PEM file in"
            " SSL_CERT_FILE, or give bench and sweep --ca-file or --insecure"
        )
    number = problem.os_error.errno
    # what a plain port answers to TLS is no greeting, or nothing at all
    if isinstance(problem.os_error, SSLError) or not str(problem.os_error):
        told = shorten(str(problem.os_error)) or type(problem.os_error).__name__
        return f"no encrypted connection came about ({told}); an http:// server?"
    # asyncio writes "Connect call failed (...)" in place of the system's text; name look-ups have negative numbers.
    return os.strerror(number) if number is not None and number > 0 else shorten(str(problem.os_error))


def _why(problem: Exception) -> str:
    """OpenSSL's words for why a certificate does not hold."""
    return shorten(str(getattr(problem, "verify_message", "") or problem))
