"""A diagnosis, and the pages of the verdicts, on a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from kvlab.core.diagnosis import NOT_ENOUGH, Diagnosis, DiagnosisList, DiagnosisPage, Intervention, Other
from kvlab.reporting import words
from kvlab.reporting.terminal_parts import heading, note

_STYLES = {"healthy": "bold green", "idle": "bold", NOT_ENOUGH: "bold yellow"}
_LONGEST = 100
_MOST_MISSING = 5


def diagnosis(value: Diagnosis) -> RenderableType:
    """The verdict first, then what it rests on, what to do, and why it is no other."""
    style = _STYLES.get(value.verdict, "bold red")
    certain = "" if value.confidence in ("firm", "none") else f" ({value.confidence})"
    parts: list[RenderableType] = [
        Text.assemble((value.verdict, style), f"{certain}: {words.plain(value.title)}"),
        note(_looked(value)),
        *_bulleted(value.because),
    ]
    if value.missing:
        parts += [heading("missing"), *_bulleted(_few(value.missing))]
    parts += [heading("do"), *(part for step in value.interventions for part in _step(step))]
    parts += [heading("why no other"), *map(_other, value.others)]
    return Group(*parts, note(_hint(value)))


def _looked(value: Diagnosis) -> str:
    replicas = f", {value.replicas} engines" if value.replicas > 1 else ""
    span = f" in {value.seconds:,.0f} s" if value.seconds is not None else ""
    looks = f"{value.looks:,} look{'' if value.looks == 1 else 's'}"
    return words.plain(f"{value.engine}{replicas}: {looks}{span}")


def _hint(value: Diagnosis) -> str:
    lines = "every line that it rests on: --json"
    return lines if value.verdict == NOT_ENOUGH else f"kvlab diagnose {value.verdict} explains it; {lines}"


def _few(texts: tuple[str, ...]) -> tuple[str, ...]:
    left = len(texts) - _MOST_MISSING
    return texts if left <= 0 else (*texts[:_MOST_MISSING], f"{left} more (--json)")


def _bulleted(texts: tuple[str, ...]) -> list[RenderableType]:
    return [Padding(Text(f"- {words.plain(text)}"), (0, 0, 0, 2)) for text in texts]


def _step(value: Intervention) -> list[RenderableType]:
    return [
        Padding(Text(f"{value.rank}. {words.plain(value.do)}"), (0, 0, 0, 2)),
        Padding(Text(f"expect: {words.plain(value.expect)}"), (0, 0, 0, 5)),
        Padding(Text(f"verify: {words.plain(value.verify)}"), (0, 0, 0, 5)),
    ]


def _other(value: Other) -> RenderableType:
    because = words.plain(value.because)
    shown = because if len(because) <= _LONGEST else f"{because[: _LONGEST - 3]}..."
    return Padding(Text(f"{value.verdict}: {value.holds}, {shown}"), (0, 0, 0, 2))


def verdict_list(value: DiagnosisList) -> RenderableType:
    """Codes and titles, the one that goes first first."""
    width = max(len(one.code) for one in value.diagnoses)
    rows = (Text.assemble((f"{one.code:<{width}}", "bold"), f"  {one.title}") for one in value.diagnoses)
    last = f"{NOT_ENOUGH} is what is left; kvlab diagnose CODE prints the page of one"
    return Group(*rows, note(f"of several that hold, the first is given; {last}"))


def verdict_page(value: DiagnosisPage) -> RenderableType:
    """One verdict's page."""
    return Group(
        Text.assemble((value.code, "bold"), f": {value.title}"),
        heading("conditions"),
        *_bulleted(value.conditions),
        heading("cause"),
        Padding(Text(value.cause), (0, 0, 0, 2)),
        heading("do"),
        *(
            Padding(Text(f"{at}. {step.do}\n   {step.why}. Expect: {step.expect}. Verify: {step.verify}"), (0, 0, 0, 2))
            for at, step in enumerate(value.do, 1)
        ),
        note("Source: " + " ".join(value.source)),
    )
