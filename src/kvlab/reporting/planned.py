"""What a plan's numbers are (computed, or estimated with a range), in the words of a terminal and of a page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kvlab.core.model import Kind
from kvlab.core.plan import MAY_FIT, NOT_HERE, Capacity, LedgerLine, Move, Plan
from kvlab.core.units import size
from kvlab.reporting import words

NOT_HERE_HEAD = "Not on this machine"
# "--kv-dtype fp8 (check the answers first: kvlab quality)"
_FLAG_MOVE = re.compile(r"(--[\w/-]+) (\S+) \((.+)\)")


class Told(NamedTuple):
    """A number in words, where it comes from, and the range of an estimate ("" when there is none)."""

    text: str
    kind: Kind
    between: str

    def line(self) -> str:
        """All of it for a terminal: "4.11 (estimated, 3.28 to 4.40)"."""
        between = f", {self.between}" if self.between else ""
        return f"{self.text} ({self.kind}{between})"


def headline(plan: Plan) -> tuple[str, str]:
    """The verdict's head and the sentence after it: "May fit" where the low end of the range says no.

    "Not on this machine" where the cache fits and the machine's own memory is too small.
    """
    code, text = plan.verdict.code, plan.verdict.text
    if code == "fits" and text.startswith(NOT_HERE):
        return NOT_HERE_HEAD, text.removeprefix(NOT_HERE)
    if code == "fits" and text.startswith(MAY_FIT):
        return "May fit", text.removeprefix(MAY_FIT)
    return words.VERDICTS[code], text


def missing(plan: Plan) -> str | None:
    """What weights and overhead take beyond the memory, "none: 62.28 GiB are missing"; None when there is a pool."""
    line = pool_line(plan)
    if line is None or line.bytes > 0:
        return None
    left = f"; {size(line.high)} at the high end of the estimate" if line.high > 0 else ""
    return f"none: {size(-line.bytes)} are missing{left}"


def pool_line(plan: Plan) -> LedgerLine | None:
    """The ledger's line of the pool; None when nothing is known of it."""
    return next((line for line in plan.ledger if line.name == "pool"), None)


def pool(plan: Plan, capacity: Capacity) -> Told:
    """The cache's memory."""
    text, line = size(capacity.pool_bytes), pool_line(plan)
    if asked_for(plan, capacity) and line is not None:
        return Told(f"{text} asked for, of {size(line.bytes)} free", line.kind, between(line))
    if line is None or line.kind != "estimated" or line.bytes != capacity.pool_bytes:
        return Told(text, "computed", "")
    return Told(text, "estimated", between(line))


def blocks(plan: Plan, capacity: Capacity) -> Told:
    """Blocks of the pool and what one holds."""
    text = f"{capacity.num_blocks:,} of {words.counted(capacity.block_size, 'token')}"
    return _told("num_blocks", text, plan, 0)


def asked_for(plan: Plan, capacity: Capacity) -> bool:
    """Whether the caches are as large as was asked for, beside what the memory leaves (llama.cpp, Ollama)."""
    line = pool_line(plan)
    return line is not None and line.bytes != capacity.pool_bytes


def tokens(plan: Plan, capacity: Capacity) -> Told:
    """Tokens in the pool: the number that the engine prints."""
    return _told("tokens", f"{capacity.tokens:,}", plan, 0)


def concurrency(plan: Plan, capacity: Capacity) -> Told:
    """Requests of the planned context at once."""
    if round(capacity.max_concurrency, 2) == 0:
        return Told("none", _told("max_concurrency", "", plan, 2).kind, "")
    asked = " as asked for" if asked_for(plan, capacity) else ""
    return _told("max_concurrency", f"{words.requests(capacity.max_concurrency)}{asked}", plan, 2)


def longest(plan: Plan, capacity: Capacity) -> Told:
    """Tokens of the longest request that runs alone."""
    return _told("longest_request_tokens", words.counted(capacity.longest_request_tokens, "token"), plan, 0)


def between(line: LedgerLine) -> str:
    """The range of a ledger line, "-7 to -1 GiB"; "" when it is exact, and for a pool that is none."""
    if line.name == "pool" and line.bytes <= 0:
        return ""
    return "" if line.low == line.high else words.span(line.low, line.high, "bytes")


def of_alternatives(plan: Plan) -> str:
    """What the capacities with other cache dtypes are: computed, or as good as an estimated pool."""
    return "computed" if plan.capacity_low == plan.capacity_high else _of_pool(plan)


def of_contexts(plan: Plan) -> str:
    """What the table of contexts holds: sizes are computed, concurrency is as good as the pool."""
    if not any(line.concurrency is not None for line in plan.contexts):
        return "Cache of one request (computed)"
    if _of_pool(plan) == "computed":
        return "Cache of one request, and requests at once (computed)"
    asked = plan.capacity is not None and asked_for(plan, plan.capacity)
    what = "how many of them the free memory holds" if asked else "requests at once"
    return f"Cache of one request (computed), and {what} ({_of_pool(plan)})"


def _of_pool(plan: Plan) -> str:
    line = pool_line(plan)
    if line is None or line.kind != "estimated":
        return "computed"
    return f"estimated, for a pool of {between(line)}"


def place(plan: Plan) -> str:
    """Whose memory the ledger divides: a GPU's, one rank's of several, the machine's, or the engine's where no device
    was named.
    """
    ask = plan.ask
    if (ask.gpu or "").strip().lower() == "cpu":
        return "this machine"
    if (ask.tp or 1) * ask.pp > 1:
        return "one GPU rank"
    return "the GPU" if ask.gpu is not None or ask.gpu_gib is not None else "the engine"


def replaceable(plan: Plan) -> str | None:
    """How a measured number takes the place of the guesses in the ledger; None when there are none."""
    guesses = [words.label(line.name) for line in plan.ledger if _is_guess(line)]
    if len(guesses) > 1:
        named = f"{', '.join(guesses[:-1])} and {guesses[-1]}"
        return f"{named} are estimates: a measured --overhead-gib X replaces all of them"
    return f"{guesses[0]} is an estimate: a measured --overhead-gib X replaces it" if guesses else None


def _is_guess(line: LedgerLine) -> bool:
    """What an engine takes beside weights, as far as it is only estimated."""
    return line.bytes < 0 and line.kind == "estimated" and line.name not in ("weights", "left_free")


def moves(found: Iterable[Move]) -> list[str]:
    """Each move with the tokens it buys. Moves that are the same flag with other values share one line."""
    lines: dict[tuple[str, str], list[str]] = {}
    for move in found:
        text = words.plain(move.text)
        gain = "" if move.gain_tokens is None else f" ({move.gain_tokens:+,} tokens)"
        match = _FLAG_MOVE.fullmatch(text)
        flag, value, remark = match.groups() if match else (text, "", "")
        lines.setdefault((flag, remark), []).append(f"{value}{gain}" if match else gain)
    return [_move(flag, remark, values) for (flag, remark), values in lines.items()]


def _move(flag: str, remark: str, values: list[str]) -> str:
    joined = " or ".join(values)
    return f"{flag} {joined}; {remark}" if remark else f"{flag}{joined}"


def _told(name: str, text: str, plan: Plan, digits: int) -> Told:
    """A number of the capacity with its values at both ends of the pool's range."""
    low, high = (getattr(end, name, None) for end in (plan.capacity_low, plan.capacity_high))
    if low is None or high is None or low == high:
        return Told(text, "computed", "")
    return Told(text, "estimated", f"{low:,.{digits}f} to {high:,.{digits}f}")
