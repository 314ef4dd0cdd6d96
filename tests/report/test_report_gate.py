"""The quality gate on a terminal and on the page."""

from __future__ import annotations

import io

import pytest
import sample
from hostile import ATTACK
from msgspec.structs import replace
from reader import Page
from rich.console import Console

from kvlab.core.gate import Example, Figure, Gate, GateRule, LengthRow, PartFinding
from kvlab.core.interval import Interval
from kvlab.core.quality import Quality
from kvlab.reporting import figures, html, terminal


def _figure(b: float, unit: str = "nats", *, allowed: float | None = None) -> Figure:
    name = "mean KL divergence" if unit == "nats" else "likeliest token differs"
    interval = Interval(b, b / 2, b * 2)
    return Figure(name=name, unit=unit, a=Interval(0, 0, 0), b=interval, difference=interval, allowed=allowed)  # type: ignore[arg-type]


def quality(text: str = "mean KL divergence 0.0123 nats a token") -> Quality:
    rows = (
        LengthRow(low=0, high=128, count=120, figures=(_figure(0.004), _figure(0.02, "share"))),
        LengthRow(low=1024, high=2045, count=24, figures=(_figure(0.21), _figure(0.125, "share"))),
    )
    divergence = PartFinding(
        name="divergence",
        title="Log-probabilities of fixed texts",
        verdict="fail",
        because=text,
        numbers=(_figure(0.0123, allowed=0.1), _figure(0.031, "share", allowed=0.1)),
        by_length=rows,
        examples=(Example(id=text, asked=text, a=text, b=text, note=text),),
    )
    skipped = PartFinding(name="lm-eval", title="lm-evaluation-harness", verdict="not run", because="name tasks")
    gate = Gate(verdict="fail", because="divergence failed; not run: lm-eval", rule=GateRule(), asked=())
    return replace(sample.quality(), gate=gate, parts=(divergence, skipped))


def shown(width: int) -> str:
    out = io.StringIO()
    terminal.show(terminal.quality(quality()), Console(file=out, width=width))
    return out.getvalue()


def test_the_terminal_leads_with_the_gate_and_shows_each_part_by_context_length() -> None:
    text = shown(120)
    assert text.startswith("Quality gate: fail: divergence failed")
    assert "Log-probabilities of fixed texts (divergence): fail" in text
    assert "lm-evaluation-harness (lm-eval): not run" in text
    line = next(line for line in text.splitlines() if "1,024-2,044" in line)
    assert "0 / 0.21 nats" in line
    assert "0.0 / 12.5 %" in line


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_no_line_of_the_gate_is_wider_than_the_screen(width: int) -> None:
    assert max(len(line.rstrip()) for line in shown(width).splitlines()) <= width


def test_the_page_shows_the_parts_and_nothing_of_a_model_gets_out_of_its_place() -> None:
    record = sample.record()
    assert record.ab
    calm = Page(html.page(replace(record, ab=replace(record.ab, quality=quality()))))
    assert "Log-probabilities of fixed texts: fail" in calm.texts["h3"]
    assert any("0 / 0.21 nats" in cell for cell in calm.texts["td"])
    attacked = Page(html.page(replace(record, ab=replace(record.ab, quality=quality(ATTACK)))))
    assert not [name for name, _ in attacked.elements if name in ("script", "img")]


def test_a_gate_without_the_agreement_part_has_a_page_too() -> None:
    record = sample.record()
    assert record.ab
    bare = replace(
        quality(), noise_floor=None, candidate=None, by_kind={}, divergences=(), verdict="not run", because="not asked"
    )
    page = Page(html.page(replace(record, ab=replace(record.ab, quality=bare))))
    assert "Log-probabilities of fixed texts: fail" in page.texts["h3"]


@pytest.mark.parametrize(
    ("value", "unit", "signed", "text"),
    [
        (0.0, "nats", False, "0"),
        (0.0123, "nats", False, "0.012"),
        (1.53, "nats", True, "+1.5"),
        (0.09989, "nats", False, "0.1"),
        (0.00004, "nats", True, "+4e-05"),
        (0.031, "share", False, "3.1"),
        (-0.0001, "share", True, "0.0"),
        (1.0374, "ratio", False, "1.037"),
        (1234.0, "tokens", False, "1,234"),
    ],
)
def test_numbers_are_written_to_the_digits_that_tell_something(
    value: float, unit: str, signed: bool, text: str
) -> None:
    assert figures.one(value, unit, signed=signed) == text
