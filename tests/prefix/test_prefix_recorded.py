"""What a real vLLM said to `kvlab prefix` (tests/golden/prefix): the simulation beside it, and how it is shown."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from kvlab.core.quality import Prefix
from kvlab.reporting import terminal_prefix
from kvlab.reporting.charts import prefix as charts
from kvlab.sharing.pool import Pool, Visit

FILE = Path(__file__).parents[1] / "golden" / "prefix" / "vllm_0.32.0_cpu.json"


@pytest.fixture(scope="module")
def found() -> Prefix:
    return msgspec.json.decode(FILE.read_bytes(), type=Prefix)


def test_the_simulated_pool_loses_what_the_real_one_lost(found: Prefix) -> None:
    """The walk went over 3, 6, 12, 9 and 7 prefixes of 320 tokens; the pool has 64 blocks of 32 that can be used."""
    assert found.churn is not None
    measured = {point.prefixes: point.hit_share for point in found.churn.points}
    walk, ends = list[int](), dict[int, int]()
    for count, missing in ((3, range(3)), (6, range(3, 6)), (12, range(6, 12)), (9, range(9)), (7, range(7))):
        walk += [*missing, *range(count)]
        ends[count] = len(walk)
    hits = Pool(2080, 32, 64).simulated([Visit(number, 328) for number in walk], 320)
    assert hits is not None
    for count, end in ends.items():
        assert sum(hits[end - count : end]) / (320 * count) == pytest.approx(measured[count])


@pytest.mark.parametrize("width", [40, 80, 160])
def test_every_part_is_shown(found: Prefix, width: int) -> None:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True).print(terminal_prefix.prefix(found))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    for words in ("Isolated", "32 tokens", "cold / warm", "1,968", "2,296", "30.0 %", "21,320", "to the token"):
        assert words in text


def test_the_curves_are_drawn(found: Prefix) -> None:
    drawn = {drawing.name: drawing for drawing in charts.curves(found)}
    assert set(drawn) == {"prefix-lengths", "prefix-churn"}
    assert "2,080" in drawn["prefix-churn"].text
    assert drawn["prefix-lengths"].png().startswith(b"\x89PNG")
    assert "simulated" in drawn["prefix-churn"].svg()
    assert charts.curves(msgspec.structs.replace(found, lengths=None, churn=None)) == ()
