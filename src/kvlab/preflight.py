"""What can be known to fail is refused before the first engine starts, not ten minutes later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kvlab import engines
from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.plan import Ask, Plan
from kvlab.core.units import MIB, gib
from kvlab.load import sets
from kvlab.load.datasets import RandomTokens, SharedPrefix
from kvlab.load.making import Wanted
from kvlab.planning import WEIGHT_FILES
from kvlab.settings import Settings
from kvlab.sharing import QUESTION_TOKENS

if TYPE_CHECKING:
    from kvlab.detect import LocalGpu

NOTICED = 256 * MIB
"""Bytes from which another process's share of a GPU matters: a desktop's own windows hold less."""
_UNACCOUNTED = 4 * NOTICED
"""The same for memory that no visible process accounts for: the driver keeps some for itself."""
LEAST_PREFIX = 150
"""Tokens of the shortest prefix for which the step is run: two repeats of the policy that it consists of."""


def refuse_short(plan: Plan) -> None:
    """Raises BadInput when the plan says that not one request fits, at no end of an estimate's range."""
    if plan.verdict.code in ("fits", "unknown") or any(doubt.key == "pool" for doubt in plan.doubts):
        return
    raise BadInput(f"not started, since it would not serve: {plan.verdict.text}; --force starts it all the same")


def placed_here(ask: Ask, gpus: Sequence[LocalGpu], visible: str | None) -> Ask:
    """The request with this machine's GPU in it, where it names no memory and the machine has one that is known."""
    if ask.placed:
        return ask
    seen = _visible(gpus, visible)
    named = (gpus if seen is None else seen)[:1]
    return replace(ask, gpu=named[0].table_name) if named else ask


def seen_by(plan: Plan, gpus: Sequence[LocalGpu], visible: str | None) -> tuple[LocalGpu, ...]:
    """Those of `gpus` that the plan's engine will use, with `visible` as the environment's CUDA_VISIBLE_DEVICES.

    All of them when that names GPUs otherwise than by number.
    """
    seen = _visible(gpus, visible)
    if seen is None:
        return tuple(gpus)
    if engines.launcher(plan.engine.name).every_gpu:
        return seen
    ask = plan.ask
    return seen[: ask.gpus or (ask.tp or 1) * ask.pp * ask.dp]


def _visible(gpus: Sequence[LocalGpu], visible: str | None) -> tuple[LocalGpu, ...] | None:
    """The GPUs that `visible` names by number, in its order; None when it names them otherwise."""
    if visible is None:
        return tuple(gpus)
    words = [word.strip() for word in visible.split(",") if word.strip()]
    if not all(word.isdecimal() for word in words):
        return None
    return tuple(gpu for word in words for gpu in gpus if gpu.index == int(word))


def refuse_dirty(gpus: Sequence[LocalGpu]) -> None:
    """Raises BadInput when a process holds a noticeable part of a GPU: the pool would be smaller than planned."""
    for gpu in gpus:
        holders = [process for process in gpu.processes if process.bytes is None or process.bytes >= NOTICED]
        used = gpu.used_bytes or 0
        if not holders and used < _UNACCOUNTED:
            continue
        who = ", ".join(
            f"{process.name or 'a process'} (pid {process.pid}) holds"
            f" {'an amount that the driver does not state' if process.bytes is None else gib(process.bytes)}"
            for process in holders[:3]
        )
        free = (
            f"; {gib(gpu.free_bytes)} of {gib(gpu.total_bytes)} are free" if gpu.free_bytes and gpu.total_bytes else ""
        )
        raise BadInput(
            f"GPU {gpu.index} ({gpu.name}) is in use: {who or f'{gib(used)} are held'}{free}; stop that, plan beside it"
            " with --share, or go on with --force"
        )


def refuse_little_memory(plan: Plan) -> None:
    """Raises BadInput when this machine has less memory free than the tiers that were asked for take of it."""
    if plan.ask.offload is None:
        return
    import psutil

    of_device = {line.name for line in plan.ledger}  # a CPU's ledger is of the same memory
    needed = sum(line.bytes for line in plan.host if line.name not in of_device and not line.name.startswith("host_"))
    free = int(psutil.virtual_memory().available)
    if needed > free:
        raise BadInput(
            f"not started: --offload {plan.ask.offload} takes {gib(needed)} of this machine's memory, and {gib(free)}"
            " are free; lower --offload-gib, or go on with --force"
        )


