"""Bytes, tokens and times as people write and read them."""

from __future__ import annotations

from collections.abc import Sequence

from kvlab.core.errors import BadInput, shortened

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
HALF_DIGIT = 0.005
"""Half of the last digit of a number that is printed with two decimals."""
MOST = 1 << 60
"""Above any count, size or time that an engine states, or that was measured."""
_TOKEN_SUFFIX = {"k": KIB, "m": MIB}


def ceil_div(amount: int, unit: int) -> int:
    """Smallest number of `unit`s that holds `amount`."""
    return -(-amount // unit)


def round_up(amount: int, unit: int) -> int:
    """Smallest multiple of `unit` that holds `amount`."""
    return ceil_div(amount, unit) * unit


def parse_tokens(text: str, what: str) -> int:
    """Tokens from "32768", "32,768", "32k" or "1M"; k and M are 1,024 and 1,048,576, as context lengths are quoted."""
    plain = text.strip().replace(",", "").replace("_", "").lower()
    scale = _TOKEN_SUFFIX.get(plain[-1:], 1)
    digits = plain[:-1] if scale > 1 else plain
    try:
        tokens = round(float(digits) * scale)
    except (ValueError, OverflowError):
        raise BadInput(f"{what} {shortened(text)!r} is not a number of tokens; write 32768 or 32k") from None
    if tokens < 1:
        raise BadInput(f"{what} {shortened(text)!r} must be at least 1 token")
    return tokens


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 token", "16 tokens"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(words: Sequence[str]) -> str:
    """Words as a sentence lists them: "a", "a and b", "a, b and c"."""
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]


def gib(amount: float) -> str:
    """Bytes as "4.78 GiB"."""
    return f"{amount / GIB:,.2f} GiB"


def size(amount: float) -> str:
    """Bytes in the largest unit that keeps the number at least 1: "144 KiB", "1.13 GiB"."""
    sign, amount = ("-", -amount) if amount < 0 else ("", amount)
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if amount >= unit:
            return f"{sign}{amount / unit:,.2f}".rstrip("0").rstrip(".") + f" {name}"
    return f"{sign}{amount:,.0f} B"


def seconds(amount: float) -> str:
    """Seconds as "12.3 ms", "1.24 s", "3 min 20 s" or "13 h 45 min"."""
    whole = round(amount)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    if amount >= 60:
        return f"{whole // 60} min {whole % 60} s"
    return f"{amount:.2f} s" if amount >= 1 else f"{amount * 1000:.1f} ms"
