from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.errors import BadInput
from kvlab.core.exposition import Sample, samples


def test_the_example_of_the_format_description() -> None:
    """Lines of https://prometheus.io/docs/instrumenting/exposition_formats/, "Text format example"."""
    text = (
        "# HELP http_requests_total The total number of HTTP requests.\n"
        "# TYPE http_requests_total counter\n"
        'http_requests_total{method="post",code="200"} 1027 1395066363000\n'
        'msdos_file_access_time_seconds{path="C:\\\\DIR\\\\FILE.TXT",error="Cannot find file:\\n\\"FILE.TXT\\""} '
        "1.458255915e9\n"
        "metric_without_timestamp_and_labels 12.47\n"
        'something_weird{problem="division by zero"} +Inf -3982045\n'
        'http_request_duration_seconds_bucket{le="0.05"} 24054\n'
    )
    found = samples(text)
    assert found[0] == Sample("http_requests_total", {"method": "post", "code": "200"}, 1027.0)
    assert found[1].labels == {"path": "C:\\DIR\\FILE.TXT", "error": 'Cannot find file:\n"FILE.TXT"'}
    assert found[2] == Sample("metric_without_timestamp_and_labels", {}, 12.47)
    assert found[3].value == math.inf


@pytest.mark.parametrize("word", ["NaN", "nan", "-nan", "-nan(ind)"])
def test_not_a_number_in_every_spelling(word: str) -> None:
    assert math.isnan(samples(f"llamacpp:n_busy_slots_per_decode {word}\n")[0].value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "<!doctype html><html><body>Not Found</body></html>",
        '{"error": "not found"}',
        'up{job="a"',
        'up{job="a"} ',
        'up{job="a',
        "up",
        "up 1,5\n",
        "9lives 1\n",
    ],
)
def test_what_is_not_the_format_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        samples(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("page", ["a 5\nb 37", "a 5\nb 37648 # {} 1", 'a 5\nb{le="1"} 3 16', "a 5"])
def test_a_page_without_a_line_feed_at_its_end_was_cut(page: str) -> None:
    """The format: "The last line must end with a line feed character"."""
    with pytest.raises(BadInput, match="middle of a line"):
        samples(page)
    assert samples(page + "\n")
    assert samples(page + "\n# EOF")


_names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", fullmatch=True)
_labels = st.dictionaries(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True),
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])),
    max_size=4,
)


@given(_names, _labels, st.floats(allow_nan=False))
def test_whatever_is_written_is_read_back(name: str, labels: dict[str, str], value: float) -> None:
    escaped = {key: text.replace("\\", "\\\\").replace('"', '\\"') for key, text in labels.items()}
    pairs = ",".join(f'{key}="{text}"' for key, text in escaped.items())
    (read,) = samples(f"{name}{{{pairs}}} {value!r}\n")
    assert read == Sample(name, labels, value)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadInput):
        samples(text)
