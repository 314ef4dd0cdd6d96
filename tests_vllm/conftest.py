"""What the tests on a real vLLM need of the process that runs them."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """A shell starts what it puts into the background deaf to Ctrl-C, and so are the commands that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
