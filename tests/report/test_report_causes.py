"""Why a log differs, in words and on the page."""

from __future__ import annotations

from msgspec.structs import replace
from reader import Page
from sample import check, record

from kvlab.core.check import Check, Reason
from kvlab.reporting import html, words

TEXT = "the log's n_ubatch is 128, the plan's 512: plan with --ubatch 128 <b>"
REASON = Reason(code="micro_batch", text=TEXT, certainty="exact", explains=("compute_buffer_bytes",))


def explained(reason: Reason) -> Check:
    """The sample's check, with a cause of its row that differs."""
    before = check()
    rows = tuple(
        replace(row, follows_from=("compute_buffer", "pool"), causes=(reason,), likely_because=reason.text)
        if row.verdict == "differs"
        else row
        for row in before.rows
    )
    return replace(before, rows=rows, causes=(reason,))


def test_a_row_says_what_it_follows_from_and_why() -> None:
    (row,) = [row for row in explained(REASON).rows if row.verdict == "differs"]
    assert words.why(row) == f"follows from compute buffer, and that from pool; likely because {TEXT}"
    maybe = replace(REASON, certainty="possible")
    (row,) = [row for row in explained(maybe).rows if row.verdict == "differs"]
    assert words.why(row) == f"follows from compute buffer, and that from pool; possibly because {TEXT}"
    (row,) = [row for row in check().rows if row.verdict == "differs"]
    assert words.why(row).startswith("planned because ")


def test_the_page_names_the_causes_above_the_rows() -> None:
    whole = record()
    assert whole.ab is not None
    arms = {"a": replace(whole.ab.arms["a"], check=explained(REASON)), "b": whole.ab.arms["b"]}
    text = html.page(replace(whole, ab=replace(whole.ab, arms=arms)))
    assert text.count("<b>explains it exactly</b>: the log&#39;s n_ubatch is 128") == 1
    assert "--ubatch 128 <b>" not in text  # a log's words are text
    assert "follows from compute buffer" in "".join(Page(text).texts["span"])
    assert "explains it exactly" not in html.page(whole)
