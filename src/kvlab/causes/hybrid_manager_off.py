"""The hybrid cache manager is off.

Seen: vLLM's line "Turning off hybrid kv cache manager" or "Hybrid KV cache manager is disabled", a connector among the
arguments, or tokens that are those of full attention in every layer. Layers with a window or a state are then given
room for the whole context. An offload connector that does not support the manager turns it off.
"""

from __future__ import annotations

from kvlab.core.cause import Case, Cause, Guess

_OFF = "disable-hybrid-kv-cache-manager"


def _guesses(case: Case) -> tuple[Guess, ...]:
    mixed = any(line.window is not None or line.kind in ("window", "chunked", "state") for line in case.plan.layout)
    if not mixed or case.plan.ask.arg(_OFF) is not None:
        return ()
    connector, line = case.observation.setting("kv-transfer-config"), case.observation.hint("hybrid_manager_off")
    size = case.observation.setting("kv-offloading-size")
    if connector is not None and connector.value is not None:
        text = f"the connector {connector.value} of --kv-transfer-config turned the hybrid cache manager off"
    elif size is not None and size.value is not None:
        text = f"the connector that --kv-offloading-size {size.value} starts turned the hybrid cache manager off"
    elif line is not None:
        text = "a line of the log says that the hybrid cache manager is off"
    else:
        text = "the log's tokens are those of full attention in every layer, as with the hybrid cache manager off"
    stated = connector is not None or line is not None
    return (Guess(changes={_OFF: True}, text=f"{text}: plan with --engine-arg {_OFF}=true", stated=stated),)


CAUSE = Cause(settings=(_OFF,), engines=("vllm",), guesses=_guesses)
