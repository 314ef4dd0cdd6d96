"""What the pages of rules, diagnoses, breakers and moves have in common, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def sentence(text: str) -> str:
    """The text as a sentence begins, for it was written in the middle of one; vLLM keeps its small letter."""
    return text if text[1:2].isupper() else text[:1].upper() + text[1:]


def numbered(steps: Iterable[str]) -> str:
    """Steps as a numbered list."""
    return "\n".join(f"{at}. {step}" for at, step in enumerate(steps, 1))


def sources(addresses: Iterable[str]) -> str:
    """Addresses as links, after their word."""
    return f"Source: {', '.join(f'<{address}>' for address in addresses)}\n"
