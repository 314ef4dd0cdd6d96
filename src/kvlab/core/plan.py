"""The plan: what was asked, the ledger of bytes, the capacity that follows, the verdict and the launch."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvlab.core.model import Doubt, Kind, Origin
from kvlab.core.sizing import Candidates, LongestContext, MatrixLine
from kvlab.core.speed import Speed
from kvlab.core.tiers import Tier


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a user may say about a deployment. None: not said, the engine's own default holds."""

    engine: str = "vllm"
    engine_version: str | None = None
    gpu: str | None = None
    gpu_gib: float | None = None
    gpus: int | None = None
    tp: int | None = None
    pp: int = 1
    dp: int = 1
    dcp: int = 1
    ep: int = 1
    kv_dtype: str | None = None
    kv_dtype_k: str | None = None
    kv_dtype_v: str | None = None
    context: int | None = None
    users: int | None = None
    util: float | None = None
    weights_gib: float | None = None
    overhead_gib: float | None = None
    pool_gib: float | None = None
    block_size: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    prefix_caching: bool | None = None
    mamba_cache_mode: str | None = None
    engine_args: tuple[tuple[str, str], ...] = ()
    parallel: int | None = None
    kv_unified: bool | None = None
    swa_full: bool = False
    ubatch: int | None = None
    calibration: bool = True
    """Whether what earlier starts on this GPU took corrects the estimate (kvlab check --learn)."""
    share_gib: float | None = None
    """Memory of each GPU that other programs hold: a second engine, a trainer."""
    share_fraction: float | None = None
    """The same as a share of the GPU's memory; both add up."""
    offload: str | None = None
    """The kind of tier below the GPU's cache, in kvlab's word for it (native, lmcache, hicache, ...)."""
    offload_gib: float | None = None
    """Host memory of that tier for the whole server, all ranks and replicas together."""
    offload_disk_gib: float | None = None
    """Disk of that tier for the whole server."""
    offload_dir: str | None = None
    """The folder of the disk tier."""
    host_gib: float | None = None
    """Memory of the machine that the server may use."""

    any_engine: bool = False
    """Whether no engine was named: a GGUF file then goes to llama.cpp, everything else to `engine`."""

    @property
    def placed(self) -> bool:
        """Whether the memory that is planned for is named: a GPU, its size, or the pool."""
        return self.gpu is not None or self.gpu_gib is not None or self.pool_gib is not None

    def arg(self, flag: str) -> str | None:
        """The value of an `--engine-arg` (dashes and underscores are alike), the last one given; None without one."""
        wanted = flag.replace("_", "-")
        return next((value for name, value in reversed(self.engine_args) if name.replace("_", "-") == wanted), None)


class EngineId(msgspec.Struct, frozen=True):
    """An engine and the version whose rules were applied."""

    name: str
    version: str


class LayoutLine(msgspec.Struct, frozen=True):
    """A row of the layout in bytes on one GPU rank, before the engine's paging."""

    kind: str
    layers: int
    bytes_per_token: int
    bytes_per_sequence: int
    window: int | None = None


class KvCost(msgspec.Struct, frozen=True):
    """What one token, and one request of `context` tokens, cost on one GPU as the engine charges them."""

    dtype: str
    bytes_per_token: int
    bytes_per_sequence: int | None
    context: int | None


class LedgerLine(msgspec.Struct, frozen=True, kw_only=True):
    """A named amount of memory. `low` and `high` bound an estimate and equal `bytes` otherwise.

    Lines with a negative amount are taken away; the line "pool" is the sum of those above it.
    """

    name: str
    bytes: int
    kind: Kind
    low: int
    high: int
    because: str


def computed(name: str, size: int, because: str) -> LedgerLine:
    """A line of `size` bytes that arithmetic gives, with nothing estimated."""
    return LedgerLine(name=name, bytes=size, kind="computed", low=size, high=size, because=because)


