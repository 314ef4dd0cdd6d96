"""`kvlab explain CODE`: a page for every code that any answer of kvlab names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import kvlab
from kvlab import codes
from kvlab.cli import main
from kvlab.core.errors import BadInput

SRC = Path(__file__).parents[2] / "src" / "kvlab"
FOLDERS = {
    "rule": "rules",
    "verdict": "diagnoses",
    "cause": "causes",
    "breaker": "breakers",
    "move": "workload/moves",
}
SCHEMAS = {"verdict": "kvlab/diagnosis@1", "cause": "kvlab/cause@1"}
FILES = [(kind, file.stem) for kind, folder in FOLDERS.items() for file in sorted((SRC / folder).glob("[a-z]*.py"))]


@pytest.mark.parametrize(("kind", "code"), FILES, ids=[f"{kind}-{code}" for kind, code in FILES])
def test_every_file_with_a_page_is_printed_by_its_code(
    kind: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", f"{kind}:{code}"]) == 0
    shown = capsys.readouterr().out
    title = (SRC / FOLDERS[kind] / f"{code}.py").read_text().removeprefix('"""').partition("\n\n")[0]
    assert " ".join(title.rstrip('."').split()) in " ".join(shown.split())
    assert main(["explain", code, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["code"] == code == kvlab.explain_code(code).code
    if [name for _, name in FILES].count(code) == 1:
        assert document["schema"] == SCHEMAS.get(kind, "kvlab/rule@1")


def test_a_code_of_two_kinds_says_how_the_other_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "prefix_caching"]) == 0
    assert "kvlab explain cause:prefix_caching" in capsys.readouterr().out
    assert main(["explain", "cause:prefix_caching", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "kvlab/cause@1"
    assert main(["explain", "hybrid_manager_off", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "kvlab/rule@1"  # as before there were others


def test_the_list_has_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "kvlab/rules@1"
    listed = [("rule", rule["code"]) for rule in document["rules"]]
    listed += [(other["kind"], other["code"]) for other in document["others"]]
    assert sorted(listed) == sorted(FILES)
    assert [rule.code for rule in kvlab.explain_list().rules] == [rule["code"] for rule in document["rules"]]
    assert main(["explain", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^{code} ", shown, re.MULTILINE) for _, code in FILES)


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("timestmp", "timestamp"),
        ("json-order", "json_order"),
        ("offload", "offload_tier"),
        ("capacity_bond", "capacity_bound"),
        ("port_in_us", "port_in_use"),
        ("move:larger_pol", "larger_pool"),
    ],
)
def test_an_unknown_code_names_the_nearest(word: str, nearest: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", word]) == 2
    told = capsys.readouterr().err
    assert (told.count("\n"), nearest in told) == (1, True)
    with pytest.raises(BadInput, match=nearest):
        codes.find(word)
