"""Answers may be garbled after a restore from an offload tier.

Symptom: no line says it. vLLM runs a connector in a release for which wrong restores were reported, and "External
prefix cache hit rate" shows that it restores.

Cause: keys and values were stored before the GPU had written them, or in another layout than they are read: 0.13 with
OffloadingConnector, 0.22 and before with SimpleCPUOffloadConnector, 0.26 with LMCacheConnectorV1 on packed caches.

Do:
- compare answers at temperature 0 with the connector and without: kvlab quality
- upgrade vLLM or the connector; on 0.26 LMCacheMPConnector instead of LMCacheConnectorV1
- serve without the tier until then

Source: https://github.com/vllm-project/vllm/issues/45704 https://github.com/vllm-project/vllm/issues/31210
https://github.com/LMCache/LMCache/issues/4463
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign

_REPORTED = {
    "OffloadingConnector": lambda minor: minor == 13,
    "SimpleCPUOffloadConnector": lambda minor: minor <= 22,
    "LMCacheConnectorV1": lambda minor: minor == 26,
}
"""Connector -> whether wrong restores were reported for vLLM 0.MINOR."""


def _advise(case: Case, advice: Advice) -> Advice | None:
    connector = case.first.groups.get("connector", "")
    version = case.tallies["version"].last.number_of("minor") if "version" in case.tallies else None
    if version is None or not case.count("restored") or not _REPORTED[connector](int(version)):
        return None
    return advice.replaced(f"wrong restores were reported for {connector} in vLLM 0.{version:.0f}: {advice.why}")


RULE = Rule(
    certainty="possible",
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"kv_connector['\"]?[=:] ?\\?['\"](?P<connector>OffloadingConnector|SimpleCPUOffloadConnector"
                r"|LMCacheConnectorV1)\b"
            ),
            engines=("vllm",),
        ),
        Sign(name="version", pattern=re.compile(r"LLM engine \(v0\.(?P<minor>\d{1,3})\b"), engines=("vllm",)),
        Sign(name="restored", pattern=re.compile(r"External prefix cache hit rate: (?!0\.0%)"), engines=("vllm",)),
    ),
    advise=_advise,
)
