"""`kvlab traffic`: files of traces and logs -> one trace -> what it says."""

from __future__ import annotations

from collections.abc import Sequence

from kvlab import traces
from kvlab.core.traffic import Traffic
from kvlab.workload.analysis import Questions, analyse
from kvlab.workload.merge import merged


def rightsize(files: Sequence[object], form: str | None, asked: Questions) -> Traffic:
    """Lengths, the context limit, reuse, paging and moves. Raises BadInput in one line."""
    paths = traces.named(files)
    reading = traces.reading(asked.tokenizer, asked.estimate_tokens, asked.block_size)
    found = merged([traces.read(path, form, reading) for path in paths])
    return analyse(found, [path.name for path in paths], asked)
