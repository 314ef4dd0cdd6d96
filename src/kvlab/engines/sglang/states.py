"""Recurrent state in SGLang: bytes of a slot, slots of a pool, slots that one running request takes.

Formulas: mamba_utils.py and kv_cache_configurator.py of 0.5.23, model_runner_kv_cache_mixin.py of 0.5.8 to 0.5.14.
"""

from __future__ import annotations

from kvlab.core.errors import BadInput
from kvlab.core.layout import Layout, Row, State
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.engines.sglang.arguments import attention_groups, on, ratio, whole
from kvlab.engines.sglang.parallel import attention_ranks, on_stage
from kvlab.engines.sglang.versions import Release, release

KNOWN_SINCE: Release = (0, 5, 8)
_PADDING_SLOT_SINCE: Release = (0, 5, 17)  # the pool's unused slot 0 is counted
_LIMIT_FIRST_SINCE: Release = (0, 5, 10)  # without radix cache and limit, memory decides instead of 512 slots
_BUFFERED_SINCE: Release = (0, 5, 14)  # "auto" keeps extra buffers where the model's kernels can use them
_UNLIMITED_SLOTS = 512
_RATIO = 0.9  # mamba_full_memory_ratio: states to attention cache
_BASE = 3  # slots of a running request: its own, one kept at a prefix, one being filled
_BUFFERS = {"no_buffer": 0, "extra_buffer_lazy": 1, "extra_buffer": 2}
_UNBUFFERED = ("lfm2", "lfm2_moe", "jet_nemotron", "zaya", "mamba", "mamba2", "falcon_mamba")
"""Model types whose kernels take no extra buffer."""
_WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2}


def slot_bytes(layout: Layout, ask: Ask, stage: range | None = None) -> tuple[int, int]:
    """(convolution, recurrent) bytes of one sequence on one rank: the layers of `stage`, or all of them."""
    conv = ssm = 0
    ranks, wide = attention_ranks(ask), _width(ask)
    for row in layout.only("state"):
        count = len(row.layers) if stage is None else on_stage(row, stage)
        for state in row.state:
            values = count * _values(state, ranks)
            if state.name == "conv":
                conv += 2 * values
            else:
                ssm += (wide or _WIDTH.get(state.dtype or "float32", 4)) * values
    return conv, ssm


def row_bytes(row: Row, ask: Ask) -> int:
    """Bytes of one sequence's state in one layer of a row on one rank."""
    one = Row(kind="state", layers=(0,), state=row.state)
    return sum(slot_bytes(Layout((one,)), ask)) if row.kind == "state" else 0


def _values(state: State, ranks: int) -> int:
    """Values on one rank. Groups that do not divide are copied until each rank has one.

    Raises BadInput when even that does not divide.
    """
    whole_values, groups = state.values, state.groups
    if groups is not None and groups % ranks:
        whole_values += (ranks - groups) * state.group_values
    if whole_values % ranks or (groups is not None and ranks < groups and groups % ranks):
        raise BadInput(f"SGLang cannot split a recurrent state of {state.values:,} values over {ranks} ranks")
    return whole_values // ranks


def _width(ask: Ask) -> int | None:
    """Bytes of a recurrent value as --mamba-ssm-dtype asks for; None leaves it to the config, else float32."""
    word = ask.arg("mamba-ssm-dtype")
    if word is not None and word not in _WIDTH:
        raise BadInput(f"--engine-arg mamba-ssm-dtype={word}: SGLang takes {', '.join(_WIDTH)}")
    return None if word is None else _WIDTH[word]


def no_radix(ask: Ask) -> bool:
    """Whether prefixes are not kept."""
    return ask.prefix_caching is False or on(ask, "disable-radix-cache")


def slots(pool: int, per_slot: int, ask: Ask) -> int:
    """`max_mamba_cache_size`: state slots in a pool of `pool` bytes, of which one takes `per_slot`."""
    groups, version = attention_groups(ask), release(ask)
    asked = whole(ask, "max-mamba-cache-size")
    if asked is not None:
        return asked // groups
    if no_radix(ask) and (ask.max_num_seqs is not None or version < _LIMIT_FIRST_SINCE):
        return max(1, (ask.max_num_seqs or _UNLIMITED_SLOTS) // groups)
    share = ratio(ask, "mamba-full-memory-ratio", 1e6) or _RATIO
    room = pool * share / (1 + share)
    return int((room - per_slot * (version >= _PADDING_SLOT_SINCE)) // per_slot)


def charged_slots(count: int, ask: Ask) -> int:
    """Slots that the attention cache pays for: with 0.5.17 and later the padding slot too."""
    return count + (release(ask) >= _PADDING_SLOT_SINCE)


def slots_per_request(model: Model, ask: Ask) -> int:
    """Slots that SGLang sets aside for each running request."""
    if no_radix(ask):
        return 1
    version = release(ask)
    asked = ask.arg("mamba-radix-cache-strategy") or ask.arg("mamba-scheduler-strategy") or "auto"
    if asked == "auto":
        buffered = version >= _BUFFERED_SINCE and model.model_type not in _UNBUFFERED
        asked = "extra_buffer" if buffered and not on(ask, "disable-overlap-schedule") else "no_buffer"
    if asked not in _BUFFERS:
        raise BadInput(f"--engine-arg mamba-radix-cache-strategy={asked}: SGLang takes auto, {', '.join(_BUFFERS)}")
    alone = asked == "extra_buffer" and on(ask, "disable-overlap-schedule")
    return _BASE + (1 if alone else _BUFFERS[asked])