def short_host(host: tuple[LedgerLine, ...]) -> tuple[int, int] | None:
    """Bytes that are needed of the machine's memory and that it has, where nothing is left (`Plan.host`).

    None where something is, and where it is not known.
    """
    by_name = {line.name: line.bytes for line in host}
    if by_name.get("host_left", 1) > 0:
        return None
    return by_name["host_needed"], by_name["host_memory"]


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What the pool holds. `tokens` and `max_concurrency` are the numbers that the engine itself prints."""

    pool_bytes: int
    block_size: int
    num_blocks: int
    tokens: int
    max_concurrency: float
    longest_request_tokens: int


class Alternative(msgspec.Struct, frozen=True):
    """The same pool with another cache dtype."""

    kv_dtype: str
    tokens: int | None
    max_concurrency: float | None
    fits: bool | None


class ContextLine(msgspec.Struct, frozen=True):
    """Cache of one request at a context length as the engine charges it; concurrency is None without a pool."""

    context: int
    kv_dtype: str
    bytes_per_sequence: int
    concurrency: float | None
    beyond_native: bool = False
    """Longer than the model's own context, so only arithmetic."""


class Move(msgspec.Struct, frozen=True):
    """Something that would make more room, and the tokens it buys."""

    text: str
    gain_tokens: int | None


MAY_FIT = "may fit, "
"""How the text of a verdict begins that holds for the middle of an estimate and not for its low end."""
NOT_HERE = "not on this machine, "
"""How the text of a verdict begins where the cache fits and the machine's own memory does not hold the server."""


class Verdict(msgspec.Struct, frozen=True):
    """Whether one request of the asked context fits."""

    code: Literal["fits", "fits_with_smaller_dtype", "does_not_fit", "unknown"]
    text: str
    moves: tuple[Move, ...] = ()
    holds_users: bool | None = None
    """Whether all `--users` run together; None when none were named or the capacity is unknown."""


class Flag(msgspec.Struct, frozen=True):
    """A flag of the launch command with its trade-off."""

    flag: str
    value: str | None
    because: str


class Launch(msgspec.Struct, frozen=True):
    """How to start the engine: argv, environment and files to write, each flag explained."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    flags: tuple[Flag, ...] = ()
    lacks: str | None = None
    """What the command needs and this machine does not have; None when nothing is known to be missing."""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """A number, or a word (unit "word"), that the engine's log will state if the plan is right.

    `tolerance` is in the same unit: half of the last printed digit for exact lines, the range for estimates. `low` and
    `high` bound an estimate whose sides are not alike.
    """

    name: str
    value: float | str
    unit: str
    kind: Kind
    tolerance: float
    because: str
    low: float | None = None
    high: float | None = None
    also: tuple[str, ...] = ()
    """Other words with which the engine says the same."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment thought through; `kvlab check` compares `expects` with the engine's words."""

    schema: Literal["kvlab/plan@1"] = "kvlab/plan@1"
    source: Origin
    engine: EngineId
    layout: tuple[LayoutLine, ...]
    kv: KvCost
    ledger: tuple[LedgerLine, ...]
    capacity: Capacity | None
    alternatives: tuple[Alternative, ...]
    contexts: tuple[ContextLine, ...]
    verdict: Verdict
    launch: Launch
    expects: tuple[Expected, ...]
    doubts: tuple[Doubt, ...]
    ask: Ask
    longest_context: tuple[LongestContext, ...] = ()
    """The longest request for each cache dtype, when no context was asked for and the pool is known."""
    candidates: Candidates | None = None
    """What serves `--users`, when no GPU was named."""
    matrix: tuple[MatrixLine, ...] = ()
    speed: Speed | None = None
    capacity_low: Capacity | None = None
    """The capacity at the low end of an estimated pool; None when the pool is exact or unknown."""
    capacity_high: Capacity | None = None
    """The same at its high end."""
    pareto: Candidates | None = None
    """Rows that no other row beats in concurrency, context, price (or memory) and cache dtype at once."""
    tiers: tuple[Tier, ...] = ()
    """The tiers below the GPU's cache, the fastest first."""
    host: tuple[LedgerLine, ...] = ()
    """The machine's own memory: what the server needs of it beside its processes, their sum ("host_needed"), and, where
    it is known, what the machine has ("host_memory") and what that leaves ("host_left")."""
