"""Text without the names of machines: of a path its last part, of an address its scheme and port."""

from __future__ import annotations

import re

# Two parts at least ("/dev/shm", "~/models/a"): "/v1" and "fp8/bf16" are no paths of a machine.
_PATH = re.compile(r"(?<![\w:/.@~-])(?:~[\w.-]*)?(?:/[^\s/\"'`,;:={}\[\]()<>|]+){2,}/?")
_HOST = re.compile(
    r"(\b[a-z][a-z0-9+.-]*://)(?!(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1\])(?=[:/\s\"']|$))[^\s/\"',;:]+"
)
HOST = "HOST"
"""Stands for the name or the address of a machine."""


def nameless(text: str) -> str:
    """`text` in which each absolute path is its last part, and each host of an address is HOST; loopback stays."""
    return _HOST.sub(rf"\1{HOST}", _PATH.sub(lambda found: found.group().rstrip("/").rpartition("/")[2], text))
