"""One deployment carved: its groups, and the bytes and blocks that follow from them."""

from __future__ import annotations

import msgspec

from kvlab.core.config import MOST_TOKENS
from kvlab.core.engine import Deployment, Gpu
from kvlab.core.errors import BadInput, shortened
from kvlab.core.layout import Layout, Row
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.core.units import ceil_div, round_up
from kvlab.engines.vllm.arguments import check_arguments
from kvlab.engines.vllm.connectors import turns_manager_off
from kvlab.engines.vllm.defaults import batched_tokens
from kvlab.engines.vllm.drafts import NONE, drafting
from kvlab.engines.vllm.dtypes import (
    TURBOQUANT,
    accepted,
    check_latent,
    check_supported,
    entry_bytes,
    resolve,
    row_bytes,
)
from kvlab.engines.vllm.groups import Group, group, stages
from kvlab.engines.vllm.packed import Kernels, packed_groups, row_specs, stride_on, tail_bytes
from kvlab.engines.vllm.parallel import check_parallel
from kvlab.engines.vllm.platform import block_size, capability, device_block, in_flight_tokens, on_cpu, switched_on
from kvlab.engines.vllm.specs import Room, Spec, attention_spec, state_spec, without_windows
from kvlab.engines.vllm.states import aligned_block, cache_mode, kernel_step, request_blocks, state_bytes
from kvlab.engines.vllm.versions import Release, release

_KERNEL_BLOCK = 16  # the smallest block of the attention kernels that read unquantised layers
_PACKED = (0, 24, 0)
_ATTENTION_FREE_SINCE = (0, 20, 0)
_QUANTISED_INSIDE = (*TURBOQUANT, "ultraquant_4bit")


