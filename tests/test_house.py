"""House limits: short files and functions, few parameters, no module called utils, no output outside cli and report."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "kvlab"
FILES = sorted(SRC.rglob("*.py"))
MAX_LINES, MAX_STATEMENTS, MAX_PARAMETERS = 300, 40, 6
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(file: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, Function):
            yield node


def statements(function: Function) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_file_keeps_the_limits(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= MAX_LINES
    assert file.stem not in ("utils", "util", "helpers", "misc")
    assert not re.search(r"#\s*type:\s*ignore(?!\[)", text)
    for function in functions(file):
        arguments = function.args
        count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
        own = [argument.arg for argument in arguments.args[:1] if argument.arg in ("self", "cls")]
        assert count - len(own) <= MAX_PARAMETERS, f"{function.name} takes {count} parameters"
        assert statements(function) <= MAX_STATEMENTS, f"{function.name} has {statements(function)} statements"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_public_names_are_documented(file: Path) -> None:
    tree = ast.parse(file.read_text())
    assert ast.get_docstring(tree), "the module says nothing about itself"
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_prints_only_in_cli_and_report(file: Path) -> None:
    if file.relative_to(SRC).parts[0] in ("cli", "reporting"):
        return
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]


def test_every_test_file_has_a_name_of_its_own() -> None:
    """Without packages, pytest imports them by their file name: of two that share one, neither run is collected."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
