"""`kvlab traffic`: files of traces and logs -> one trace -> what it says, and what breaks its prefixes."""

from __future__ import annotations

from collections.abc import Sequence

from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.core.traffic import Traffic
from kvlab.workload.analysis import analyse
from kvlab.workload.merge import merged
from kvlab.workload.questions import Questions


def rightsize(files: Sequence[object], form: str | None, asked: Questions) -> Traffic:
    """Lengths, the context limit, reuse, paging, moves and prefix breakers. Raises BadInput in one line."""
    paths = traces.named(files)
    reading = traces.reading(asked.tokenizer, asked.estimate_tokens, asked.block_size)
    found = merged([traces.read(path, form, reading) for path in paths])
    names = [path.name for path in paths]
    if found.counted == "log":
        if asked.fix is not None:
            raise BadInput("--fix rewrites the text of a log: give a log of requests with --tokenizer")
        return analyse(found, names, asked)
    from kvlab.breakers._report import breakers

    return analyse(found, names, asked, breakers(paths, form, reading, asked.fix))
