"""What published traffic and made-up traffic of known shape say should be changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import kvlab
from kvlab import breakers
from kvlab.core.errors import BadInput
from kvlab.core.rule import Page
from kvlab.core.traffic import Traffic
from kvlab.workload import moves

GOLDEN = Path(__file__).parents[1] / "golden" / "traces"
SYNTHETIC = GOLDEN / "mooncake_synthetic_trace.jsonl.gz"


def codes(found: Traffic) -> list[str]:
    return [move.code for move in found.moves]


def test_a_pool_that_is_too_small_for_much_reuse() -> None:
    """Mooncake's synthetic traffic: 65.1 % of its tokens were seen before; 2,500 blocks hit 20,817 of 77,953."""
    found = kvlab.traffic(SYNTHETIC, capacities=(2_500,), replicas=4)
    assert codes(found) == ["context_limit", "prefix_caching", "offload_tier", "routing", "larger_pool"]
    saves = [move.saves for move in found.moves[1:]]
    assert saves == sorted(saves, key=lambda share: -(share or 0))
    larger = found.moves[-1]
    assert larger.saves == pytest.approx((34_043 - 20_817) / 121_877, abs=0.002)


def test_a_pool_that_holds_all_needs_no_tier() -> None:
    assert codes(kvlab.traffic(SYNTHETIC, capacities=(50_000,))) == ["context_limit", "prefix_caching"]


def test_long_documents_that_share_nothing_point_to_bounded_caches(tmp_path: Path) -> None:
    rows = [
        {"timestamp": at, "input_length": 40_960, "output_length": 300, "hash_ids": [*range(80 * at, 80 * at + 80)]}
        for at in range(20)
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = kvlab.traffic(path, capacities=(100,))
    assert set(codes(found)) == {"context_limit", "prefix_caching", "bounded_window"}
    assert "expect nothing" in next(move.do for move in found.moves if move.code == "prefix_caching")


def test_broken_prefixes_come_before_what_they_hide(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"[2026-05-{at:02}] " + "Answer in one sentence and name the train. " * 30} for at in range(1, 20)
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = kvlab.traffic(path, estimate_tokens=True)
    assert codes(found)[:2] == ["context_limit", "fix_prefixes"]
    assert found.breakers is not None
    assert found.moves[1].saves == pytest.approx(found.breakers.fixed_hit_rate)


@pytest.mark.parametrize(
    ("page", "code"),
    [(moves.page, code) for code in moves.known()] + [(breakers.page, code) for code in breakers.causes()],
)
def test_every_move_and_every_breaker_has_its_page(page: Callable[[str], Page], code: str) -> None:
    found = page(code)
    assert found.title
    assert found.symptom
    assert found.cause
    assert found.do
    assert all(source.startswith("https://") for source in found.source)


def test_a_page_that_is_not_there() -> None:
    with pytest.raises(BadInput, match="did you mean routing"):
        moves.page("rooting")


def test_the_pages_in_the_docs_are_those_of_the_code() -> None:
    from kvlab.reporting.traffic_pages import document

    assert (Path(__file__).parents[2] / "docs" / "traffic.md").read_text() == document()
