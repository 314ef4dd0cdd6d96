"""The verbs, typed: what the command line, and later every other front, calls."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, TypedDict, Unpack

from kvlab.core.plan import Ask, Plan

if TYPE_CHECKING:
    from kvlab.core.check import Check


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


def plan(source: str | PathLike[str], **options: Unpack[PlanOptions]) -> Plan:
    """What `source` (Hub id, folder, config.json, .gguf) costs and what the engine holds of it.

    Raises KvlabError with one line that says what is wrong with the source or the request.
    """
    arguments: dict[str, object] = dict(options)
    arguments["engine_args"] = tuple(options.get("engine_args", {}).items())
    return plan_ask(source, Ask(**arguments))  # type: ignore[arg-type]


def plan_ask(source: str | PathLike[str], ask: Ask) -> Plan:
    """`plan` with the request as one value."""
    from kvlab.planning import make_plan
    from kvlab.source import load

    return make_plan(load(fspath(source)), ask, fspath(source))


def check(
    log: str | PathLike[str], *, plan: str | PathLike[str] | Plan | None = None, engine: str | None = None
) -> Check:
    """The engine's log against a plan (a value, or a file of `kvlab plan --json`); without one, what it says."""
    from kvlab.core.check import compare, listing
    from kvlab.observe import read_log
    from kvlab.store import read

    planned = plan if isinstance(plan, Plan) or plan is None else read(plan, Plan, "plan")
    if planned is None:
        return listing(read_log(fspath(log), engine))
    return compare(planned, read_log(fspath(log), engine or planned.engine.name))
