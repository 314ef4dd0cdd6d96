"""The parts that every engine folder has, as types: the contract between kvlab and an engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from kvlab.core.layout import Layout
from kvlab.core.model import Doubt, Model, Weights
from kvlab.core.observation import Failure, Observation, Said
from kvlab.core.plan import Ask, Capacity, Expected, KvCost, Launch, LedgerLine, Move
from kvlab.core.taken import Taken
from kvlab.core.tiers import Tier

ShareOf = Literal["all", "free"]
"""What the share of a GPU's memory is of: "all" that it has, or what is "free" once weights and overhead are loaded."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU as the driver reports it. `usable_bytes` is what cudaMemGetInfo calls total."""

    name: str
    title: str
    usable_bytes: int
    bandwidth: float | None
    """Memory bandwidth in bytes per second; None when nobody stated it."""
    compute_capability: tuple[int, int] | None = None
    source: str
    aliases: tuple[str, ...] = ()
    vendor: str | None = None
    """nvidia, amd, intel or apple."""
    arch: str | None = None
    """AMD's LLVM target ("gfx942"), or the maker's name of the design; None for CUDA, which has compute_capability."""
    bf16_flops: float | None = None
    """Dense rate of the matrix units in operations per second; None when the chip has none or nobody stated it."""
    fp16_flops: float | None = None
    """As bf16_flops; stated for chips without bf16."""
    fp8_flops: float | None = None
    fp4_flops: float | None = None
    formats: tuple[str, ...] | None = None
    """Floating point formats that the chip reads in hardware (fp16, bf16, fp8, fp4); None when unknown."""
    driver_names: tuple[str, ...] = ()
    """Names that the driver gives the card."""
    pci_ids: tuple[str, ...] = ()
    """PCI device ids, with ":revision" where cards share one."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine's planner is given: the model, the request, and the memory it may carve up.

    `pool_bytes` is the cache memory of one GPU rank; None when neither a GPU nor a pool is known.
    """

    model: Model
    layout: Layout
    ask: Ask
    gpu: Gpu | None
    pool_bytes: int | None
    weights: Weights | None = None
    share: float | None = None
    """Share of GPU memory that the engine claims; None when it has no such notion. A given pool overrules it."""
    share_of: ShareOf = "all"
    most_share: float | None = 0.95
    """The share up to which raising it is worth advising; None: what it leaves free is needed in any case."""


