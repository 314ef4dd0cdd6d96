"""The engine's counters reconciled with what was sent and with what the answers' usage states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvlab.core.measure import RequestRow
from kvlab.core.prefix import CounterRow, Told
from kvlab.sharing.line import COUNTERS, HITS, Account


def reconciled(accounts: Sequence[Account], block_size: int | None = None) -> tuple[CounterRow, ...]:
    """A row for each part and counter. `block_size` is what the engine states: it explains counts in blocks."""
    return tuple(_row(account, word, block_size) for account in accounts for word in COUNTERS if account.rows)


def _row(account: Account, counter: str, block_size: int | None) -> CounterRow:
    answered = [row for row in account.rows if row.error is None]
    sent = _sum(row.cached_tokens if counter == HITS else row.prompt_tokens for row in answered)
    counted = account.counted(counter)
    failed = len(account.rows) - len(answered)
    if counted is None or sent is None:
        return _build(account, counter, (sent, counted), ("not seen", _unseen(sent, counted, counter)))
    if counted == sent:
        because = "to the token" + (f", though {failed} requests failed" if failed else "")
        return _build(account, counter, (sent, counted), ("agrees", because))
    why = _why(account, counter, (sent, counted), block_size)
    return _build(account, counter, (sent, counted), ("differs", why))


def _build(account: Account, counter: str, pair: tuple[int | None, int | None], judged: tuple[Told, str]) -> CounterRow:
    sent, counted = pair
    return CounterRow(
        part=account.part,
        counter=counter,
        sent=sent,
        counted=counted,
        difference=None if sent is None or counted is None else counted - sent,
        requests=len(account.rows),
        failed=sum(row.error is not None for row in account.rows),
        verdict=judged[0],
        because=judged[1],
    )


def _sum(tokens: Iterable[int | None]) -> int | None:
    """The sum; None when one is not stated."""
    values = list(tokens)
    told = [value for value in values if value is not None]
    return sum(told) if told and len(told) == len(values) else None


def _unseen(sent: int | None, counted: int | None, counter: str) -> str:
    lacks = []
    if counted is None:
        lacks.append("the engine's metrics do not have this counter, or were not read")
    if sent is None:
        lacks.append(
            "the answers' usage does not state cached tokens"
            if counter == HITS
            else "usage does not state prompt tokens"
        )
    return "; ".join(lacks)


def _why(account: Account, counter: str, pair: tuple[int, int], block_size: int | None) -> str:
    """The likeliest reason for a difference, from the other counters; said as likely where nothing proves it."""
    sent, counted = pair
    answered = [row for row in account.rows if row.error is None]
    ended = account.counted("requests_total")
    if ended is not None and ended > len(account.rows):
        return f"other traffic: {ended:,} requests ended on the server, {len(account.rows):,} of them these"
    if counter != HITS and counted == len(answered):
        return "the counter counts requests, not tokens"
    if block_size is not None and block_size > 1 and counted * block_size == _floored(answered, counter, block_size):
        return f"the counter counts blocks of {block_size} tokens"
    if counter == HITS and block_size is not None and abs(counted - sent) < len(answered) * block_size:
        return f"less than a block of {block_size} tokens a request: likely rounding to whole blocks on one side"
    if failed := len(account.rows) - len(answered):
        return f"likely the {failed} failed requests, whose prompts usage does not state"
    if counted > sent:
        if account.counted("preemptions_total"):
            return "likely preempted requests that were looked up again, or other traffic"
        return "likely other traffic between the two scrapes"
    return "likely requests that the engine does not look up, or a scrape older than the last answer"


def _floored(rows: Sequence[RequestRow], counter: str, block_size: int) -> int:
    tokens = (row.cached_tokens if counter == HITS else row.prompt_tokens for row in rows)
    return sum((count or 0) // block_size * block_size for count in tokens)
