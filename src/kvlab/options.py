"""The keyword arguments of `kvlab.plan`, for type checkers: making the class costs a millisecond at start-up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TypedDict

from kvlab.core.gate import GateRule
from kvlab.core.plan import Plan


class PlanOptions(TypedDict, total=False):
    """The options of `kvlab plan` by their long names, without dashes. Sizes in GiB, lengths in tokens."""

    engine: str
    engine_version: str
    gpu: str
    gpu_gib: float
    gpus: int
    tp: int
    pp: int
    dp: int
    dcp: int
    ep: int
    kv_dtype: str
    kv_dtype_k: str
    kv_dtype_v: str
    context: int | None
    users: int
    util: float
    weights_gib: float
    overhead_gib: float
    pool_gib: float
    block_size: int
    max_num_batched_tokens: int
    max_num_seqs: int
    prefix_caching: bool
    mamba_cache_mode: str
    engine_args: Mapping[str, str]
    parallel: int
    kv_unified: bool
    swa_full: bool
    ubatch: int
    calibration: bool
    share_gib: float
    share_fraction: float
    offload: str
    offload_gib: float
    offload_disk_gib: float
    offload_dir: str
    host_gib: float
    only: str
    prices: Mapping[str, float]
    limit: int
    matrix: bool
    pareto: bool


class QualityOptions(TypedDict, total=False):
    """The options of `kvlab quality`: see `kvlab.core.gate.GateAsk`."""

    parts: tuple[str, ...]
    prompts: str | PathLike[str] | None
    max_tokens: int
    concurrency: int
    longest: int | None
    lm_eval: tuple[str, ...]
    lm_eval_bin: str | PathLike[str] | None
    lm_eval_include: str | PathLike[str] | None
    lm_eval_limit: int | None
    lm_eval_chat: bool
    lm_eval_tokenizer: str | None
    task_items: int
    lengths: tuple[int, ...]
    needle_items: int
    item_seed: int
    unisolated_code: bool
    rule: GateRule
    b_temperature: float
    lab: str | PathLike[str] | None


class PrefixOptions(TypedDict, total=False):
    """The options of `kvlab prefix` beyond its quick part: see `kvlab.sharing.Asked`."""

    lengths: bool
    churn: bool
    block_size: bool
    salts: bool
    plan: str | PathLike[str] | Plan | None
    churn_tokens: int | None
    most_requests: int
    most_seconds: float
    on_part: Callable[[str, int, int], None]


class ModelOptions(TypedDict, total=False):
    """What a model tells `kvlab traffic`."""

    bytes_per_token: int | None
    model_context: int | None


class TrafficOptions(ModelOptions, total=False):
    """The options of `kvlab traffic`: see `kvlab.workload.questions.Questions`."""

    percentile: float
    capacities: tuple[int | str, ...]
    policies: tuple[str, ...]
    tiers: tuple[str, ...]
    inclusive: bool
    prefill_tokens_per_second: float | None
    pools: tuple[int | str, ...]
    decode_step_ms: float | None
    engine: str | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    replicas: int | None
    last_half: bool
    plan: str | PathLike[str] | Plan | None
    tokenizer: str | None
    estimate_tokens: bool
    block_size: int | None
    fix: str | None
    context: int | None
    sample: str
    ray: str | None


class DiagnoseOptions(TypedDict, total=False):
    """The options of `kvlab diagnose`: see `kvlab.diagnosing.Asked`."""

    seconds: float | None
    engine: str | None
    ttft_seconds: float
    tpot_seconds: float
    traffic: str | None
    save: str | None
