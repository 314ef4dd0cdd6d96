"""SGLang's pools: which layers share one, and the tokens that a byte budget gives each.

Formulas: pool_configurator.py and kv_cache_configurator.py of 0.5.23, model_runner_kv_cache_mixin.py of 0.5.8 and
0.5.10, model_runner.py of 0.4.6 and 0.5.6.
"""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Deployment
from kvlab.core.layout import Layout, Row
from kvlab.core.plan import Ask
from kvlab.core.units import round_up
from kvlab.engines.sglang.arguments import attention_groups, on, ratio, whole
from kvlab.engines.sglang.defaults import page_size
from kvlab.engines.sglang.drafts import FLAG, RUNNING, draft_rows
from kvlab.engines.sglang.dtypes import is_sparse, layer_bytes, major, packed, resolve
from kvlab.engines.sglang.parallel import attention_ranks, on_stage, stages_of
from kvlab.engines.sglang.states import charged_slots, slot_bytes, slots
from kvlab.engines.sglang.versions import Release, release

WINDOWS_SINCE: Release = (0, 5, 8)
"""Windowed layers have pools by architecture from here on; before, by the class that implements the model."""
_CELL_SINCE: Release = (0, 5, 12)  # a cell of the full pool carries its part of the window pool
_SHARED_INDEX_SINCE: Release = (0, 5, 18)  # layers that reuse another's index keep none
_PROFILED_UNTIL: Release = (0, 5, 10)  # until then the limit of requests follows from tokens before other limits
_SPARE_UNTIL: Release = (0, 4, 7)  # until then it counted a spare row of the request table
_TENSORRT_UNTIL: Release = (0, 5, 10)  # until then TensorRT-LLM's kernels knew no window pool
_RATIO = 0.8  # swa_full_tokens_ratio
# Architectures whose windowed layers have a pool of their own, and the first release seen to give them one.
_WINDOWED: tuple[tuple[Release, tuple[str, ...]], ...] = (
    ((0, 5, 8), ("Llama4ForConditionalGeneration", "GptOssForCausalLM", "MiMoV2FlashForCausalLM")),
    ((0, 5, 9), ("Step3p5ForCausalLM",)),
    ((0, 5, 11), ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "MiMoV2ForCausalLM")),
    ((0, 5, 12), ("LagunaForCausalLM",)),
    ((0, 5, 13), ("Step3p7ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration")),
    ((0, 5, 16), ("MellumForCausalLM", "InklingForConditionalGeneration")),
    ((0, 5, 18), ("MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration")),
    ((0, 5, 19), ("GraniteSWAForCausalLM", "GraniteMoeSWAForCausalLM", "IQuestQ1ForCausalLM")),
    ((0, 5, 23), ("BeamForCausalLM", "DiffusionGemmaForBlockDiffusion")),
)


class Pools(msgspec.Struct, frozen=True, kw_only=True):
    """How the pools look on one rank. `full` and `window` are bytes per token of the heaviest pipeline stage."""

    dtype: str
    page: int
    full: int
    window: int
    """Bytes of one token in the window pool; 0 when there is none."""
    ratio: float
    """Tokens of the window pool for each token of the full pool."""
    slot: int
    """Bytes of one recurrent-state slot; 0 without recurrent layers."""
    longest_window: int | None
    cells: tuple[tuple[int, int], ...]
    """(full, window) bytes per token of each pipeline stage, draft layers among the full ones."""
    draft: int
    """Bytes that one token adds in draft layers, which have a pool of their own of as many tokens."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and slots of the pools."""

    tokens: int
    """max_total_num_tokens: tokens of the full pool, or of the window pool of a model without full layers."""
    window_tokens: int | None
    slots: int | None
    profiled: int
    """Tokens before --max-total-tokens and the split into pools: what a limit would have to be to change nothing."""


def pooled(deployment: Deployment) -> Pools:
    """The pools of a deployment. Raises BadInput for a format that SGLang does not take."""
    ask, model, layout, gpu = deployment.ask, deployment.model, deployment.layout, deployment.gpu
    version = release(ask)
    dtype = resolve(model, layout, ask.kv_dtype, version, gpu)
    scaled = packed(model, layout, dtype, version, gpu)
    split = has_window_pool(deployment)
    cells = tuple(_cell(layout, dtype, ask, stage, split, scaled) for stage in stages_of(model, layout, ask))
    ranks = attention_ranks(ask)
    draft = sum(len(row.layers) * layer_bytes(row, dtype, ranks, scaled) for row in draft_rows(layout, ask))
    windows = [row.window for row in layout.only("window", "chunked") if row.window]
    return Pools(
        dtype=dtype,
        page=page_size(ask, layout, gpu),
        full=max(full for full, _ in cells),
        window=max(window for _, window in cells),
        ratio=ratio(ask, "swa-full-tokens-ratio", 1.0) or _RATIO,
        slot=max(sum(slot_bytes(layout, ask, stage)) for stage in stages_of(model, layout, ask)),
        longest_window=max(windows, default=None),
        cells=tuple((full + draft, window) for full, window in cells),
        draft=draft,
    )


