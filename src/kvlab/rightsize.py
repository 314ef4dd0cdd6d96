"""`kvlab traffic`: files of traces and logs -> one trace -> what it says, and what breaks its prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.trace import Reading, Trace
from kvlab.core.traffic import Traffic
from kvlab.workload.analysis import analyse
from kvlab.workload.merge import merged
from kvlab.workload.questions import BLOCK, Questions, Tell
from kvlab.workload.resized import resized


def rightsize(files: Sequence[object], form: str | None, asked: Questions, tell: Tell) -> Traffic:
    """Lengths, the context limit, reuse, paging, moves and prefix breakers. Raises BadInput in one line."""
    paths = traces.named(files)
    reading = traces.reading(asked.tokenizer, asked.estimate_tokens, asked.block_size or BLOCK, asked.sample)
    found = resized(merged(_read(paths, form, reading, asked.ray, tell)), asked.block_size)
    names = [path.name for path in paths]
    if asked.ray is not None:
        if asked.fix is not None:
            raise BadInput("--fix rewrites a log on this machine; leave out --ray")
        if found.counted != "log":
            doubt = Doubt("prefix breakers", "not looked for on Ray; give a part of the log without --ray")
            found = found._replace(doubts=(*found.doubts, doubt))
        return analyse(found, names, asked, tell)
    if found.counted == "log":
        if asked.fix is not None:
            raise BadInput("--fix rewrites the text of a log: give one, and --tokenizer or --estimate-tokens")
        return analyse(found, names, asked, tell)
    from kvlab.breakers._report import breakers

    tell("looking for what breaks prefixes")
    return analyse(found, names, asked, tell, breakers(paths, form, reading, asked.fix))


def _read(paths: Sequence[Path], form: str | None, reading: Reading, ray: str | None, tell: Tell) -> list[Trace]:
    """Each file on its own, here or on Ray; a sample keeps the same blocks in both."""
    if ray is not None:
        from kvlab.on_ray import read

        tell("reading on Ray")
        return read(paths, form, reading, ray)
    found = []
    for part, path in enumerate(paths):
        tell(f"reading {path.name}" + (f" ({part + 1} of {len(paths)})" if len(paths) > 1 else ""))
        found.append(traces.read(path, form, traces.of_part(reading, part)))
    return found
