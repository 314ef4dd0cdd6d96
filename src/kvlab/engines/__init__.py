"""Engines: one folder each, with the same parts. A folder's name is its registration."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from kvlab import variants
from kvlab.core.engine import (
    Engine,
    Failures,
    Launcher,
    LogReader,
    NoTokenApi,
    Offloading,
    Planner,
    TokenApi,
    TokenPart,
)
from kvlab.core.errors import BadInput, nearest

if TYPE_CHECKING:
    from kvlab.core.about import About
    from kvlab.core.metric_map import MetricMap
    from kvlab.core.scoring import ScorePart
    from kvlab.core.scrape import Reading
    from kvlab.core.stated import StatedArgs

T = TypeVar("T")


@cache
def names() -> tuple[str, ...]:
    """Engine names as `--engine` takes them, sorted."""
    return tuple(name.replace("_", "-") for name in variants.names(__name__))


def _part(engine: str, file: str, kind: type[T]) -> T:
    if engine not in names():
        raise BadInput(f"no engine called {engine!r}; {nearest(engine, names())}")
    return variants.one(f"{__name__}.{engine.replace('-', '_')}{file and '.' + file}", kind)


def engine(name: str) -> Engine:
    """The engine's identity. Raises BadInput naming the nearest engine when there is none of that name."""
    return _part(name, "", Engine)


def planner(name: str) -> Planner:
    """How the engine carves a layout into blocks."""
    return _part(name, "capacity", Planner)


def launcher(name: str) -> Launcher:
    """The engine's command line and how to recognise that it serves."""
    return _part(name, "launch", Launcher)


def log_reader(name: str) -> LogReader:
    """The engine's log lines."""
    return _part(name, "log", LogReader)


def metric_map(name: str) -> MetricMap:
    """The engine's metric names."""
    from kvlab.core.metric_map import MetricMap

    return _part(name, "metrics", MetricMap)


def about(name: str) -> About:
    """The pages on which the engine describes itself."""
    from kvlab.core.about import About

    return _part(name, "about", About)


def reading(name: str, pages: Mapping[str, str]) -> Reading:
    """What the engine's pages, by path ("/metrics", "/slots"), say in kvlab's words.

    Raises BadInput when there is no engine of that name, or a page is not what its path says.
    """
    return metric_map(name).reading(name, pages)


def failures(name: str) -> Failures:
    """The lines that announce a failed start."""
    return _part(name, "errors", Failures)


def stated_args(name: str) -> StatedArgs:
    """The settings that the engine's log states."""
    from kvlab.core.stated import StatedArgs

    return _part(name, "stated_args", StatedArgs)


def offloading(name: str) -> Offloading:
    """The tiers below the GPU's cache that the engine has."""
    return _part(name, "tiers", Offloading)


def scoring(name: str) -> ScorePart:
    """How the engine states log-probabilities of given tokens, or why it cannot."""
    from kvlab.core.scoring import ScorePart

    return _part(name, "logprobs", ScorePart)


def token_api(name: str) -> TokenApi:
    """The engine's tokenizer endpoints. Raises BadInput when it serves none."""
    part = _part(name, "api", TokenPart)
    if isinstance(part, TokenApi):
        return part
    because = part.because if isinstance(part, NoTokenApi) else "does not serve its tokenizer"
    raise BadInput(
        f"{engine(name).title} {because}, so prompts cannot be made to an exact length; give --prompts FILE instead"
    )
