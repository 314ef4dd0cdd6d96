"""One process of several that read a log: a task on standard input, numbers and hashes on standard output."""

from __future__ import annotations

import sys

import msgspec

from kvlab.traces._processes import Task, run


def main() -> None:
    """Reads the task, does it, answers."""
    task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Task)
    sys.stdout.buffer.write(msgspec.msgpack.encode(run(task)))
    sys.stdout.buffer.flush()
