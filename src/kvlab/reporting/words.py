"""Numbers and texts as the reports write them, the same on a terminal and on a page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from kvlab.core.check import Check, CheckRow, Reason
from kvlab.core.performance import USELESS
from kvlab.core.plan import EngineId
from kvlab.core.quality import Interval
from kvlab.core.record import PoolPeak
from kvlab.core.remarks import FULL
from kvlab.core.units import counted as counted
from kvlab.core.units import seconds, size
from kvlab.core.vllm_result import LATENCIES

ABSENT: Final = "not seen"
"""What stands where an engine or a tool did not say a number."""

# C0 and C1 controls but tab and newline, marks that reorder or hide text, and halves of surrogate pairs.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ud800-\udfff]")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FLAG = re.compile(r"--?[A-Za-z]")

VERDICTS: Final[Mapping[str, str]] = {
    "fits": "Fits",
    "fits_with_smaller_dtype": "Fits with a smaller cache dtype",
    "does_not_fit": "Does not fit",
    "unknown": "Unknown",
    "better": "Better",
    "worse": "Worse",
    "no_difference_seen": "No difference seen",
    "inconclusive": "Inconclusive",
}
_SCALED: Final = ("bytes", "s", "seconds")
_THROUGHPUTS: Final[Mapping[str, str]] = {
    "request_throughput": "requests/s",
    "output_throughput": "output tokens/s",
    "total_token_throughput": "all tokens/s",
    "max_output_tokens_per_s": "max output tokens/s",
}
_SIGNS: Final[Mapping[str, str]] = {
    "agrees": "=",
    "differs": "!",
    "not seen": "?",
    "better": "+",
    "worse": "-",
    "no difference seen": "=",
    "inconclusive": "?",
}
_CERTAINTIES: Final[Mapping[str, str]] = {
    "exact": "explains it exactly",
    "stated": "the {} says so",
    "possible": "possible",
}


def plain(text: str) -> str:
    """`text` with control and direction marks written out (\\x1b, \\u202e), so that it cannot steer a screen."""
    return _written_out(text.replace("\r\n", "\n"))


def _written_out(text: str) -> str:
    return _HIDDEN.sub(lambda match: _code(ord(match.group())), text)


def _code(point: int) -> str:
    return f"\\x{point:02x}" if point < 0x80 else f"\\u{point:04x}"


def number(value: float | None) -> str:
    """A bare number: thousands separators for whole ones, four significant digits for the rest."""
    if value is None:
        return ABSENT
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def amount(value: float | str | None, unit: str) -> str:
    """A value with its unit: bytes and seconds scaled to read, the rest as the unit says."""
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return plain(value)
    if unit == "bytes":
        return size(value)
    if unit in ("s", "seconds"):
        return seconds(value)
    if unit in ("", "count", "word"):
        return number(value)
    return f"{number(value)}{'' if unit in ('x', '%') else ' '}{plain(unit)}"


def span(low: float, high: float, unit: str) -> str:
    """A range with its unit once: "22.99 to 25.19 GiB", "512 MiB to 1.5 GiB"; counts go without."""
    first, last = (amount(end, unit) if unit in ("bytes", "s", "seconds") else number(end) for end in (low, high))
    figure, _, name = first.partition(" ")
    return f"{figure} to {last}" if name and last.endswith(f" {name}") else f"{first} to {last}"


def share(value: float | None) -> str:
    """A share 0..1 as "87.5 %"."""
    return ABSENT if value is None else f"{value * 100:.1f} %"


def change(value: float | None) -> str:
    """A relative change as "+4.2 %"; a size that rounds to nothing is "0.0 %"."""
    if value is None:
        return ABSENT
    text = f"{value * 100:+,.1f} %"
    return "0.0 %" if text in ("+0.0 %", "-0.0 %") else text


def usable(*changes: float | None) -> bool:
    """Whether relative changes are near enough to be drawn or told as an interval: within ten times either way."""
    return all(value is not None and abs(value) <= USELESS for value in changes)


def bounds(low: float | None, high: float | None) -> str:
    """A 95 % interval of a relative change in percent, "+9.1 to +17.6"; says so when there is none worth telling."""
    if low is None or high is None:
        return "none"
    if not usable(low, high):
        return "no usable interval"
    return f"{change(low).removesuffix(' %')} to {change(high).removesuffix(' %')}"


def share_interval(interval: Interval) -> str:
    """A share with its interval: "87.5 % (75.0 to 95.8)"."""
    return f"{share(interval.value)} ({interval.low * 100:.1f} to {interval.high * 100:.1f})"


def seconds_interval(interval: Interval) -> str:
    """A time in seconds with its interval."""
    return f"{seconds(interval.value)} ({seconds(interval.low)} to {seconds(interval.high)})"


def times_interval(interval: Interval) -> str:
    """A ratio with its interval: "41x (39x to 44x)"."""
    return f"{interval.value:.3g}x ({interval.low:.3g}x to {interval.high:.3g}x)"


def requests(count: float) -> str:
    """Requests at once, "4.10", rounded as engines print them; 0.999 of a request is no request, so that is "0.99"."""
    return f"{min(count, 0.99) if count < 1 else count:,.2f}"


def times(count: float) -> str:
    """How often something fits, "4.10x"."""
    return f"{requests(count)}x"


def signed(verdict: str) -> str:
    """A verdict with a sign before it, so that no meaning hangs on colour."""
    return f"{_SIGNS.get(verdict, ' ')} {verdict}"


def judged(row: CheckRow) -> str:
    """A row's verdict with its sign; one that only lies within the range of an estimate is no exact match."""
    return "~ in range" if row.verdict == "agrees" and row.ranged else signed(row.verdict)


