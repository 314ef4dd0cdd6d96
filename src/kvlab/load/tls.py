"""Which certificates of https servers are taken."""

from __future__ import annotations

from ssl import SSLContext, SSLError, create_default_context

from kvlab.core.errors import BadInput
from kvlab.load.spec import Tls


def context(tls: Tls) -> SSLContext | bool:
    """As aiohttp takes it. Raises BadInput for a file of authorities that is none."""
    if tls.insecure:
        return False
    if tls.ca_file is None:
        return True
    try:
        return create_default_context(cafile=tls.ca_file)
    except SSLError:
        raise BadInput(f"{tls.ca_file} holds no certificate; --ca-file takes a PEM file of authorities") from None
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise BadInput(f"cannot read {tls.ca_file}: {why}; --ca-file takes a PEM file of authorities") from None
