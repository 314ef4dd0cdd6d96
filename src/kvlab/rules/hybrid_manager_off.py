"""The hybrid cache manager is off on a hybrid model.

Symptom: vLLM: "Hybrid KV cache manager is disabled for this hybrid model", often after "Turning off hybrid kv cache
manager because `--kv-transfer-config` ...".

Cause: a connector that does not support it, or --disable-hybrid-kv-cache-manager, turned it off. Layers with a window
or a recurrent state are then given room for the whole context, like full attention: the pool holds a fraction of the
tokens, or the start is refused.

Do:
- take --disable-hybrid-kv-cache-manager out, if it was given
- with a connector: give --no-disable-hybrid-kv-cache-manager, if the connector supports it (SupportsHMA)
- use a connector that does, or serve this model without one

Source: https://github.com/vllm-project/vllm/issues/41830 https://github.com/vllm-project/vllm/issues/44376
https://github.com/vllm-project/vllm/issues/42911
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign


def _advise(case: Case, advice: Advice) -> Advice:
    if not case.count("connector"):
        return advice
    why = "the connector of --kv-transfer-config turned it off: " + advice.why.split(". ", 1)[-1]
    return advice.replaced(why, drop=1)


RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"Hybrid KV cache manager is disabled for this hybrid model"
                r"|Hybrid KV cache manager is disabled but failed to convert the KV cache specs"
            ),
            engines=("vllm",),
        ),
        # Alone it is harmless: it comes on models that have full attention only, too.
        Sign(name="connector", pattern=re.compile(r"Turning off hybrid kv cache manager because"), engines=("vllm",)),
    ),
    advise=_advise,
)