def teller(value: Check) -> str:
    """Whose word the plan was compared with: a log's, or a running server's."""
    return "server" if value.server else "log"


def certainty(reason: Reason, teller: str = "log") -> str:
    """How sure a cause is, in words."""
    return _CERTAINTIES[reason.certainty].format(teller)


def difference(row: CheckRow) -> str:
    """Seen less planned, to the digits in which the seen number is shown; empty for words."""
    if row.difference is None:
        return ""
    shown = amount(row.seen, row.unit).partition(" ")[0]
    whole, _, decimals = shown.partition(".")
    text = amount(row.difference, row.unit)
    if row.unit in _SCALED or not (whole + decimals).replace(",", "").lstrip("-").isdigit():
        return text
    rounded = round(row.difference, len(decimals))
    if not rounded and row.verdict == "differs":
        return text
    figure = f"{rounded:,.{len(decimals)}f}" if rounded else "0"
    return f"{figure}{text.removeprefix(number(row.difference))}"


def follows(row: CheckRow) -> str:
    """The lines of the ledger that a difference follows from; empty when nothing traces it."""
    if not row.follows_from:
        return ""
    first, *others = [label(name) for name in row.follows_from]
    return f"follows from {first}" + (f", and that from {' and '.join(others)}" if others else "")


def why(row: CheckRow) -> str:
    """What a row that does not agree follows from, and why it is likely so."""
    traced = follows(row)
    because = plain(row.likely_because or "")
    if row.verdict != "differs" or not (row.causes or traced):
        return because
    how = "possibly" if row.causes and row.causes[0].certainty == "possible" else "likely"
    told = f"{how} because {because}" if row.causes else because
    return "; ".join(part for part in (traced, told) if part)


def tally(value: Check) -> str:
    """How many rows agree exactly, lie within the range of an estimate, differ and were not seen."""
    counts = {name: sum(row.verdict == name for row in value.rows) for name in ("differs", "not seen")}
    parts = [f"{value.exact:,} exact"]
    if value.within:
        parts.append(f"{value.within:,} within {'its' if value.within == 1 else 'their'} range")
    parts.append(f"{counts['differs']:,} differ")
    return ", ".join((*parts, f"{counts['not seen']:,} not seen") if counts["not seen"] else parts)


def engine(value: EngineId) -> str:
    """An engine with its version; what no line states is said to be so."""
    version = "(its version is not stated)" if value.version == "unknown" else plain(value.version)
    return f"{plain(value.name)} {version}"


def label(name: str) -> str:
    """A name of the record ("cache_full_bytes") as words."""
    return plain(name).replace("_", " ")


def metric(name: str, unit: str) -> str:
    """A metric of vLLM's result file as words: "mean_ttft_ms" in ms is "mean TTFT"."""
    text = label(name).removesuffix(f" {unit}")
    return " ".join(word.upper() if word in LATENCIES else word for word in text.split(" "))


def metric_with_unit(name: str, unit: str) -> str:
    """The same with its unit behind it, "mean TTFT, ms", where `bare` leaves it out; a throughput is named by it."""
    text = metric(name, unit)
    if name in _THROUGHPUTS:
        return _THROUGHPUTS[name]
    return text if unit in _SCALED or not unit or text.endswith(unit) else f"{text}, {plain(unit)}"


def bare(value: float | str | None, unit: str) -> str:
    """A value without its unit, for a column of its kind; sizes and times keep theirs, since it varies."""
    return amount(value, unit if unit in _SCALED else "")


def moment(text: str) -> str:
    """A time of the record (ISO 8601) to read, in UTC: "30 Nov 2026, 04:21:08 UTC"; other text stays as it is."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return plain(text)
    if found.tzinfo is None:
        return plain(text)
    found = found.astimezone(UTC)
    return f"{found.day} {_MONTHS[found.month - 1]} {found:%Y, %H:%M:%S} UTC"


def shell(argv: Iterable[str], env: Mapping[str, str]) -> str:
    """A command to paste into a shell: environment first, then one flag with its values on each line."""
    groups: list[list[str]] = []
    for word in argv:
        if _FLAG.match(word) or not groups:
            groups.append([])
        groups[-1].append(_quote(word))
    lines = [f"{name}={_quote(value)}" for name, value in env.items()] + [" ".join(group) for group in groups]
    return " \\\n  ".join(lines)


def _quote(word: str) -> str:
    # shlex.quote keeps control characters as they are; in $'...' they cannot act on the terminal that shows them.
    if not _HIDDEN.search(word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_written_out(escaped)}'"


def filled(pool: PoolPeak) -> str:
    """Whether the load reached what the pool allows, and by which measure."""
    if pool.filled is None:
        return "the engine does not say whether the load filled it"
    if not pool.filled:
        return "never filled: a larger cache could not show what it is worth"
    peaks = [peak for peak in (pool.a_peak_usage, pool.b_peak_usage) if peak is not None]
    if peaks and max(peaks) < FULL:
        return "every slot was taken and requests waited, with bytes to spare in each slot"
    return "filled by the load"
