"""Texts that share nothing, each of an exact length."""

from __future__ import annotations

from kvlab.load.datasets import RandomTokens
from kvlab.load.exact import random_prompts
from kvlab.load.making import DataSet, Draft, Made, Tools, Wanted


def _draft(data: RandomTokens, wanted: Wanted) -> Draft:
    async def make(tools: Tools) -> Made:
        tokenizer, count = tools.counting(), wanted.needed()
        prompts = await random_prompts(tokenizer, data, count, str(wanted.seed), lambda made: tools.done(made, count))
        return Made(prompts, warm_up_tokens=(data.input_tokens, data.output_tokens))

    return make


SET = DataSet(RandomTokens, _draft)
