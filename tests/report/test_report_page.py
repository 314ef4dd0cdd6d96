from __future__ import annotations

import re
from pathlib import Path

import pytest
from hostile import ARABIC, hostile
from msgspec.structs import replace
from reader import Page, needs_nothing
from sample import PRINTED, record

from kvlab.core.plan import ContextLine
from kvlab.core.record import Record
from kvlab.core.tiers import Tier
from kvlab.reporting import html, sections, words


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(html.page(record()))


@pytest.fixture(scope="module")
def attacked() -> Page:
    return Page(html.page(hostile()))


def _sections(page: Page) -> list[str]:
    return [str(attributes["id"]) for name, attributes in page.elements if name == "section"]


def test_the_verdict_comes_first_and_every_part_follows(page: Page) -> None:
    assert _sections(page) == [
        "verdict", "performance", "plan", "check", "load", "quality", "prefix", "protocol", "launch", "doubts",
    ]  # fmt: skip
    assert page.texts["h2"][0] == "Inconclusive"


def test_every_link_leads_to_a_part_of_the_page(page: Page) -> None:
    targets = [attributes["href"] for name, attributes in page.elements if name == "a"]
    assert targets
    assert {f"#{name}" for name in page.ids()} >= set(targets)
    assert len(page.ids()) == len(set(page.ids()))


def test_every_charted_number_is_there_with_its_kind(page: Page) -> None:
    kinds = {str(attributes.get("class")) for name, attributes in page.elements if name == "span"}
    assert {"kind kind-computed", "kind kind-read", "kind kind-measured", "kind kind-estimated"} <= kinds
    assert sum(name == "svg" for name, _ in page.elements) == 10


def test_the_check_shows_the_engines_own_lines(page: Page) -> None:
    assert set(PRINTED["f16"] + PRINTED["q8_0"]) <= set(page.texts["code"])


def test_the_launch_commands_of_both_arms_are_there(page: Page) -> None:
    commands = [text for text in page.texts["code"] if text.startswith("llama-server")]
    assert ["--cache-type-k f16" in text for text in commands] == [True, False]
    assert ["--cache-type-k q8_0" in text for text in commands] == [False, True]


def test_answers_are_marked_from_the_word_where_they_part(page: Page) -> None:
    assert " 7 apples, then 6 boxes are needed, and nothing is left over." in page.texts["mark"]
    assert "42 apples in total. If each box holds" in page.texts["span"]


def test_failed_requests_are_named(page: Page) -> None:
    assert "HTTP 500: context shift is disabled" in page.texts["code"]


@pytest.mark.parametrize("name", ["page", "attacked"])
def test_the_page_needs_neither_network_nor_script(name: str, request: pytest.FixtureRequest) -> None:
    needs_nothing(request.getfixturevalue(name))


def test_tables_that_say_the_same_are_given_once() -> None:
    whole = record()
    assert whole.ab
    first, second = whole.ab.arms["a"], whole.ab.arms["b"]
    turned = replace(second, plan=replace(second.plan, contexts=tuple(reversed(first.plan.contexts))))
    same = Page(html.page(replace(whole, ab=replace(whole.ab, arms={"a": first, "b": turned}))))
    captions = [text.strip() for text in same.texts["caption"]]
    assert "Cache of one request, and requests at once (computed), A and B" in captions
    shorter = replace(second, plan=replace(second.plan, contexts=second.plan.contexts[:2]))
    other = Page(html.page(replace(whole, ab=replace(whole.ab, arms={"a": first, "b": shorter}))))
    assert sum("Cache of one request" in text for text in other.texts["caption"]) == 2


def test_dtypes_that_cost_the_same_share_a_column() -> None:
    whole = record()
    assert whole.ab
    lines = tuple(ContextLine(1024, dtype, amount, 2.999) for dtype, amount in (("f16", 8), ("bf16", 8), ("q8_0", 4)))
    plan = replace(whole.ab.arms["a"].plan, contexts=lines)
    ab = replace(whole.ab, arms={"a": replace(whole.ab.arms["a"], plan=plan)})
    table = sections.contexts(ab)[0]
    assert table.dtypes == ("f16, bf16", "q8_0")
    cell = table.rows[0][1][0]
    assert cell is not None
    assert cell.requests == "3.00x"  # rounded, as vLLM prints its concurrency


def test_a_line_of_the_log_is_quoted_once_for_all_that_it_states(page: Page) -> None:
    quoted = [text for text in page.texts["code"] if text in PRINTED["f16"] + PRINTED["q8_0"]]
    assert len(quoted) == len(set(quoted)) == 4


def test_flags_of_both_arms_are_explained_once(page: Page) -> None:
    assert page.texts["code"].count("--flash-attn") == 1
    assert page.texts["code"].count("--cache-type-k") == 2


def test_a_command_that_lacks_something_says_so() -> None:
    whole = record()
    assert whole.ab
    arm = whole.ab.arms["a"]
    plan = replace(arm.plan, launch=replace(arm.plan.launch, lacks="/models/x holds no weights"))
    shown = html.page(replace(whole, ab=replace(whole.ab, arms={"a": replace(arm, plan=plan)})))
    assert "/models/x holds no weights" in Page(shown).texts["p"]


