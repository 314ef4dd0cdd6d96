"""Damaged rows in each of the twelve formats: counted, located, told, and the rest used; nothing but them is exit 2."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import kvlab
from kvlab import traces
from kvlab.cli import main
from kvlab.core.errors import BadInput
from kvlab.core.trace import Reading

IDS = [*range(32)]
LONG = "x" * (17 << 20)
START = 1_790_000_000


class Lines(NamedTuple):
    """A format of one row a line. `row`: the line of a request at that second with that many prompt tokens."""

    row: Callable[[int, int], str]
    head: str = ""
    sorts: bool = False
    """Whether the reader brings the requests into the order of their times."""


def _aiperf(at: int, tokens: int, **more: object) -> str:
    metadata = {"session_num": at, "request_start_ns": (START + at) * 10**9, "benchmark_phase": "profiling"}
    stated = {"input_sequence_length": {"value": tokens, "unit": "tokens"}, "output_sequence_length": {"value": 4}}
    return json.dumps({"metadata": metadata, **(more or {"metrics": stated}), "error": None})


def _aiperf_raw(at: int, tokens: int) -> str:
    usage = {"usage": {"prompt_tokens": tokens, "completion_tokens": 4}}
    packet = {"perf_ns": 7, "packets": [{"name": "data", "value": json.dumps(usage)}]}
    payload = {"model": "m", "messages": [{"role": "user", "content": "Rome?"}]}
    return _aiperf(at, tokens, start_perf_ns=7, payload=payload, responses=[packet])


def _lookup(at: int, tokens: int) -> str:
    known = {"timestamp": START + at, "request_id": f"r{at}", "model_name": "m", "chunk_size": 16, "seq_len": tokens}
    return json.dumps({**known, "dtypes": [], "shapes": [], "chunk_hashes": ["0xab", "0xcd"]})


def _mooncake(at: int, tokens: int) -> str:
    return json.dumps({"timestamp": 1000 * at, "input_length": tokens, "output_length": 4, "hash_ids": [0, at + 1, 99]})


def _openai(at: int, tokens: int) -> str:
    return json.dumps({"ts": START + at, "prompt": "Rome?", "usage": {"prompt_tokens": tokens, "completion_tokens": 4}})


def _range(at: int, tokens: int) -> str:
    return json.dumps({"trace": 1, "t": at, "in": tokens, "out": 4, "r": [[1, 2]]})


def _vllm(at: int, tokens: int) -> str:
    ids = IDS if tokens > 0 else [-1]
    return (
        f"INFO 11-29 21:56:{at:02} [logger.py:43] Request c-{at} details: prompt: None, prompt_token_ids: {ids}, x: 1."
    )


def _gateway(at: int, tokens: int) -> str:
    return f'{START + at},"{{""prompt"": ""Rome?""}}",{tokens},4'


FORMATS = {
    "aiperf": Lines(_aiperf, sorts=True),
    "aiperf-raw": Lines(_aiperf_raw, sorts=True),
    "lmcache": Lines(_lookup),
    "mooncake": Lines(_mooncake),
    "openai": Lines(_openai),
    "ranges": Lines(_range, '{"trace": 1, "header": 1, "block_size": 16}', sorts=True),
    "vllm-log": Lines(_vllm),
    "azure": Lines(
        lambda at, tokens: f"2023-11-16 18:17:{at:02}.5,{tokens},4", "TIMESTAMP,ContextTokens,GeneratedTokens"
    ),
    "burstgpt": Lines(
        lambda at, tokens: f"{at},ChatGPT,{tokens},4,9,API log",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    ),
    "vidur": Lines(lambda at, tokens: f"{tokens},4,{tokens + 4},9", "num_prefill_tokens,num_decode_tokens,total,ratio"),
    "gateway-csv": Lines(_gateway, "time,request,prompt_tokens,completion_tokens"),
}


def written(path: Path, form: Lines, rows: list[str]) -> Path:
    path.write_text("".join(f"{row}\n" for row in ([form.head] if form.head else []) + rows))
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_lines_cost_themselves_alone(tmp_path: Path, name: str) -> None:
    form = FORMATS[name]
    good = [form.row(at, 48) for at in range(4)]
    cut = good[3][: good[3].rindex("4")].rstrip(", ") if name in ("azure", "burstgpt", "vidur") else good[3][:-12]
    long = good[3][:90] + LONG + good[3][90:] if name == "vllm-log" else LONG
    rows = [good[0], cut, good[1], form.row(3, -48), long, good[2]]
    found = kvlab.traffic(written(tmp_path / "a", form, rows))
    first = 1 + bool(form.head)
    assert (found.requests, found.left_out.count) == (3, 3)
    assert [row.where for row in found.left_out.first] == [f"line {first + at}" for at in (1, 3, 4)]
    assert all(row.why and "\n" not in row.why for row in found.left_out.first)
    assert found.input_tokens.max == (32 if name == "vllm-log" else 48)
    told = next(doubt.text for doubt in found.doubts if doubt.key == "rows")
    assert f"3 of 6 rows could not be used; the first: line {first + 1}, " in told


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_but_damaged_lines_is_refused_in_one_line(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    form = FORMATS[name]
    path = written(tmp_path / "a", form, [form.row(at, -48) for at in range(3)])
    assert main(["traffic", str(path), "--format", name.removesuffix("-raw")]) == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.startswith("kvlab: ") for line in told].count(True) == 1
    assert "no row that can be used, of 3" in told[-1]


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "vidur"])
def test_a_clock_that_jumps_is_counted_and_located(tmp_path: Path, name: str) -> None:
    form = FORMATS[name]
    found = kvlab.traffic(written(tmp_path / "a", form, [form.row(at, 48) for at in (0, 5, 9, 3, 12, 13)]))
    assert (found.requests, found.span_seconds) == (6, 13.0)
    told = [doubt.text for doubt in found.doubts if doubt.key == "time"]
    said = "1 rows lie before the row above them in time (the first: request 4 of those used)"
    assert [text.partition(";")[0] for text in told] == ([] if form.sorts else [said])


def report(requests: list[object]) -> str:
    metadata = {"version": 2, "guidellm_version": "0.8.1"}
    return json.dumps({"metadata": metadata, "benchmarks": [{"type_": "b", "requests": {"successful": requests}}]})


def test_damaged_requests_of_a_report_cost_themselves_alone(tmp_path: Path) -> None:
    good = [{"request_start_time": START + at, "prompt_tokens": 48, "output_tokens": 4} for at in (5, 0, 9)]
    bad = [{**good[0], "prompt_tokens": -48}, {**good[0], "output_tokens": "four"}, 7, {"request_start_time": START}]
    (tmp_path / "a.json").write_text(report([good[0], *bad, *good[1:]]))
    found = kvlab.traffic(tmp_path / "a.json")
    assert (found.requests, found.left_out.count, found.span_seconds) == (3, 4, 9.0)
    assert [row.where for row in found.left_out.first] == [f"benchmark 1, request {at}" for at in (2, 3, 4, 5)]
    for name, content in (("all", report(bad)), ("none", report([])), ("cut", report(list(good))[:-40])):
        (tmp_path / name).write_text(content)
        with pytest.raises(BadInput) as caught:
            traces.read(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_damaged_rows_of_a_table_cost_themselves_alone(tmp_path: Path) -> None:
    times = [f"2026-05-01 10:00:{at:02}" for at in (0, 5, 9, 3)] + ["2026-05-01 10:99:99"]
    table = pl.DataFrame({"created_at": times, "prompt_tokens": [48, -48, 48, 48, 48], "output_tokens": [4] * 5})
    table.write_parquet(tmp_path / "a.parquet")
    found = kvlab.traffic(tmp_path / "a.parquet")
    assert (found.requests, found.left_out.count) == (3, 2)
    assert [row.where for row in found.left_out.first] == ["row 2", "row 5"]
    assert "(the first: request 3 of those used)" in next(one.text for one in found.doubts if one.key == "time")
    table.filter(pl.col("prompt_tokens") < 0).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(BadInput, match="no row that can be used, of 1"):
        traces.read(tmp_path / "b.parquet")


PRETTY = '7,"{\n  ""messages"": [\n    {""role"": ""user"", ""content"": ""Rome?""}\n  ]\n}",48,4'
"""A request whose JSON is folded over lines."""


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([_gateway(1, 48), PRETTY]), min_size=1, max_size=4),
    st.text('",x{}', min_size=1, max_size=12),
    st.integers(0, 4),
)
def test_a_quote_that_nothing_closes_takes_no_other_row_with_it(good: list[str], damage: str, at: int) -> None:
    place = min(at, len(good))
    rows = [*good[:place], damage, *good[place:]]
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "a.csv", FORMATS["gateway-csv"], rows)
        found = traces.read(path, "gateway-csv")
    assert (len(found.inputs), found.left_out.count) == (len(good), 1)
    line = 2 + sum(row.count("\n") + 1 for row in good[:place])
    assert found.left_out.first[0].where == f"line {line}"


@pytest.mark.parametrize("name", ["azure", "burstgpt", "vidur"])
def test_a_quote_in_a_table_of_numbers_takes_no_other_row_with_it(tmp_path: Path, name: str) -> None:
    form = FORMATS[name]
    rows = [form.row(0, 48), f'"{form.row(1, 48)}', form.row(2, 48), form.row(3, 48)]
    found = traces.read(written(tmp_path / "a", form, rows))
    assert len(found.inputs) + found.left_out.count == 4
    quoted = [",".join(f'"{cell}"' for cell in row.split(",")) for row in (form.head, *rows[2:])]
    (tmp_path / "b").write_text("\n".join(quoted))
    assert traces.read(tmp_path / "b").inputs.tolist() == [48, 48]


def test_a_clock_that_jumps_ahead_is_told(tmp_path: Path) -> None:
    steady = [_openai(at, 48) for at in range(12)]
    assert not [
        one for one in kvlab.traffic(written(tmp_path / "a", FORMATS["openai"], steady)).doubts if one.key == "time"
    ]
    ahead = [*steady, *(_openai(at + 10_000_000, 48) for at in range(3))]
    found = kvlab.traffic(written(tmp_path / "b", FORMATS["openai"], ahead))
    told = [one.text for one in found.doubts if one.key == "time"]
    assert [text.partition(",")[0] for text in told] == [
        "100 % of the time that the trace spans is one gap between two requests"
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["body", "messages", "prompt"]), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["request_start_time", "prompt_tokens", "output_tokens", "request_args", "start_time"]), VALUES
    ),
    st.booleans(),
    st.integers(0, 400),
)
def test_any_report_is_read_or_refused_in_one_line(request: dict[str, object], as_yaml: bool, cut: int) -> None:
    good = {"request_start_time": 7.0, "prompt_tokens": 48, "output_tokens": 4}
    document = json.loads(report([good, request]))
    text = yaml.dump(document) if as_yaml else json.dumps(document)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a").write_text(text)
        assert 48 in traces.read(Path(folder) / "a", "guidellm", Reading(estimate=True)).inputs
        (Path(folder) / "b").write_text(text[: -1 - cut])
        with suppress(BadInput):
            traces.read(Path(folder) / "b", "guidellm")


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["metadata", "metrics", "payload", "responses", "error"]), VALUES))
def test_any_record_beside_a_good_one_is_read_or_left_out(record: dict[str, object]) -> None:
    for good in (_aiperf(1, 48), _aiperf_raw(1, 48)):
        with tempfile.TemporaryDirectory() as folder:
            path = written(Path(folder) / "a", FORMATS["aiperf"], [good, json.dumps({**json.loads(good), **record})])
            found = traces.read(path)
        assert found.inputs[0] == 48
        assert len(found.inputs) + found.left_out.count == 2


@pytest.mark.parametrize(
    ("odd", "write"),
    [
        *((odd, write) for odd in (float("nan"), float("inf"), 1 << 70) for write in (json.dumps, yaml.dump)),
        ("\ud83d", json.dumps),
    ],
)
def test_what_python_writes_and_json_cannot_costs_one_row(
    tmp_path: Path, odd: object, write: Callable[[object], str]
) -> None:
    good = {"request_start_time": 7.0, "prompt_tokens": 48, "output_tokens": 4}
    document = json.loads(report([good, {**good, "prompt_tokens": odd}]))
    (tmp_path / "a").write_text(write(document))
    found = traces.read(tmp_path / "a", "guidellm")
    assert (found.inputs.tolist(), found.left_out.first[0].where) == ([48], "benchmark 1, request 2")


def test_aliases_of_yaml_that_stand_for_more_than_memory_holds_are_refused(tmp_path: Path) -> None:
    row = "    - {request_start_time: 1.0, prompt_tokens: 48, output_tokens: 4}\n"
    content = f"benchmarks:\n- &one\n  requests:\n    successful:\n{row * 2_000}"
    (tmp_path / "a.yaml").write_text(content + "- *one\n" * 4_000)
    with pytest.raises(BadInput, match="aliases stand for more than it holds"):
        traces.read(tmp_path / "a.yaml", "guidellm")