class Carving(msgspec.Struct, frozen=True, kw_only=True):
    """How blocks look. `groups` is empty where vLLM's paging of the layout is not known."""

    release: Release
    dtype: str
    context: int
    block_size: int
    batched: int
    in_flight: int
    retained: int
    dcp: int
    groups: tuple[Group, ...]
    stage_bytes: tuple[int, ...]
    """Bytes of one block on each pipeline stage."""
    token_bytes: int
    """Bytes that one token adds on the heaviest stage, every layer counted."""
    override: int | None

    def num_blocks(self, pool: int) -> int:
        """Blocks in a pool of `pool` bytes on every rank: the stage with the largest blocks decides."""
        return self.override if self.override is not None else min(pool // size for size in self.stage_bytes)

    def request_blocks(self, tokens: int) -> int:
        """Blocks that vLLM charges one request of `tokens`, in all groups."""
        room = Room(context=tokens, in_flight=self.in_flight, dcp=self.dcp, retained=self.retained)
        return sum(found.blocks(room) for found in self.groups)

    def request_bytes(self, tokens: int) -> int:
        """Bytes that vLLM charges one request of `tokens` on the heaviest rank."""
        return self.request_blocks(tokens) * max(self.stage_bytes)


def carving(deployment: Deployment, context: int) -> Carving:
    """Groups and block bytes of `deployment`. Raises BadInput on what vLLM refuses."""
    ask, model, layout, gpu = deployment.ask, deployment.model, deployment.layout, deployment.gpu
    check_arguments(ask)
    check_parallel(model, layout, ask)
    version = release(ask)
    dtype = storage(model, layout, ask, gpu)
    batched = batched_tokens(ask, layout, gpu, context)
    specs = [] if not_paged(layout, dtype, ask) else _specs(deployment, dtype, context)
    groups = (packed_groups(specs) if layout.pooled else group(specs, version)) if specs else ()
    parts = _stages(model, layout, ask)
    drafted = drafting(model, layout, ask) or NONE
    return Carving(
        release=version,
        dtype=dtype,
        context=context,
        block_size=_block_size(groups) or block_size(ask, layout, dtype, gpu),
        batched=batched,
        in_flight=in_flight_tokens(ask, gpu, batched),
        retained=drafted.retained(version),
        dcp=ask.dcp,
        groups=groups,
        stage_bytes=tuple(_stage_bytes(groups, specs, stage) for stage in parts) if groups else (),
        token_bytes=max(_token_bytes(layout, drafted.rows, dtype, ask.tp or 1, stage) for stage in parts),
        override=_override(ask),
    )


def _block_size(groups: tuple[Group, ...]) -> int | None:
    """Tokens of the smallest block that prefix caching shares; rings belong to one request."""
    return min((found.block_size for found in groups if found.specs[0].keeps != "ring"), default=None)


def _stage_bytes(groups: tuple[Group, ...], specs: list[Spec], stage: range) -> int:
    step = stride_on(specs, stage)
    return step * ceil_div(max(found.bytes_on(stage) for found in groups), step)


def storage(model: Model, layout: Layout, ask: Ask, gpu: Gpu | None) -> str:
    """The format that the cache keeps. Raises BadInput when no backend takes it."""
    if ask.kv_dtype_k is not None or ask.kv_dtype_v is not None:
        raise BadInput("vLLM keeps keys and values in one dtype; give --kv-dtype instead of --kv-dtype-k and -v")
    cc = capability(gpu)
    dtype = resolve(model, layout, ask.kv_dtype, release(ask), cc)
    wide = ask.arg("dtype") in ("float32", "float") and ask.kv_dtype in (None, "auto")
    dtype = "float32" if wide and model.kv_cache_format is None else dtype
    check_supported(layout, dtype, cc, on_cpu(gpu))
    return dtype


def not_paged(layout: Layout, dtype: str, ask: Ask) -> str | None:
    """Why the block arithmetic of vLLM is not computed for this layout; None when it is."""
    if any(state.name == "wkv" for row in layout.only("state") for state in row.state):
        return "vLLM 0.32 serves no RWKV model, so there is no block arithmetic of it"
    if _attention_free(layout) and release(ask) < _ATTENTION_FREE_SINCE:
        return "how vLLM before 0.20 counted the tokens of a model of recurrent layers alone is not computed"
    if any(layout.only("state")) and any(layout.only("indexer")) and not layout.pooled:
        return "vLLM's block arithmetic for recurrent state beside an indexer is not computed"
    if layout.pooled and release(ask) < _PACKED:
        return "vLLM laid compressed caches out by other rules before 0.24; their block arithmetic is not computed"
    if layout.pooled and hybrid_off(ask, layout):
        return "vLLM's block arithmetic for compressed caches without the hybrid manager is not computed"
    decoding = {layer for row in layout.only("full") for layer in row.layers}
    if any(not decoding.issuperset(row.layers) for row in layout.only("cross")):
        return "vLLM 0.32 serves no model whose layers look at an image alone, so there is no block arithmetic of it"
    if dtype in _QUANTISED_INSIDE and (layout.windowed or any(layout.only("latent", "indexer"))):
        return f"vLLM mixes {dtype} with unquantised layers; its block arithmetic for such a model is not computed"
    return None


def _specs(deployment: Deployment, dtype: str, context: int) -> list[Spec]:
    ask, model, layout = deployment.ask, deployment.model, deployment.layout
    drafted = drafting(model, layout, ask) or NONE
    tp, latent = ask.tp or 1, _mla_indexer(layout)
    plain = "float16" if model.dtype == "float16" else "bfloat16"
    skipped = _unquantised(_layer_count(model, layout)) if dtype in _QUANTISED_INSIDE else frozenset()
    tokens = block_size(ask, layout, dtype, deployment.gpu)
    if skipped:
        tokens = _raised_block(layout, dtype, plain, tp, tokens)
    states = [(row, state_bytes(row, model, ask, tp, drafted.tokens)) for row in layout.only("state")]
    if _attention_free(layout):
        # Nothing to share: prefix caching is off, a request has one block, and that is as long as the context.
        return [state_spec(row, size, context, 1 + drafted.tokens) for row, size in states]
    if states:
        widest = max(row_bytes(row, dtype, tp, latent) for row in layout.rows)
        tokens = aligned_block(layout, tokens, widest, max(size for _, size in states), kernel_step(model, ask))
        tokens = round_up(tokens, device_block(deployment.gpu))
    indexed = frozenset() if latent else frozenset(layer for row in layout.only("indexer") for layer in row.layers)
    # Without prefix caching a state block stands for the whole context.
    span = context if cache_mode(ask, model) == "none" else tokens
    fixed = request_blocks(model, ask, deployment.gpu, drafted.tokens)
    specs = [state_spec(row, widest * tokens, span, fixed) for row, _ in states]
    for row in (*layout.rows, *drafted.rows):
        if row.kind == "state":
            continue
        if layout.pooled:
            specs += row_specs(row, tokens, Kernels(dtype, capability(deployment.gpu), drafted.tokens))
            continue
        for word, layers in _by_format(row, dtype, plain, skipped, indexed).items():
            specs.append(attention_spec(row, layers, row_bytes(row, word, tp, latent), tokens))
    return without_windows(specs) if hybrid_off(ask, layout) else specs


def _attention_free(layout: Layout) -> bool:
    """Whether every layer keeps a state and none keeps tokens."""
    return bool(layout.rows) and all(row.kind == "state" for row in layout.rows)


def _by_format(
    row: Row, dtype: str, plain: str, skipped: frozenset[int], indexed: frozenset[int]
) -> dict[str, tuple[int, ...]]:
    """Layers of `row` by what they store: `skipped` stay in the model's dtype, `indexed` (block-sparse layers with an
    indexer of their own) keep no scales per token and head."""
    scaleless = "fp8" if dtype.endswith("per_token_head") else dtype
    found: dict[str, list[int]] = {}
    for layer in row.layers:
        word = plain if layer in skipped else scaleless if layer in indexed and row.kind == "full" else dtype
        found.setdefault(word, []).append(layer)
    return {word: tuple(layers) for word, layers in found.items()}


def hybrid_off(ask: Ask, layout: Layout) -> bool:
    """Whether vLLM's hybrid cache manager is off: asked for, by a connector, or with chunked attention before 0.14."""
    asked = ask.arg("disable-hybrid-kv-cache-manager")
    if asked is not None:
        return switched_on(asked)
    if turns_manager_off(ask) is not None:
        return True
    return any(layout.only("chunked")) and release(ask) < (0, 14, 0)


def _unquantised(layers: int) -> frozenset[int]:
    """The first and last two layers, which TurboQuant and UltraQuant leave in the model's dtype."""
    count = min(2, layers // 2)
    return frozenset((*range(count), *range(layers - count, layers)))


def _raised_block(layout: Layout, dtype: str, plain: str, tp: int, tokens: int) -> int:
    """Block size at which a quantised page is no smaller than the smallest unquantised one."""
    widest = max(row_bytes(row, plain, tp, False) for row in layout.rows)
    packed = min(row_bytes(row, dtype, tp, False) for row in layout.rows)
    align = max(_KERNEL_BLOCK, tokens)
    return align * ceil_div(widest * _KERNEL_BLOCK, align * packed)


def _layer_count(model: Model, layout: Layout) -> int:
    highest = max((layer for row in layout.rows for layer in row.layers), default=-1) + 1
    return max(model.layers, highest)


def _mla_indexer(layout: Layout) -> bool:
    """Whether indexers serve latent layers; an indexer row seen by itself is taken for one of those."""
    return not any(layout.only("full", "window", "chunked"))


def _stages(model: Model, layout: Layout, ask: Ask) -> tuple[range, ...]:
    """Layers of each pipeline stage; draft layers belong to the last."""
    *before, last = stages(_layer_count(model, layout), ask.pp)
    end = max((layer + 1 for row in layout.draft for layer in row.layers), default=last.stop)
    return *before, range(last.start, max(last.stop, end))


def _token_bytes(layout: Layout, drafts: tuple[Row, ...], dtype: str, tp: int, stage: range) -> int:
    latent, rows = _mla_indexer(layout), (*(row for row in layout.rows if row.kind != "cross"), *drafts)
    return sum(row_bytes(row, dtype, tp, latent) * sum(layer in stage for layer in row.layers) for row in rows)


def token_bytes(model: Model, layout: Layout, dtype: str, ask: Ask) -> int:
    """Bytes that one token adds in all layers of the heaviest stage's rank, before paging and windows."""
    word, rows = stored(model, layout, dtype, ask), (drafting(model, layout, ask) or NONE).rows
    return max(_token_bytes(layout, rows, word, ask.tp or 1, stage) for stage in _stages(model, layout, ask))


def sequence_bytes(model: Model, layout: Layout, dtype: str, ask: Ask, tokens: int) -> int:
    """Bytes of one sequence on the heaviest stage's rank before paging: windows bound what is kept, states come on top.

    Decode context parallelism leaves each rank its share of the tokens, and all of the states.
    """
    word, latent, tp = stored(model, layout, dtype, ask), _mla_indexer(layout), ask.tp or 1
    held = ceil_div(tokens, ask.dcp)
    drafted = drafting(model, layout, ask) or NONE
    layer = {
        row: _row_sequence(row, word, tp, latent, held) + state_bytes(row, model, ask, tp, drafted.tokens)
        for row in (*layout.rows, *drafted.rows)
    }
    return max(
        sum(size * sum(at in stage for at in row.layers) for row, size in layer.items())
        for stage in _stages(model, layout, ask)
    )


def _row_sequence(row: Row, word: str, tp: int, latent: bool, tokens: int) -> int:
    """Bytes of a sequence in one layer: whole entries, and what waits to be compressed."""
    entries = ceil_div(row.kept(tokens), row.pool) * entry_bytes(row, word, tp, latent)
    return entries + (tail_bytes(row.tail) if row.tail else 0)


def stored(model: Model, layout: Layout, dtype: str, ask: Ask) -> str:
    """The format behind a cache dtype whatever the GPU. Raises BadInput on a word that the version does not know.

    What "auto" becomes is a format in every release, also where `--kv-cache-dtype` has no word for it yet.
    """
    version = release(ask)
    unnamed = dtype == "float32" or (dtype in ("float16", "bfloat16") and dtype not in accepted(version))
    word = dtype if unnamed else resolve(model, layout, dtype, version, None)
    check_latent(layout, word)
    return word


def _override(ask: Ask) -> int | None:
    value = ask.arg("num-gpu-blocks-override")
    if value is None:
        return None
    if not value.isdecimal() or not 1 <= int(value[:12]) <= MOST_TOKENS:
        raise BadInput(
            f"--engine-arg num-gpu-blocks-override={shortened(value)} must be a number of blocks from 1 to"
            f" {MOST_TOKENS:,}"
        )
    return int(value)
