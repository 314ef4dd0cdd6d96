"""The ledger against worked examples: a share of all memory, and a share of what is free after the weights."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.budget import ledger
from kvlab.core.engine import Gpu, ShareOf
from kvlab.core.taken import Taken
from kvlab.core.units import GIB

CARD = Gpu(name="c", title="a card", usable_bytes=80 * GIB, bandwidth=None, source="test")


def taken(low: float, guess: float, high: float) -> Taken:
    return Taken(
        name="overhead",
        low=round(low * GIB),
        bytes=round(guess * GIB),
        high=round(high * GIB),
        kind="estimated",
        because="a guess",
    )


def test_a_share_of_what_is_free_is_taken_after_the_weights() -> None:
    # free 80 - 20 = 60 GiB (50 to 70): 0.9 of it is 54 GiB (45 to 63)
    lines = ledger(CARD, 0.9, [taken(10, 20, 30)], "free")
    assert [line.name for line in lines] == ["gpu_memory", "overhead", "left_free", "pool"]
    pool = lines[-1]
    assert (round(pool.low / GIB, 6), round(pool.bytes / GIB, 6), round(pool.high / GIB, 6)) == (45, 54, 63)
    assert "0.9 of what is free" in lines[2].because


def test_a_share_of_all_memory_is_taken_before_the_weights() -> None:
    # 80 x 0.9 = 72 GiB, less 20 (10 to 30)
    lines = ledger(CARD, 0.9, [taken(10, 20, 30)])
    assert [line.name for line in lines] == ["gpu_memory", "left_free", "overhead", "pool"]
    pool = lines[-1]
    assert (round(pool.low / GIB, 6), round(pool.bytes / GIB, 6), round(pool.high / GIB, 6)) == (42, 52, 62)


@given(
    share=st.floats(0.01, 1),
    share_of=st.sampled_from(("all", "free")),
    low=st.floats(0, 200),
    more=st.floats(0, 100),
)
def test_lines_sum_to_the_pool_and_its_range_holds_it(share: float, share_of: ShareOf, low: float, more: float) -> None:
    lines = ledger(CARD, share, [taken(low, low + more / 2, low + more)], share_of)
    assert sum(line.bytes for line in lines[:-1]) == lines[-1].bytes
    assert all(line.low <= line.bytes <= line.high for line in lines)
