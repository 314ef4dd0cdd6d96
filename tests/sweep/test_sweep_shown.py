"""A sweep as a person sees it, and what the command refuses."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import msgspec
import pytest
from queues import Queue, sweep
from rich.console import Console

from kvlab.cli import load_verb, main
from kvlab.core.bracket import Search
from kvlab.core.cost import per_million
from kvlab.core.objectives import objectives
from kvlab.core.plan import Plan
from kvlab.core.points import Terms
from kvlab.core.sweep import Over, Sweep, SweepLoad
from kvlab.core.sweep_judge import Priced, judge
from kvlab.reporting import terminal, terminal_sweep
from kvlab.reporting.charts.sweep import drawings
from kvlab.reporting.sweep_page import page


def swept(over: Over = "concurrency", limit: str = "e2el:250", model: str = "m", plan: Plan | None = None) -> Sweep:
    """A sweep of 4 places of 0.1 s."""
    search, asked = Search(over=over, requests=128, most_requests=128), objectives([limit] if limit else [])
    points, stop = sweep(Queue(4, lambda source: (0.95 + 0.1 * source.random()) / 10), search, asked, 1)
    points = [msgspec.structs.replace(one, per_million_output=per_million(3, one.output_throughput)) for one in points]
    found = judge(points, stop, Terms(search, asked, 3.0), Priced(plan=plan, request_tokens=18))
    return Sweep(
        over=over,
        points=tuple(points),
        objectives=asked,
        target=search.target,
        level=search.level,
        safe=found.safe,
        knee=found.knee,
        cost=found.cost,
        verdict=found.verdict,
        load=SweepLoad(input_tokens=10, output_tokens=8, endpoint="completions", seed=0),
        source="http://127.0.0.1:8000",
        model=model,
        engine="vllm",
        sittings=("2026-11-30T10:00:00+00:00",),
        finished="2026-11-30T10:10:00+00:00",
        kvlab_version="0.1.0",
    )


def shown(value: Sweep, width: int) -> str:
    out = io.StringIO()
    terminal.show(terminal_sweep.sweep(value), Console(file=out, width=width))
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_verdict_stands_first_and_no_number_is_cut(width: int) -> None:
    value = swept()
    text = shown(value, width)
    words = " ".join(text.split())
    assert words.startswith("Safe load: 8 requests in flight meet e2el:250 for 95 % of the requests; 9 do not.")
    for one in value.points:
        assert one.output_throughput is not None
        assert f"{one.output_throughput.value:,.4g}" in words
    assert "knee at" in words
    assert "alone:" in words
    assert "shared:" in words


def test_it_says_when_it_abstains() -> None:
    loose, tight, none = swept(limit="e2el:90000"), swept(limit="e2el:20"), swept(limit="")
    assert loose.verdict.code == tight.verdict.code == "not_bracketed"
    assert "throughput no longer rises and 16 requests in flight" in shown(loose, 160)
    assert "the lowest load, 1 request in flight, already fails" in shown(tight, 160)
    assert tight.cost is not None
    assert (tight.cost.at, tight.cost.ways) == (None, ())
    assert "there is no operating point" in shown(tight, 160)
    assert none.verdict.code == "knee_found"
    assert none.cost is not None
    assert none.cost.at == 4
    assert "goodput" not in shown(none, 160)


def test_every_chart_says_in_words_what_it_shows() -> None:
    found = {drawing.name: drawing for drawing in drawings(swept("rate", "ttft:150"))}
    assert list(found) == [f"sweep-{name}" for name in ("ttft", "tpot", "e2el", "throughput", "goodput", "cost")]
    for drawing in found.values():
        assert drawing.svg().startswith("<svg")
        assert "meets" in drawing.text
    assert found["sweep-ttft"].png().startswith(b"\x89PNG")
    assert "objective, 150 ms" in found["sweep-ttft"].text


def test_the_page_is_whole_and_harmless() -> None:
    text = page(swept(model="<script>alert(1)</script>\u202e"))
    assert "<script" not in text
    assert "\u202e" not in text
    assert text.count("<svg") == 6
    assert "default-src 'none'" in text
    assert "http://127.0.0.1:8000" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("http://127.0.0.1:9 --slo tfft:5", "did you mean ttft"),
        ("http://127.0.0.1:9 --slo ttft:500 --num-prompts 20", "cannot show"),
        ("http://127.0.0.1:9 --most-prompts 10000001", "at most 10,000,000"),
        ("http://127.0.0.1:9 --points 1,x", "write 1,2,4,8"),
        ("http://127.0.0.1:9 --points 1.5", "not a whole number"),
        ("http://127.0.0.1:9 --from 9 --to 3", "--from 9 is above --to 3"),
        ("http://127.0.0.1:9 --kv-dtype fp8", "is as it was started"),
        ("http://127.0.0.1:9 --target 95", "0.95 is 95 %"),
        ("http://127.0.0.1:9 --plan nowhere.json", "no plan at"),
        ("http://127.0.0.1:9 --over load", "invalid choice"),
        ("127.0.0.1:9", "write http://127.0.0.1:9"),
        ("http://127.0.0.1:9", "no server at"),
        ("model.gguf --plan plan.json", "--plan is for a running server"),
        ("model.gguf --insecure", "--insecure are for a running https server"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *words.split()]) == 2
    complaint = capsys.readouterr().err.strip().splitlines()[-1]
    assert complaint.startswith("kvlab: ")
    assert said in complaint


def test_every_option_of_the_sweep_is_explained() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    load_verb("sweep").arguments(parser)
    for action in parser._actions:
        assert len((action.help or "").partition("(default")[0].split()) > 1, action.option_strings


def test_the_help_names_every_option_of_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sweep", "--help"])
    text = capsys.readouterr().out
    for option in (
        "--over",
        "--from",
        "--to",
        "--points",
        "--slo",
        "--target",
        "--price-per-hour",
        "--lab",
        "--report",
    ):
        assert option in text
