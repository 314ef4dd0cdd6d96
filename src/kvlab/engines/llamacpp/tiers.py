"""llama.cpp's prompt cache: states of slots that others took, kept in the machine's memory (`--cache-ram`).

Source: tools/server of b11434 and https://github.com/ggml-org/llama.cpp/pull/16391
"""

from __future__ import annotations

from kvlab.core.engine import Carved, Deployment, Offloading, Tiered
from kvlab.core.errors import BadInput, shortened
from kvlab.core.model import Doubt
from kvlab.core.plan import Ask, Flag, computed
from kvlab.core.tiers import Tier
from kvlab.core.units import MIB, size
from kvlab.engines._tiers.asked import exactly, requests
from kvlab.engines.llamacpp import ENGINE
from kvlab.engines.llamacpp.versions import build

DEFAULT_MIB = 8192
"""What a server takes without being asked, up to."""
_SINCE = 7000  # the cache came in October 2025, some builds earlier
_FLAGS = ("cache-ram", "cram")
_NO_LIMIT = -1


def asked_mib(ask: Ask) -> int | None:
    """--cache-ram in MiB, as it was asked for; None when it was not. Raises BadInput for what is no number."""
    stated = next((value for name in _FLAGS if (value := ask.arg(name)) is not None), None)
    if ask.offload is None:
        if stated is None:
            return None
        digits = stated.strip()
        if not digits.removeprefix("-").isdecimal() or len(digits) > 12 or int(digits) < _NO_LIMIT:
            raise BadInput(f"--engine-arg cache-ram={shortened(stated)} must be MiB: 0 for none, -1 for no limit")
        return int(digits)
    if stated is not None:
        raise BadInput(f"--offload and --engine-arg cache-ram={shortened(stated)} say the same; give one of them")
    assert ask.offload_gib is not None  # a request without a size was refused (tiering.check)
    return int(ask.offload_gib * 1024)


def _tiers(deployment: Deployment, carved: Carved) -> Tiered:
    ask, layout = deployment.ask, deployment.layout
    asked = asked_mib(ask)
    if asked is None and build(ask.engine_version or ENGINE.version) < _SINCE:
        return Tiered()
    mib = DEFAULT_MIB if asked is None else asked
    if mib == _NO_LIMIT:
        text = "--cache-ram -1 sets no limit: prompts that leave the slots fill the machine's memory"
        return Tiered(doubts=(Doubt("cache-ram", text),))
    if mib == 0 or ask.prefix_caching is False:
        return Tiered()
    # Windows and states are saved with each checkpoint, so that a prompt takes more than its tokens.
    plain = not layout.windowed and not layout.pooled and not any(layout.only("state"))
    per_token = carved.kv.bytes_per_token
    tokens = mib * MIB // per_token if plain and per_token else None
    default = "" if asked is not None else ", llama.cpp's default: up to that much, unasked"
    extra = "" if plain else ", with checkpoints of windows and states, larger than their tokens"
    tier = Tier(
        name="cache-ram",
        kind="host",
        bytes=mib * MIB,
        bytes_per_rank=mib * MIB,
        tokens=tokens,
        requests=requests(tokens, carved.context),
        granularity=1 if plain else None,
        flag=f"--cache-ram {mib}",
        because=f"MiB of the whole server{default}; whole states of prompts that leave their slots{extra}",
    )
    expects = []
    if asked is not None:
        expects.append(exactly("offload_size_bytes", tier.bytes, "bytes", 0.5 * MIB, "--cache-ram, in whole MiB"))
    needs = computed("tier_cache_ram", tier.bytes, f"{tier.flag}: up to {size(tier.bytes)}{default}")
    return Tiered(tiers=(tier,), needs=(needs,), expects=tuple(expects))


def flags(ask: Ask) -> list[Flag]:
    """The flag of `--offload`; none without it."""
    if ask.offload is None:
        return []
    because = "MiB of host memory for prompts that leave their slots: read back when they come again, not computed"
    return [Flag("--cache-ram", str(asked_mib(ask)), because)]


OFFLOADING = Offloading(
    kinds={"cache-ram": "prompts that leave their slots, in host memory, --cache-ram"},
    tiers=_tiers,
)
