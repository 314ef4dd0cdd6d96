"""Passwords and keys in text that is shown: addresses and log lines hold them, and both are repeated."""

from __future__ import annotations

import re
from functools import cache

_HINT = re.compile(
    r"@|://|hf_|sk-|authorization|bearer|(?:keys?|token|passw(?:or)?d|secret)(?:\s|['\"]?\s?[=:])", re.IGNORECASE
)
"""What every kind of secret has. Not "tokens/s", which stands in each line of an engine's statistics."""
_PORT = r"(?!\d{1,5}(?![^\s/?#'\",;)\]]))"
"""Not the port of an address without a user name, after which an @ belongs to the path."""
_SCHEME = r"([a-z][a-z0-9+.-]*:/{1,3})"
_VALUE = r"(?:\[[^\]]*\]?|'[^']*'?|\"[^\"]*\"?|[^\s,;)}\]'\"]+)"
_NAMES = r"(?:[\w-]*[-_])?(?:api[-_]?keys?|(?:hf|hub|access|auth|bearer)[-_]?token|passw(?:or)?d|secret(?:[-_]key)?)"
_NOTHING = r"(?!['\"]?(?:None|null|True|False|expected|\$\{?\w|\*\*\*))"
_KINDS = r"(?:basic|bearer|token)\s"


def masked(text: str) -> str:
    """`text` with *** for the passwords of addresses, and for keys and tokens that are named or have a known form."""
    if _HINT.search(text) is None:
        return text
    for pattern, shown in _patterns():
        text = pattern.sub(shown, text)
    return text


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """What is hidden, and what stands there instead; compiled when the first text has a sign of one."""
    found = (
        # http://user:secret@host; to the last @, for one may stand in the password
        (rf"{_SCHEME}([^\s:/@\[]*:){_PORT}\S*@", r"\1\2***@"),
        (rf"{_SCHEME}[^\s:/@\[]+@", r"\1***@"),
        # a long one whose end, and the @ with it, was left out of a message
        (rf"{_SCHEME}([^\s:/@\[]*:){_PORT}[^\s@]+\.\.\.", r"\1\2***..."),
        # user:secret@host; neither a time (12:30@...), the digest of an image, nor a tier with its bandwidth
        (r"(?<![\w./:*-])(?!\d+:\d)([\w.+%-]+:)(?!//)[^\s@*]+@(?!sha\d+:|[\d.]+[kmgt]i?b/s)(?=[\w.\[-])", r"\1***@"),
        (rf"(\bauthorization['\"]?\s*[:=]\s*['\"]?+(?:{_KINDS}+)?+){_NOTHING}{_VALUE}", r"\1***"),
        (rf"(\bbearer\s+(?!token|auth)){_NOTHING}{_VALUE}", r"\1***"),
        (rf"(?<![\w-])((?:--)?{_NAMES}['\"]?\s?[=:]\s?){_NOTHING}{_VALUE}", r"\1***"),
        # as two words: --api-key KEY
        (rf"(?<!\S)(--(?:{_NAMES}|token)\s+)(?!-|(?:or|and|is|needs|in|to|would|KEY)\b){_NOTHING}{_VALUE}", r"\1***"),
        # tokens of the Hub and keys of OpenAI's form, wherever they stand; hf_overrides is none
        (r"(?<![\w-])((?-i:hf_|sk-))(?=[\w-]*(?-i:[A-Z0-9]))[\w-]{4,}", r"\1***"),
    )
    return tuple((re.compile(pattern, re.IGNORECASE), shown) for pattern, shown in found)
