"""Reads a page as a browser would: elements, attributes, text, and whether every element is closed in order."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """`elements`: (name, attributes) in order; `texts`: text by the name of the element that holds it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    def names(self) -> set[str]:
        """Every element used."""
        return {name for name, _ in self.elements}

    def ids(self) -> list[str]:
        """Every id, in order."""
        return [value for _, attributes in self.elements if (value := attributes.get("id"))]

    def all_text(self) -> str:
        """All text, white space as in the source."""
        return "".join(text for texts in self.texts.values() for text in texts)


def needs_nothing(page: Page) -> None:
    """Asserts that a page loads nothing and runs nothing."""
    assert not page.names() & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "use"}
    for element, attributes in page.elements:
        assert not [
            key for key in attributes if key.startswith("on") or key in ("src", "srcset", "action", "xlink:href")
        ]
        assert (attributes.get("href") or "#").startswith("#")
        assert element != "meta" or attributes.get("http-equiv") in (None, "Content-Security-Policy")
        # A label of a table's cell is text: it is drawn and never resolved.
        for value in (value for key, value in attributes.items() if key != "data-label"):
            assert re.findall(r"url\((?!#)", value or "") == [] or attributes.get("role") == "img"
    style = "".join(page.texts["style"])
    assert "url(" not in style
    assert "@import" not in style
