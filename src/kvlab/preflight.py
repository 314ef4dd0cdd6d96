"""What can be known to fail is refused before the first engine starts, not ten minutes later."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kvlab import engines
from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.plan import Plan
from kvlab.load.datasets import PromptsFile, SharedPrefix, read_prompts
from kvlab.planning import WEIGHT_FILES
from kvlab.settings import Settings
from kvlab.sharing import QUESTION_TOKENS

LEAST_PREFIX = 150
"""Tokens of the shortest prefix for which the step is run: two repeats of the policy that it consists of."""


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
    if settings.a == settings.b:
        raise BadInput("both arms are the same configuration; say what B changes (--b kv-dtype=q8_0)")
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
    if isinstance(settings.dataset, PromptsFile):
        read_prompts(Path(settings.dataset.path), settings.dataset.output_tokens, "completions")


def _tokens_per_request(settings: Settings) -> int | None:
    """Tokens of the longest request; None for prompts that only the engine's tokenizer can count."""
    dataset = settings.dataset
    if isinstance(dataset, PromptsFile):
        return None
    prompt = (
        dataset.prefix_tokens + dataset.suffix_tokens if isinstance(dataset, SharedPrefix) else dataset.input_tokens
    )
    return prompt + dataset.output_tokens