def check_installed(plans: Iterable[Plan]) -> None:
    """Raises EngineFailed for an engine that is not installed here."""
    for plan in plans:
        launcher = engines.launcher(plan.engine.name)
        if launcher.binary(plan.ask) is None:
            raise EngineFailed(launcher.missing)


def check_settings(settings: Settings, plans: Iterable[Plan]) -> None:
    """Raises BadInput for arms that cannot be compared, a source without weights, prompts that cannot be read, or
    requests that do not fit; EngineFailed for an engine that is not installed.
    """
    plans = tuple(plans)
    if settings.a.engine != settings.b.engine:
        raise BadInput(
            f"an A/B compares two configurations of one engine, not {settings.a.engine} and {settings.b.engine}"
        )
    if settings.a == settings.b and not settings.against_itself:
        raise BadInput(
            "both arms are the same configuration; say what B changes (--b kv-dtype=q8_0), or measure the noise with"
            " --against-itself"
        )
    if settings.a != settings.b and settings.against_itself:
        raise BadInput("--against-itself runs arm A twice; leave out --b, or --against-itself")
    _check_protocol(settings)
    check_installed(plans)
    _check_weights(settings.source, plans)
    _check_prompts(settings)
    context = min((plan.kv.context for plan in plans if plan.kv.context is not None), default=None)
    if context is None:
        return
    asked = _tokens_per_request(settings)
    if asked is not None and asked > context:
        raise BadInput(
            f"requests of {asked:,} tokens (input and output) do not fit the {context:,} that an arm allows;"
            " lower --input-tokens or --output-tokens, or give more --context"
        )
    if settings.prefix_rounds is not None and room_for_prefix(context) < LEAST_PREFIX:
        raise BadInput(
            f"{context} tokens a request leave no room for a prefix; give more --context, or leave the prefix step"
            " out (--no-prefix)"
        )


def _check_protocol(settings: Settings) -> None:
    """Numbers that are none, and parts of the gate that are none or cannot run on the engine."""
    from kvlab import gates
    from kvlab.core.gate import GateOptions

    if settings.blocks < 1:
        raise BadInput(f"blocks {settings.blocks} must be at least 1: a block is four runs, A B B A")
    if settings.warm_up < 0:
        raise BadInput(f"warm-up {settings.warm_up} must not be negative")
    if settings.quality_tokens is None:
        return
    lacking = gates.lacking(settings.parts, settings.a.engine, GateOptions(prompts=settings.quality_prompts))
    if lacking:
        raise BadInput(f"the quality gate cannot run {', '.join(lacking)} here: {'; '.join(lacking.values())}")


def room_for_prefix(context: int) -> int:
    """Tokens that a prefix may have, with a question and an answer after it."""
    return context - QUESTION_TOKENS


def _check_weights(source: str, plans: Iterable[Plan]) -> None:
    """A config.json alone can be planned and not served."""
    if not any(plan.source.kind in ("config", "folder") for plan in plans):
        return
    path = Path(source)
    folder = path if path.is_dir() else path.parent
    if not any(entry.suffix in WEIGHT_FILES for entry in folder.iterdir()):
        raise BadInput(
            f"{source} holds no weights, so nothing can be served from it; name a folder with weights, a .gguf file or"
            " a Hub id"
        )


def _check_prompts(settings: Settings) -> None:
    from kvlab import prompts

    if settings.quality_tokens is not None:
        prompts.load(None if settings.quality_prompts is None else Path(settings.quality_prompts))
    # A file that cannot be read, or that holds fewer requests, is found before anything starts.
    sets.maker(settings.dataset).draft(
        settings.dataset, Wanted(settings.load.prompts, settings.load.seed, settings.load.endpoint)
    )


def _tokens_per_request(settings: Settings) -> int | None:
    """Tokens of the longest request; None for prompts that only the engine's tokenizer can count."""
    dataset = settings.dataset
    if isinstance(dataset, SharedPrefix):
        return dataset.prefix_tokens + dataset.suffix_tokens + dataset.output_tokens
    return dataset.input_tokens + dataset.output_tokens if isinstance(dataset, RandomTokens) else None
