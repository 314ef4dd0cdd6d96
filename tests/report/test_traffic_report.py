"""The page of a workload: what it says first, the published figures of Mooncake's trace, and what it must not do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hostile import ATTACK, LONG
from msgspec.structs import replace
from reader import Page, needs_nothing
from workload_sample import TRACE, chat_log, conversation, hostile_workload, loaded

import kvlab
from kvlab.cli import main
from kvlab.core.errors import BadInput
from kvlab.core.traffic import CurvePoint
from kvlab.reporting import traffic_page, traffic_words


@pytest.fixture(scope="module")
def text() -> str:
    return traffic_page.page(conversation())


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(traffic_page.page(hostile_workload(tmp_path_factory.mktemp("logs"))))


def sections(page: Page) -> list[str]:
    return [str(attributes["id"]) for name, attributes in page.elements if name == "section"]


def cells(text: str, first: str) -> list[str]:
    """The cells of the row that begins with `first`."""
    rows = re.findall(r"<tr>\s*(<th scope=\"row\".*?)</tr>", text, re.DOTALL)
    found = [[re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in rows]
    return next(row for row in found if row[0] == first)


def test_the_limit_the_cache_the_tier_and_the_moves_come_first(page: Page) -> None:
    assert sections(page) == ["verdict", "lengths", "reuse", "tiers", "replicas", "waste", *sections(page)[6:]]
    assert page.texts["h2"][0] == "A limit of 86,016 tokens would cut 1.0 % of the requests"
    assert page.texts["dt"][:3] == ["context limit", "cache", "tiers"]
    assert "119 of 12,031 requests are longer than 86,016" in page.texts["dd"][0]
    assert "126,720 tokens hold all" in page.texts["dd"][0]
    assert page.texts["h3"][0] == "Moves"
    moves = conversation().moves
    assert [text for text in page.texts["strong"] if text in {move.do for move in moves}] == [move.do for move in moves]


def test_published_figures_of_the_trace_are_on_the_page(text: str) -> None:
    # 105,710 of 288,500 blocks: 0.366412; tokens: 0.3736; 182,790 different blocks
    for said in ("36.6 % (105,710)", "37.4 % (", "288,500 blocks of 512 tokens", "182,790"):
        assert said in text
    hits = {"1,000": "12,847", "5,000": "32,260", "10,000": "61,046", "30,000": "93,978", "50,000": "102,290"}
    assert {at: cells(text, at)[4] for at in hits} == hits
    assert cells(text, "1,000")[2] == "70.31 GiB"  # 1,000 blocks of 512 tokens of 144 KiB


def test_policies_tiers_and_lengths_are_as_published(text: str) -> None:
    policies = text[text.index("<caption>Blocks found, and their share of all") :]
    assert cells(policies, "1,000") == ["1,000", "12,509 (4.3 %)", "13,871 (4.8 %)", "54,994 (19.1 %)"]
    assert [cells(text, name)[3] for name in ("gpu", "cpu")] == ["12,831", "48,083"]
    assert cells(text, "prompt") == ["prompt", "12,035", "6,909", "27,367", "39,550", "85,400", "121,301", "126,195"]
    assert cells(text, "total")[2::5] == ["7,255", "126,527"]
    assert cells(text, "max (131,072 tokens)") == ["max (131,072 tokens)", "90.0 %"]
    assert cells(text, "pages of 512") == ["pages of 512", "1.91 %"]


def test_every_part_says_where_its_numbers_come_from(page: Page, text: str) -> None:
    heads = dict(re.findall(r"<h2>(.*?) <span class=\"kind kind-\w+\">(\w+)</span></h2>", text))
    assert heads == {
        "Tokens a request": "read",
        "Prefix reuse": "computed",
        "Tiers, exclusive": "computed",
        "4 replicas": "computed",
        "Memory reserved and not used": "computed",
    }
    quiet = " ".join(page.texts["p"])
    assert conversation().reuse.definition in quiet  # type: ignore[union-attr]
    assert "Percentiles are interpolated linearly between ranks" in quiet


def test_every_link_leads_to_a_part_of_the_page(page: Page) -> None:
    targets = [attributes["href"] for name, attributes in page.elements if name == "a"]
    assert targets == [f"#{name}" for name in sections(page)[1:]]
    assert [f"#{name}" for name, _ in traffic_words.contents(conversation())] == targets
    assert len(page.ids()) == len(set(page.ids()))


def test_every_cell_of_a_table_that_folds_names_its_column(text: str, tmp_path: Path) -> None:
    whole = text + traffic_page.page(loaded(tmp_path))
    tables = re.findall(r'<table class="folds">.*?</table>', whole, re.DOTALL)
    assert len(tables) >= 7
    for table in tables:
        heads = re.findall(r"<th[^>]*>([^<]*)</th>", table.partition("</thead>")[0])
        labels = re.findall(r'<td[^>]* data-label="([^"]*)"', table)
        assert not re.findall(r"<td(?![^>]*data-label)", table)
        assert labels[: len(heads) - 1] == heads[1:]


def test_a_simulated_load_is_on_the_page(tmp_path: Path) -> None:
    value = loaded(tmp_path)
    assert value.load
    page = Page(traffic_page.page(value))
    assert "load" in sections(page)
    assert value.load.definition in " ".join(page.texts["p"])
    assert "under load" in page.texts["dt"]
    text = traffic_page.page(value)
    for one in value.load.pools:
        row = cells(text[text.index('<section id="load">') :], f"{one.pool_blocks:,}")
        assert (row[4], row[8]) == (f"{one.preemptions:,}", f"{one.too_large:,}")


@pytest.mark.parametrize("name", ["page", "attacked"])
def test_the_page_needs_neither_network_nor_script(name: str, request: pytest.FixtureRequest) -> None:
    needs_nothing(request.getfixturevalue(name))


def test_hostile_text_stays_text(page: Page, attacked: Page) -> None:
    assert attacked.names() <= page.names() | {"code"}
    text = attacked.all_text()
    assert "<script>alert(1)</script>" in text
    assert "{{ 7 * 7 }}" in text
    assert not set("\x00\x1b\u202e") & set(text)
    assert LONG not in text  # names that came with the log are cut


def test_names_in_a_log_stay_text(tmp_path: Path) -> None:
    path = chat_log(tmp_path, role="<script>alert(8)</script>")
    value = kvlab.traffic(path, estimate_tokens=True)
    assert value.breakers
    assert [one.code for one in value.breakers.found] == ["timestamp"]
    page = Page(traffic_page.page(value))
    assert "script" not in page.names()
    assert "img" not in page.names()
    assert "message 1 (<script>alert(8)</script>)" in page.texts["bdi"]
    assert page.texts["bdi"][0] == path.name
    assert "Answer in one sentence" not in page.all_text()  # no prompt leaves the log


def test_a_bare_trace_of_lengths_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("num_prefill_tokens,num_decode_tokens\n" + "5,5\n" * 9)
    page = Page(traffic_page.page(kvlab.traffic(tmp_path / "a.csv")))
    assert sections(page) == ["verdict", "lengths", "waste"]
    assert "not known: lengths alone do not tell what prompts share" in page.texts["dd"]


def test_a_trace_without_reuse_and_without_answers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = '{"timestamp": 0, "input_length": 600, "output_length": 0, "hash_ids": '
    path.write_text(f"{row}[0, 1]}}\n{row}[2, 3]}}\n")
    page = Page(traffic_page.page(kvlab.traffic(path)))
    assert "no size helps: no prompt begins as an earlier one did" in page.texts["dd"]


def test_a_document_of_before_the_curves_still_renders() -> None:
    text = traffic_page.page(replace(conversation(), length_curves=None))
    assert "traffic-lengths-" not in text
    assert cells(text, "prompt")[1] == "12,035"


def test_a_page_of_a_huge_answer_stays_small_and_says_what_it_left_out() -> None:
    value = conversation()
    assert value.reuse
    first = value.reuse.curve[0]
    # 1,000 shares, each at 20 sizes: the first and the last of each are of use
    curve = tuple(_point(first, at) for at in range(20_000))
    text = traffic_page.page(replace(value, files=("log.jsonl",) * 5_000, reuse=replace(value.reuse, curve=curve)))
    assert len(text.encode()) < 500_000
    assert "log.jsonl, log.jsonl, log.jsonl and 4,997 more files" in text
    assert "60 of 20,000 points. Those between two with the same shares are left out, and others evenly;" in text
    assert "20,000 points were thinned to these" in text


def _point(first: CurvePoint, at: int) -> CurvePoint:
    share = at // 20 / 1_000
    return replace(first, capacity_blocks=at + 1, capacity_tokens=512 * (at + 1), hit_rate=share, token_hit_rate=share)


def test_points_that_say_nothing_new_are_left_out_of_the_table(text: str) -> None:
    value = conversation()
    assert value.reuse
    kept = traffic_words.changing(value.reuse)
    assert (kept[0], kept[-1]) == (value.reuse.curve[0], value.reuse.curve[-1])
    # From 1 block to some hundred the curve lies at 4.2 %: two rows are enough.
    flat = [point for point in kept if point.hit_blocks == 12_030]
    assert len(flat) <= 2 < sum(point.hit_blocks == 12_030 for point in value.reuse.curve)
    assert f"{len(kept)} of {len(value.reuse.curve)} points. Those between two" in text


def test_the_command_writes_the_page_and_what_it_kept_makes_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, again, kept = tmp_path / "first", tmp_path / "again", tmp_path / "traffic.json"
    assert main(["traffic", str(TRACE), "--capacity", "1000", "--report", str(first), "-o", str(kept)]) == 0
    assert f"report:{first / 'report.html'}" in "".join(capsys.readouterr().out.split())
    assert main(["report", str(kept), "--folder", str(again)]) == 0
    assert (first / "report.html").read_bytes() == (again / "report.html").read_bytes()
    names = sorted(path.name for path in (again / "charts").iterdir())
    assert names == ["traffic-curve.png", "traffic-lengths.png", "traffic-waste.png"]


def test_a_report_that_cannot_be_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(BadInput, match="is a file; name a folder for --report"):
        kvlab.traffic(TRACE, report=tmp_path / "taken")
    (tmp_path / "a.json").write_text('{"schema": "kvlab/traffic@1", "files": 5}')
    with pytest.raises(BadInput, match="is not a document of kvlab traffic of this version"):
        kvlab.report(tmp_path / "a.json")
    (tmp_path / "b.json").write_text('{"schema": "kvlab/traffic@2"}')
    with pytest.raises(BadInput, match="written by a newer kvlab"):
        kvlab.report(tmp_path / "b.json")
    (tmp_path / "log.jsonl").write_text('{"messages": []}')
    with pytest.raises(BadInput, match="is not a record of a lab or document of kvlab traffic"):
        kvlab.report(tmp_path / "log.jsonl")
    assert not (tmp_path / "report.html").exists()
    assert ATTACK not in (tmp_path / "taken").read_text()
