"""What a file in cli/commands holds: one Command, named after the file."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from kvlab.core.errors import BadInput, nearest

if TYPE_CHECKING:
    from rich.console import RenderableType


class Answer(NamedTuple):
    """A value to print as JSON, how to show it to a person, and the exit code (0, or 1: a gate failed)."""

    document: object
    show: Callable[[], RenderableType]
    exit_code: int = 0


class Command(NamedTuple):
    """A verb: one line of help, its arguments, and what it does.

    `output_folder`: -o names a folder, and the verb itself writes into it.
    """

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Answer]
    output_folder: bool = False


def help_width() -> int:
    """Characters of a line of help: COLUMNS where that is a width at all, else 80."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 20 else 80


def _formatter(prog: str) -> argparse.HelpFormatter:
    """A stated width: argparse would import shutil and its archive formats to ask for the terminal's."""
    return argparse.HelpFormatter(prog, width=help_width())


class Parser(argparse.ArgumentParser):
    """argparse that raises BadInput, one line, where argparse would print usage and exit."""

    def __init__(self, prog: str, description: str | None = None) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False, formatter_class=_formatter)

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{self._nearest_option(message)}; see {self.prog} --help")

    def _nearest_option(self, message: str) -> str:
        prefix = "unrecognized arguments: "
        if not message.startswith(prefix):
            return message
        unknown = message.removeprefix(prefix)
        first = unknown.split()[0].split("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        return f"unknown argument {unknown}; {nearest(first, known)}" if first.startswith("-") else message


def tokens(what: str) -> Callable[[str], int]:
    """An argument type for a number of tokens, k and M understood."""
    from kvlab.core.units import parse_tokens

    def parse(text: str) -> int:
        try:
            return parse_tokens(text, what)
        except BadInput as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def positive(text: str) -> float:
    """An argument type for a number above 0."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} must be above 0")
    return value


def words(given: list[str]) -> tuple[str, ...]:
    """The names in lists with commas or blanks."""
    return tuple(word for text in given for word in text.replace(",", " ").split())


def count(text: str) -> int:
    """An argument type for a whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return value


def requests(text: str) -> int:
    """An argument type for a number of requests, which are made before the first is sent."""
    from kvlab.load.making import MOST_PROMPTS

    value = count(text)
    if value > MOST_PROMPTS:
        raise argparse.ArgumentTypeError(f"{text} must be at most {MOST_PROMPTS:,}")
    return value


def refuse_bare_address(text: str) -> None:
    """Raises BadInput for HOST:PORT where no file is called so: a URL without its beginning."""
    if re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}(/\S*)?", text) and not os.path.exists(text):
        raise BadInput(f"no file is called {text}; if it is the address of a server, write http://{text}")