def has_window_pool(deployment: Deployment) -> bool:
    """Whether windowed layers have a pool of their own; without one they keep every token."""
    ask = deployment.ask
    version = release(ask)
    known = {name for since, names in _WINDOWED if version >= since for name in names}
    named = any(name in known for name in deployment.model.architectures)
    if version < _TENSORRT_UNTIL and major(deployment.gpu) == 10:
        return False
    return deployment.layout.windowed and named and not on(ask, "disable-hybrid-swa-memory")


def _cell(layout: Layout, dtype: str, ask: Ask, stage: range, split: bool, scaled: bool) -> tuple[int, int]:
    """(full, window) bytes of one token on one rank in the layers of `stage`."""
    full = window = 0
    for row in layout.rows:
        size = row_layers(row, layout, ask, stage) * layer_bytes(row, dtype, attention_ranks(ask), scaled)
        if row.window and split:
            window += size
        else:
            full += size
    return full, window


def row_layers(row: Row, layout: Layout, ask: Ask, stage: range) -> int:
    """Layers of `stage` that store what `row` stores: before 0.5.18 every latent layer had an index of its own."""
    if row.kind == "indexer" and is_sparse(layout) and release(ask) < _SHARED_INDEX_SINCE:
        return max(on_stage(latent, stage) for latent in layout.only("latent"))
    return on_stage(row, stage)


def sized(pools: Pools, pool: int, ask: Ask) -> Sizes:
    """Tokens and slots that `pool` bytes on every rank give: the stage that holds the fewest decides."""
    count = None
    if pools.slot:
        count = max(0, slots(pool, pools.slot, ask))
        pool -= charged_slots(count, ask) * pools.slot
    found = [_stage_tokens(pools, full, window, max(0, pool), ask) for full, window in pools.cells if full + window]
    profiled = min(found, default=0)
    limit = whole(ask, "max-total-tokens")
    tokens, window_tokens = _split(pools, profiled if limit is None else min(profiled, limit), ask)
    return Sizes(tokens=tokens, window_tokens=window_tokens, slots=count, profiled=profiled)


def _stage_tokens(pools: Pools, full: int, window: int, pool: int, ask: Ask) -> int:
    """Tokens that one stage profiles, floored to pages; before 0.5.12 of all layers alike, split afterwards."""
    if window and full and release(ask) >= _CELL_SINCE:
        return _floor(int(pool // (full + pools.ratio * window)), pools.page)
    return _floor(pool // (full + window), pools.page)


def _split(pools: Pools, tokens: int, ask: Ask) -> tuple[int, int | None]:
    """(full, window) tokens of both pools."""
    tokens = _floor(tokens, pools.page)
    if not pools.window:
        return tokens, None
    if not pools.full:
        return tokens, tokens
    if release(ask) < _CELL_SINCE:
        # by bytes; 0.5.8 and 0.5.9 weigh all layers alike, which is the same where their heads are
        whole_cell = pools.full + pools.window
        tokens = _floor(int(tokens * whole_cell / (pools.full + pools.ratio * pools.window)), pools.page)
    return tokens, _floor(int(tokens * pools.ratio), pools.page)


def _floor(tokens: int, page: int) -> int:
    return tokens // page * page


def request_tokens(pools: Pools, tokens: int) -> tuple[int, int]:
    """(full, window) tokens that one request of `tokens` takes of the pools, in whole pages.

    The window pool keeps the last window, and a page beyond it that need not end with the window.
    """
    kept = tokens if pools.longest_window is None else min(tokens, pools.longest_window + pools.page)
    return round_up(tokens, pools.page), round_up(kept, pools.page)


def request_bytes(pools: Pools, tokens: int, per_request: int) -> int:
    """Bytes of one request of `tokens` on one rank, with `per_request` slots of recurrent state."""
    full, window = request_tokens(pools, tokens)
    return full * (pools.full + pools.draft) + window * pools.window + per_request * pools.slot


def running_limit(sizes: Sizes, ask: Ask, context: int, per_request: int) -> int:
    """`max_running_requests` of one DP-attention group: the user's or the default, and what the pools allow."""
    version, half = release(ask), max(0, sizes.tokens // 2)
    profiled = sizes.profiled if version < _PROFILED_UNTIL else sizes.tokens
    estimated = max(min(int(profiled / context * 512), 4096), 2048) + (version < _SPARE_UNTIL)
    asked = ask.max_num_seqs or (RUNNING if ask.arg(FLAG) is not None and version >= _PROFILED_UNTIL else None)
    if asked is None:
        limit = min(estimated, half)
    else:
        limit = max(1, asked // attention_groups(ask))
        limit = limit if version < _PROFILED_UNTIL else min(limit, half)
    if sizes.slots is not None:
        limit = min(limit, sizes.slots // per_request)
    return limit
