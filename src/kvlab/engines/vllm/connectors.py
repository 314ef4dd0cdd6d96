"""vLLM's connectors: which one a request uses, and whether it lets the hybrid cache manager on."""

from __future__ import annotations

import json

from kvlab.core.plan import Ask
from kvlab.engines.vllm.versions import Release, release

KINDS = {
    "native": "OffloadingConnector",
    "lmcache": "LMCacheConnectorV1",
    "mooncake": "MooncakeStoreConnector",
}
"""`--offload` -> the connector that it becomes."""
MANAGER_SINCE: Release = (0, 22, 0)
"""Before, any --kv-transfer-config turned the manager off. The change (PR 41847) was merged while 0.21 was made."""
_WITHOUT = ("LMCacheConnectorV1", "ExampleConnector", "SharedStorageConnector", "FlexKVConnectorV1", "HF3FSKVConnector")
"""Connectors of 0.32 that are no SupportsHMA."""
_FLAG = "kv-transfer-config"


def connectors(ask: Ask) -> tuple[str, ...]:
    """The connectors that a request uses, those inside a MultiConnector one by one; empty without any."""
    if ask.offload in KINDS:
        return (KINDS[ask.offload],)
    stated = ask.arg(_FLAG)
    if stated is None:
        return ()
    try:
        return _named(json.loads(stated))
    except (ValueError, RecursionError):
        return ()


def _named(config: object) -> tuple[str, ...]:
    if not isinstance(config, dict):
        return ()
    name, extra = config.get("kv_connector"), config.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, dict) else None
    if name == "MultiConnector" and isinstance(inner, list):
        return tuple(found for child in inner[:64] for found in _named(child))
    return (name,) if isinstance(name, str) else ()


def turns_manager_off(ask: Ask) -> str | None:
    """The connector that turns the hybrid cache manager off; None when none does.

    Source: vllm/config/vllm.py and kv_connector/factory.py of 0.32.0 (SupportsHMA);
    https://github.com/vllm-project/vllm/pull/41847
    """
    found = connectors(ask)
    if release(ask) < MANAGER_SINCE:
        return found[0] if found else None
    return next((name for name in found if name in _WITHOUT), None)
