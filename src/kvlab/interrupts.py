"""Signals that wait for a moment in which they do no harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def signals_held() -> Iterator[Callable[[], None]]:
    """Signals that Python answers wait until the yielded call: none may come between a start and the note of it."""
    came: list[int] = []
    usual: dict[int, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():  # no other thread answers signals
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(handler := signal.getsignal(number)):
                usual[number] = handler
                signal.signal(number, lambda number, _: came.append(number))

    def answer() -> None:
        for number in came:
            usual[number](number, None)

    try:
        yield answer
    finally:
        for held, before in usual.items():
            signal.signal(held, before)
