"""What --a and --b of an experiment set."""

from __future__ import annotations

import argparse

import pytest

from kvlab.cli.asking import add_arguments, arms
from kvlab.cli.command import Parser
from kvlab.core.errors import BadInput


def asked(setting: str) -> argparse.Namespace:
    """The options of an experiment in which B sets one thing."""
    parser = Parser("kvlab ab")
    add_arguments(parser)
    return argparse.Namespace(**vars(parser.parse_args([])), a=[], b=[setting])


@pytest.mark.parametrize(
    ("setting", "caching"),
    [
        ("prefix-caching=false", False),
        ("prefix-caching=true", True),
        ("no-prefix-caching", False),
        ("no-prefix-caching=false", True),
    ],
)
def test_an_arm_turns_a_switch_on_or_off(setting: str, caching: bool) -> None:
    assert arms(asked(setting))[1].prefix_caching is caching


def test_a_switch_is_on_or_off() -> None:
    with pytest.raises(BadInput, match="write prefix-caching=true or prefix-caching=false"):
        arms(asked("prefix-caching=of"))
