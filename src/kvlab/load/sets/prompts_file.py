"""The prompts of a file, in order."""

from __future__ import annotations

from pathlib import Path

from kvlab.core.errors import BadInput
from kvlab.load.datasets import PromptsFile, read_prompts
from kvlab.load.making import DataSet, Draft, Made, Tools, Wanted


def _draft(data: PromptsFile, wanted: Wanted) -> Draft:
    found = read_prompts(Path(data.path), data.output_tokens, wanted.endpoint)
    count = len(found) if wanted.count is None else wanted.count
    if not 1 <= count <= len(found):
        # Sending a prompt twice would measure the prefix cache.
        raise BadInput(f"{data.path} holds {len(found)} prompts, {count} were asked for")

    async def make(_: Tools) -> Made:
        return Made(found[:count])

    return make


SET = DataSet(PromptsFile, _draft)