def test_tiers_and_the_machines_memory_are_there() -> None:
    whole = record()
    assert whole.ab
    arm = whole.ab.arms["a"]
    tier = Tier(
        name="cache-ram",
        kind="host",
        bytes=8 << 30,
        bytes_per_rank=8 << 30,
        tokens=None,
        requests=None,
        granularity=None,
        flag="--cache-ram 8192",
        because="MiB <b>of the server</b>",
    )
    plan = replace(arm.plan, tiers=(tier,), host=arm.plan.ledger[:1])
    page = Page(html.page(replace(whole, ab=replace(whole.ab, arms={"a": replace(arm, plan=plan)}))))
    captions = [text.strip() for text in page.texts["caption"]]
    assert any(text.startswith("Tiers below the GPU's cache") for text in captions)
    assert "Memory of the machine" in captions
    assert "--cache-ram 8192" in page.texts["code"]
    assert "not known" in page.texts["td"]
    assert "MiB <b>of the server</b>" in page.texts["td"]


def test_hostile_text_stays_text(page: Page, attacked: Page) -> None:
    assert attacked.names() <= page.names()
    text = attacked.all_text()
    assert "<script>alert(1)</script>" in text
    assert "{{ 7 * 7 }}" in text
    assert ARABIC in text
    assert not set("\x00\x1b\u202e") & set(text)


def test_long_answers_are_cut_and_the_cut_is_counted(attacked: Page) -> None:
    assert "... 10,800 more characters" in attacked.texts["span"]
    assert max(len(text) for text in attacked.texts["mark"]) < 5000


def _only_a_plan() -> Record:
    whole = record()
    assert whole.ab
    arm = replace(whole.ab.arms["a"], check=None)
    ab = replace(whole.ab, arms={"a": arm}, performance=(), quality=None, prefix=None)
    return replace(whole, ab=ab, runs=(), load=None, finished=None)


def _interrupted() -> Record:
    whole = record()
    return replace(whole, ab=None, runs=whole.runs[:1], finished=None)


def _no_capacity() -> Record:
    whole = record()
    assert whole.ab
    bare = {
        name: replace(arm, plan=replace(arm.plan, capacity=None, ledger=(), alternatives=(), contexts=(), doubts=()))
        for name, arm in whole.ab.arms.items()
    }
    return replace(whole, ab=replace(whole.ab, arms=bare))


def _all_failed() -> Record:
    whole = record()
    rows = [
        tuple(replace(row, ttft=None, tpot=None, e2e=None, error="refused") for row in run.rows) for run in whole.runs
    ]
    runs = tuple(replace(run, rows=part, metrics={}, samples=()) for run, part in zip(whole.runs, rows, strict=True))
    return replace(whole, runs=runs)


@pytest.mark.parametrize(
    ("partial", "present", "missing"),
    [
        (_only_a_plan, {"verdict", "plan", "protocol", "launch"}, {"load", "quality", "prefix", "performance"}),
        (_interrupted, {"verdict", "load", "protocol"}, {"plan", "check", "launch", "doubts"}),
        (_no_capacity, {"plan", "check", "load"}, {"doubts"}),
        (_all_failed, {"load", "quality"}, set()),
    ],
)
def test_a_record_with_missing_parts_still_renders(partial: object, present: set[str], missing: set[str]) -> None:
    assert callable(partial)
    made = partial()
    page = Page(html.page(made))
    assert present <= set(_sections(page))
    assert not missing & set(_sections(page))
    assert [anchor for anchor, _ in sections.contents(made)] == _sections(page)[1:]


def test_an_unfinished_record_says_so() -> None:
    assert "the experiment did not finish" in html.page(_interrupted())
    assert "did not finish" in html.page(_only_a_plan())


def test_the_same_record_makes_the_same_page() -> None:
    assert html.page(_interrupted()) == html.page(_interrupted())


def test_the_report_is_replaced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "lab" / "new"
    path = html.write_report(_interrupted(), folder)
    html.write_report(_only_a_plan(), folder)
    assert path == folder / "report.html"
    assert list(folder.iterdir()) == [path]
    assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [
        ("one two three", "one two four", "one two"),
        ("one two", "one two three", "one two"),
        ("two", "twofold", ""),
        ("", "x", ""),
        ("a\n\nb", "a\nb", "a"),
        ("same text ", "same text ", "same text "),
    ],
)
def test_texts_part_between_words(a: str, b: str, shared: str) -> None:
    assert sections.common_words(a, b) == shared


def test_every_cell_of_a_table_that_folds_names_its_column() -> None:
    text = html.page(record())
    folding = re.findall(r'<table class="[^"]*folds[^"]*">.*?</table>', text, re.DOTALL)
    assert len(folding) >= 7
    for table in folding:
        heads = re.findall(r"<th[^>]*>([^<]*)</th>", table.partition("</thead>")[0])
        labels = re.findall(r'<td[^>]* data-label="([^"]*)"', table)
        assert labels
        assert not re.findall(r"<td(?![^>]*(?:data-label|colspan))", table)
        assert labels[: len(heads) - 1] == heads[1:]


def test_times_are_told_in_utc_and_the_planned_context_is_marked() -> None:
    text = html.page(record())
    assert record().created not in text
    assert words.moment(record().created) in text
    assert "2,048 (planned)" in text
    assert words.moment("2026-11-30T05:21:08+01:00") == "30 Nov 2026, 04:21:08 UTC"
    assert words.moment("2026-11-30T04:21:08Z") == "30 Nov 2026, 04:21:08 UTC"
    assert words.moment("yesterday") == "yesterday"
