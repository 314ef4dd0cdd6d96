"""Loopback ports: a free one, and who holds a taken one."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

from kvlab.core.errors import EngineFailed

_BELOW_EPHEMERAL = range(20_000, 32_768)
"""No system gives these to outgoing connections by itself (Linux begins at 32768, others at 49152)."""
_TRIES = 100


def free_port() -> int:
    """A loopback port that nobody uses at this moment.

    An engine binds it seconds or minutes later: until then no outgoing connection of anybody must be given it. Raises
    EngineFailed when none is free.
    """
    for port in (*random.SystemRandom().sample(_BELOW_EPHEMERAL, k=_TRIES), 0):  # 0: any that the system has
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise EngineFailed("no loopback port is free; name one with --port")


def refuse_taken(port: int) -> None:
    """Raises EngineFailed when nothing can listen to that loopback port."""
    if not 1 <= port <= 65_535:
        raise EngineFailed(f"port {port} is none; choose one from 1 to 65535 with --port")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError:
            raise EngineFailed(f"port {port} may not be used by this user; choose one above 1023 with --port") from None
        except (OSError, OverflowError):
            raise EngineFailed(
                f"port {port} is taken{_holder(port)}; choose another --port or stop that process"
            ) from None


def _holder(port: int) -> str:
    """ " by NAME (pid N)", as far as this user may see."""
    import psutil

    with suppress(psutil.Error):
        for connection in psutil.net_connections(kind="tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                pid = connection.pid
                return f" by {psutil.Process(pid).name()} (pid {pid})" if pid else ""
    return ""
