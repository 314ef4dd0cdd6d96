"""Texts that share prefixes, each of an exact length."""

from __future__ import annotations

from kvlab.load.datasets import SharedPrefix
from kvlab.load.exact import shared_prefix_prompts
from kvlab.load.making import DataSet, Draft, Made, Tools, Wanted


def _draft(data: SharedPrefix, wanted: Wanted) -> Draft:
    async def make(tools: Tools) -> Made:
        tokenizer, count, seed = tools.counting(), wanted.needed(), str(wanted.seed)
        prompts = await shared_prefix_prompts(tokenizer, data, count, seed, lambda made: tools.done(made, count))
        return Made(prompts, warm_up_tokens=(data.prefix_tokens + data.suffix_tokens, data.output_tokens))

    return make


SET = DataSet(SharedPrefix, _draft)
