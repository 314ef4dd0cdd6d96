from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.load.sse import EventSplitter


def collect(chunks: list[bytes]) -> list[bytes]:
    splitter = EventSplitter()
    found = [payload for chunk in chunks for payload in splitter.feed(chunk)]
    return found + splitter.close()


# From the examples of WHATWG HTML, 9.2.6, with the events that they dispatch.
@pytest.mark.parametrize(
    ("stream", "payloads"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [b"YHOO\n+2\n10"]),
        (b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n", [b"first event", b"second event"]),
        (b"data:  third event\n\n", [b" third event"]),
        (b"data\n\ndata\ndata\n\n", [b"", b"\n"]),
        (b"data:test\n\ndata: test\n\n", [b"test", b"test"]),
        (b"event: ping\n\n:keep-alive\n\nretry: 10\n\n", []),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [b"a", b"b", b"c"]),
        (b"data: [DONE]", [b"[DONE]"]),
        (b"", []),
    ],
)
def test_events_of_the_standard(stream: bytes, payloads: list[bytes]) -> None:
    assert collect([stream]) == payloads


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


lines = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.lists(lines, max_size=8), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400), max_size=12))
def test_where_the_network_cuts_makes_no_difference(texts: list[str], newline: str, places: list[int]) -> None:
    stream = "".join(f"data: {text}{newline}{newline}" for text in texts).encode()
    assert collect(cut(stream, places)) == [text.encode() for text in texts]


def test_a_cut_inside_a_character_and_inside_a_line_end() -> None:
    stream = "data: né\r\n\r\ndata: 漢\r\n\r\n".encode()
    assert collect([stream[i : i + 1] for i in range(len(stream))]) == ["né".encode(), "漢".encode()]


def test_an_event_is_handed_out_as_soon_as_it_is_complete() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\n") == []
    assert splitter.feed(b"\ndata: b\n\ndata: c") == [b"a", b"b"]
