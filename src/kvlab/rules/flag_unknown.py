"""The engine does not know a flag.

Symptom: "error: unrecognized arguments: --swap-space 4", llama.cpp "error: invalid argument: --kv-unified", "No such
option: --max_seqlen".

Cause: flags come and go between releases, and engines name the same thing differently. Nothing was started.

Do:
- vllm serve --help=KEYWORD, llama-server --help and the like show what this release has
- vLLM: gone are --swap-space (0.18), --calculate-kv-scales (0.28), --preemption-mode (V0 only)
- print a command for your release: kvlab serve SOURCE --engine-version X --print

Source: https://github.com/vllm-project/vllm/issues/18115
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign


def _advise(case: Case, advice: Advice) -> Advice:
    flag = case.first.groups.get("flag")
    return advice.replaced(f"{flag} is not a flag of this release; {advice.why}") if flag else advice


RULE = Rule(
    cost="setting",
    signs=(
        Sign(pattern=re.compile(r"error: unrecognized arguments: (?P<flag>--?[\w-]+)")),
        Sign(pattern=re.compile(r"error: invalid argument: (?P<flag>--?[\w-]+)"), engines=("llamacpp",)),
        Sign(pattern=re.compile(r"No such option: (?P<flag>--?[\w-]+)"), engines=("tensorrt-llm",)),
    ),
    advise=_advise,
)