class Carved(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine carves the layout: the cost of a request, the capacity of the pool, what the log will say."""

    kv: KvCost
    capacity: Capacity | None
    context: int
    """Tokens that one request may hold (the engine's max model length)."""
    cache_lines: tuple[LedgerLine, ...] = ()
    expects: tuple[Expected, ...] = ()
    doubts: tuple[Doubt, ...] = ()


class Planner(msgspec.Struct, frozen=True, kw_only=True):
    """capacity.py: how the engine turns a layout and a pool into blocks, tokens and concurrency."""

    dtypes: tuple[str, ...]
    """Cache dtypes to offer as alternatives, the default first."""
    default_util: Callable[[Ask], float | None]
    """The share of GPU memory that the asked version claims by default (None: it has no such notion)."""
    default_share: Callable[[Deployment], float | None] | None = None
    """As default_util, for an engine whose default depends on the GPU or the model; it has neither pool nor share."""
    carve: Callable[[Deployment], Carved]
    token_bytes: Callable[[Model, Layout, str, Ask], int]
    """(model, layout, dtype, ask) -> bytes that one token adds on one rank, all layers, before paging and windows."""
    sequence_bytes: Callable[[Model, Layout, str, Ask, int], int]
    """(model, layout, dtype, ask, tokens) -> bytes of one sequence on one rank before paging."""
    options: frozenset[str]
    """The fields of Ask, beside those that every engine has, that this engine honours. Others are refused."""
    guess_overhead: tuple[int, int, int] = (0, 0, 0)
    """Bytes that are neither weights nor cache, as (low, first guess, high)."""
    overhead_because: str = "nothing is known to be taken"
    runs_on: Callable[[Gpu, Ask], bool] | None = None
    """Whether the engine's makers say that the asked version runs on a GPU; None: nothing is known against any."""
    most_requests: Callable[[Ask, Gpu | None], int] | None = None
    """Requests that the scheduler runs together unless told otherwise; None: as many as the cache holds."""
    overhead: Callable[[Deployment], tuple[Taken, ...]] | None = None
    """The terms of what is neither weights nor cache on one rank; None: guess_overhead says all that is known."""
    rank_weights: Callable[[Deployment], Taken] | None = None
    """What the fullest rank loads of the deployment's weights (which are not None); None: an even share."""
    one_request: Callable[[Ask], Ask] | None = None
    """A request as it would be asked for alone; None: only its length matters to the engine."""
    same_pool: Callable[[Deployment, Carved, str], Deployment] | None = None
    """(deployment, carved, dtype) -> the same memory stored in another dtype; None: only the dtype changes."""
    moves: Callable[[Deployment, Carved], tuple[Move, ...]] | None = None
    """What makes more room on this engine alone, with the tokens that it buys."""
    share_of: ShareOf = "all"
    """What `default_util` and `--util` are a share of."""
    most_share: float | None = 0.95
    """As in Deployment. SGLang's share leaves out activations and CUDA graphs, so its default is already the most."""


class Tiered(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine's tiers hold, what the machine must have for them, and what the log will say of them."""

    tiers: tuple[Tier, ...] = ()
    needs: tuple[LedgerLine, ...] = ()
    """What is taken of the machine's memory, as positive amounts for the whole server."""
    expects: tuple[Expected, ...] = ()
    doubts: tuple[Doubt, ...] = ()


class Offloading(msgspec.Struct, frozen=True, kw_only=True):
    """tiers.py: the tiers below the GPU's cache that an engine has, by the word that `--offload` takes."""

    kinds: Mapping[str, str]
    """Kind -> what it is, in a few words; empty when the engine has none that is known."""
    tiers: Callable[[Deployment, Carved], Tiered]
    """The tiers of a deployment, also those that the engine makes unasked. Raises BadInput for what it refuses."""
    disk: tuple[str, ...] = ()
    """Kinds with a disk below the machine's memory."""
    unsized: tuple[str, ...] = ()
    """Kinds whose size the engine chooses itself when none is given."""


class Launcher(msgspec.Struct, frozen=True, kw_only=True):
    """launch.py: the command line of a plan, and how to tell that a started server serves."""

    command: Callable[[Deployment, Carved, str], Launch]
    """(deployment, carved, source) -> argv with the trade-off behind each flag; "{port}" stands for the port."""
    ready_path: str
    """GET path that answers 200 once requests are served."""
    default_port: int
    binary: Callable[[Ask], tuple[str, ...] | None]
    """What stands for argv[0] on this machine (("/usr/bin/vllm",)); None when the engine is not installed here."""
    missing: str
    """One line that says how to get the engine."""
    port_in: str = "--port"
    """The flag that takes the port, or the environment variable that takes ADDRESS:PORT."""
    images: Mapping[str, str] = {}
    """Public container images by the vendor of the GPU; "{version}" stands for the engine's version."""
    image_program: str | None = None
    """What stands for argv[0] in the images; None: the same."""
    every_gpu: bool = False
    """Whether it spreads a model over all GPUs that it sees, unasked."""
    takes_hub_ids: bool = True
    """Whether it downloads a model by its Hub id; else the model must be on the machine."""
    revision_flag: str | None = None
    """The flag that takes the commit of a Hub id, without dashes; None when none is known."""
    help_words: tuple[str, ...] = ()
    """What makes the program print its options; empty when it takes none."""
    unlisted: tuple[str, ...] = ()
    """Programs (words that `binary` may answer) that stand in for it and print no options."""


class LogReader(msgspec.Struct, frozen=True, kw_only=True):
    """log.py: the lines that state a quantity, and the reader that sums or selects among them."""

    said: tuple[Said, ...]
    recognises: Callable[[str], bool]
    """Whether a line could only come from this engine."""
    read: Callable[[Iterable[str]], Observation]
    """It may be given only the lines in which a pattern of `said` or `also` may match."""
    also: tuple[re.Pattern[str], ...] = ()
    """Further patterns whose lines `read` uses."""
    starts: re.Pattern[str] | None = None
    """A line of the first ones of a start: of several starts in one log the last counts. None: `read` tells them."""
    gathered: tuple[str, ...] = ()
    """What names begin with whose value comes of several lines: not believed when some are lost or out of order."""
    continued: tuple[str, ...] = ()
    """Of these, those to which the next line may add: not believed at the end of a log."""
    holds: tuple[str, ...] = ()
    """Engines whose lines stand among this one's, which runs them."""


class Failures(msgspec.Struct, frozen=True):
    """errors.py: the lines that announce a failed start."""

    rules: tuple[Failure, ...]


class TokenPart(msgspec.Struct, frozen=True):
    """api.py: the engine's tokenizer endpoints, or why there are none."""


class NoTokenApi(TokenPart, frozen=True):
    """An engine that does not serve its tokenizer."""

    because: str
    """What it lacks, after the engine's name ("has no endpoint that turns token ids into text")."""


class TokenApi(TokenPart, frozen=True, kw_only=True):
    """The engine's tokenizer endpoints, as request bodies and readers of the answer."""

    tokenize: Callable[[str, str, bool], tuple[str, dict[str, object]]]
    """(model, text, special tokens added) -> path and JSON body."""
    tokens: Callable[[object], list[int]]
    detokenize: Callable[[str, list[int]], tuple[str, dict[str, object]]]
    text: Callable[[object], str]


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """__init__.py: the engine's name and the version whose rules the folder holds by default."""

    name: str
    title: str
    version: str
    kv_flag: str
    """The flag that names the cache dtype, for advice."""
