from __future__ import annotations

import subprocess
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.core.quality import Interval
from kvlab.reporting import words

_ARGUMENT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(st.text())
def test_no_control_character_reaches_a_screen(text: str) -> None:
    shown = words.plain(text)
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"]
    assert not set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") & set(shown)


def test_joiners_that_scripts_need_stay() -> None:
    text = "می‌خواهم 👩‍👩‍👧"
    assert words.plain(text) == text


@settings(max_examples=30, deadline=None)
@given(st.lists(_ARGUMENT, min_size=1, max_size=6))
def test_a_real_shell_reads_back_the_same_arguments(arguments: list[str]) -> None:
    command = words.shell(["printf", "%s\\0", *arguments], {})
    done = subprocess.run(["bash", "-c", command], capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True)
    assert done.stdout.decode().split("\0")[:-1] == arguments
    assert words.plain(command) == command


def test_environment_stands_before_the_command() -> None:
    done = subprocess.run(
        ["bash", "-c", words.shell(["printenv", "NAME"], {"NAME": "a b"})], capture_output=True, check=True
    )
    assert done.stdout == b"a b\n"


def test_each_flag_stands_on_its_own_line_with_its_values() -> None:
    text = words.shell(["vllm", "serve", "Qwen/Qwen3-8B", "--tp", "2", "-O", "-1", "--config", '{"a": 1}'], {})
    assert text.split(" \\\n  ") == ["vllm serve Qwen/Qwen3-8B", "--tp 2", "-O -1", "--config '{\"a\": 1}'"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (147_456, "bytes", "144 KiB"),
        (34_806, "tokens", "34,806 tokens"),
        (0.0123, "s", "12.3 ms"),
        (1.0625, "x", "1.062x"),
        (None, "tokens", "not seen"),
        ("\x1b[31mred", "word", "\\x1b[31mred"),
        (1234.6, "ms", "1,235 ms"),
        (0, "", "0"),
    ],
)
def test_amounts_read_as_people_write_them(value: float | str | None, unit: str, text: str) -> None:
    assert words.amount(value, unit) == text


def test_a_range_names_its_unit_once() -> None:
    assert words.span(-7 * 2**30, -(2**30), "bytes") == "-7 to -1 GiB"
    assert words.span(2**29, 3 * 2**29, "bytes") == "512 MiB to 1.5 GiB"
    assert words.span(0, 2**30, "bytes") == "0 B to 1 GiB"
    assert words.span(134_256, 180_176, "tokens") == "134,256 to 180,176"
    assert words.span(0.01, 0.02, "s") == "10.0 to 20.0 ms"


def test_changes_carry_a_sign_unless_they_round_to_nothing() -> None:
    assert [words.change(value) for value in (0.0421, -0.5, 0.0001, -0.0001, None)] == [
        "+4.2 %",
        "-50.0 %",
        "0.0 %",
        "0.0 %",
        "not seen",
    ]


def test_intervals_say_when_there_is_none() -> None:
    assert words.bounds(0.091, 0.176) == "+9.1 to +17.6"
    assert words.bounds(None, 0.1) == "none"
    assert words.bounds(-9.9, 9.9) == "-990.0 to +990.0"
    assert words.bounds(-30_000.0, 90_000.0) == "no usable interval"
    assert words.bounds(-0.1, 12.0) == "no usable interval"
    assert words.share_interval(Interval(0.723, 0.596, 0.851)) == "72.3 % (59.6 to 85.1)"


def test_a_verdict_is_told_by_its_sign_too() -> None:
    signs = [words.signed(name)[0] for name in ("better", "worse", "no difference seen", "inconclusive")]
    assert len(set(signs)) == 4
