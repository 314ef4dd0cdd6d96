"""The context is longer than the model's.

Symptom: vLLM: "max_model_len (N) is greater than the derived max_model_len"; SGLang: "context_length (N) is greater
than the derived context_length (M)".

Cause: positions beyond the trained length are not defined for this model, unless its rope scaling is set for them.

Do:
- lower the context to the derived length: vLLM --max-model-len, SGLang --context-length
- set the rope scaling that the model's page gives (vLLM --hf-overrides, SGLang --json-model-override-args), which
  changes short prompts a little too
- lift the check: vLLM VLLM_ALLOW_LONG_MAX_MODEL_LEN=1, SGLang SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1, at the
  price of quality

Source: https://docs.vllm.ai/en/latest/configuration/env_vars/
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule

_NUMBERS = re.compile(r"\((?P<asked>\d+)\) is greater than the derived \w+ \(?(?:[\w.]+=)*(?P<own>\d+)")


def _advise(case: Case, advice: Advice) -> Advice:
    found = _NUMBERS.search(case.first.line)
    if found is None:
        return advice
    why = f"{int(found['asked'][:18]):,} tokens are asked for and the model was made for {int(found['own'][:18]):,}"
    own = found["own"][:18]
    first = f"lower the context to the model's own: vLLM --max-model-len {own}, SGLang --context-length {own}"
    return advice.replaced(why, first, drop=1)


RULE = Rule(cost="trade", advise=_advise)
