"""Clients that keep a server busy until they are told to stop."""

from __future__ import annotations

import json
import random
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "frost",
    "grove",
    "haven",
    "iris",
    "jade",
    "kelp",
    "lunar",
    "maple",
    "north",
    "ocean",
    "pearl",
    "quartz",
    "river",
]


@contextmanager
def clients(url: str, model: str, count: int, prompt: Callable[[random.Random], str], tokens: int) -> Iterator[None]:
    """`count` clients, each with one request after the other."""
    stop = threading.Event()

    def work(seed: int) -> None:
        source = random.Random(seed)
        while not stop.is_set():
            body = {"model": model, "prompt": prompt(source), "max_tokens": tokens, "ignore_eos": True, "stream": True}
            request = urllib.request.Request(
                f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
            )
            with suppress(OSError), urllib.request.urlopen(request, timeout=120) as answer:
                for _ in answer:
                    if stop.is_set():
                        break

    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=120)


def words(source: random.Random, count: int) -> str:
    """Text of `count` random words, some one and a half tokens each."""
    return " ".join(source.choices(WORDS, k=count))
