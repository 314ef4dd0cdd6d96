"""guidellm's report (benchmarks.json, .yaml): every request of every benchmark, in the order in which they began.

https://github.com/vllm-project/guidellm. The lengths are those that the server counted, where it did, else those of
guidellm's own tokenizer. The report holds the body of each request (`request_args`), so a tokenizer finds what the
prompts share. What did not finish has no lengths, and is left out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.trace import Logged, Reading, TextFormat, Trace, TraceReader, Unusable
from kvlab.traces import _requests
from kvlab.traces._lines import opened
from kvlab.traces._rows import Length, Moment
from kvlab.traces._text import read as read_text

_MOST, _MOST_YAML = 1 << 30, 32 << 20
"""Bytes of a report, which is one document; YAML takes far longer than JSON."""
_LARGE = 1 << 63
_ROW = 16
"""Bytes that a row without its texts needs at least."""
_JSON = re.compile(r'\s*\{.*"(guidellm_version|generative_benchmark)"', re.DOTALL)
_YAML = re.compile(r"benchmarks:\n- \w+:")
_SUMMARY = re.compile(r"Run Info,Run Info,|\s*<!doctype html>.{0,400}<title>GuideLLM ", re.DOTALL | re.IGNORECASE)
_UNFINISHED = {"incomplete": "the run ended before its answer did", "errored": "it failed"}


class _Request(msgspec.Struct):
    request_start_time: Moment | None = None
    start_time: Moment | None = None
    request_end_time: Moment | None = None
    end_time: Moment | None = None
    prompt_tokens: Length | None = None
    output_tokens: Length | None = None
    request_args: Any = None


class _Requests(msgspec.Struct):
    """Each as it stands: one that is damaged costs only itself."""

    successful: list[msgspec.Raw] = []
    incomplete: list[msgspec.Raw] = []
    errored: list[msgspec.Raw] = []


class _Totals(msgspec.Struct):
    successful: int | None = None


class _Metrics(msgspec.Struct):
    request_totals: _Totals | None = None


class _Benchmark(msgspec.Struct):
    requests: _Requests
    metrics: _Metrics | None = None


class _Report(msgspec.Struct):
    benchmarks: list[_Benchmark]


class _Row(NamedTuple):
    """A request that was answered."""

    start: float
    where: str
    request: _Request


def _read(path: Path, reading: Reading) -> Trace:
    report = _report(path)
    rows = _rows(report)
    if not rows:
        raise BadInput(f"{path} is a report of guidellm without a single request; give that of a run that made some")
    trace = read_text(path, TEXT._replace(raw=lambda _: iter(rows)), reading)
    return trace._replace(doubts=(*trace.doubts, *_sampled(report)))


def _sampled(report: _Report) -> list[Doubt]:
    """Whether the report holds only some of the requests (guidellm's sample_size)."""
    held = made = 0
    for benchmark in report.benchmarks:
        count = len(benchmark.requests.successful)
        totals = benchmark.metrics.request_totals if benchmark.metrics is not None else None
        held += count
        made += max(count, totals.successful or 0) if totals is not None else count
    if made == held:
        return []
    text = f"the report holds a sample of {held:,} of {made:,} answered requests: more came, and shared more"
    return [Doubt("sample", text)]


def _rows(report: _Report) -> list[tuple[str, object]]:
    """The answered requests as they began, since the report lists them as they ended; then what cannot be used."""
    found: list[_Row] = []
    others: list[tuple[str, object]] = []
    decoder = msgspec.json.Decoder(_Request)
    for number, benchmark in enumerate(report.benchmarks, 1):
        for at, raw in enumerate(benchmark.requests.successful, 1):
            where = f"benchmark {number}, request {at:,}"
            try:
                request = decoder.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
                others.append((where, Unusable(str(problem)[:120])))
                continue
            start = request.request_start_time if request.request_start_time is not None else request.start_time
            if start is None or request.prompt_tokens is None or request.output_tokens is None:
                others.append((where, Unusable("no start, or no numbers of tokens")))
            else:
                found.append(_Row(start, where, request))
        for word, why in _UNFINISHED.items():
            count = len(getattr(benchmark.requests, word))
            others += [(f"benchmark {number}, {word} request {at:,}", Unusable(why)) for at in range(1, count + 1)]
    found.sort(key=lambda row: row.start)
    return [*((row.where, row) for row in found), *others]


def _requests_of(where: str, row: object) -> list[Logged]:
    assert isinstance(row, _Row)
    request = row.request
    made = Logged(where, time=row.start, prompt_tokens=request.prompt_tokens, answer_tokens=request.output_tokens)
    end = request.request_end_time if request.request_end_time is not None else request.end_time
    made = made._replace(service=None if end is None else end - row.start)
    try:
        found = _requests.requests(where, _requests.parsed(request.request_args))
    except Unusable:
        return [made]
    if len(found) != 1:
        return [made]
    body = found[0]
    return [made._replace(messages=body.messages, tools=body.tools, prompt=body.prompt, ids=body.ids)]


def _report(path: Path) -> _Report:
    try:
        with opened(path) as file:
            content = file.read(_MOST + 1)
        if _SUMMARY.match(content[:4096].decode("utf-8", "replace")):
            raise BadInput(f"{path} is guidellm's summary, which holds no requests; give its benchmarks.json")
        yaml = content.lstrip()[:1] != b"{"
        if len(content) > (_MOST_YAML if yaml else _MOST):
            do = "let guidellm write it as JSON" if yaml else "write guidellm's report with fewer requests"
            raise BadInput(f"{path} is longer than {(_MOST_YAML if yaml else _MOST) >> 20} MiB; {do}")
        return _from_yaml(content) if yaml else _from_json(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError, EOFError, ValueError) as problem:
        text = " ".join(str(problem).split())[:120]
        raise BadInput(f"{path} is no report of guidellm: {text}; if it was cut, copy it again") from None


def _from_json(content: bytes) -> _Report:
    try:
        return msgspec.json.decode(content, type=_Report)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return _picked(json.loads(content), len(content))  # Python itself writes NaN, which is no JSON


def _from_yaml(content: bytes) -> _Report:
    import yaml

    try:
        document = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as problem:
        raise ValueError(str(problem)) from None
    return _picked(document, len(content))


def _picked(document: object, size: int) -> _Report:
    """What is read of a document of `size` bytes: scalars alone. Raises ValueError.

    An alias of YAML can stand for any number of rows, so no more of them are taken than the file has room for.
    """
    left = size
    benchmarks = []
    for one in _list(_part(document, "benchmarks")):
        lists = {}
        for word in _Requests.__struct_fields__:
            rows = _list(_part(_part(one, "requests"), word))
            left -= _ROW * len(rows)
            lists[word] = [_scalars(row) for row in rows] if left >= 0 else []
            left -= sum(len(text) for row in lists[word] for text in row.values() if isinstance(text, str))
            if left < 0:
                raise ValueError("its aliases stand for more than it holds")
        totals = _scalars(_part(_part(one, "metrics"), "request_totals"))
        benchmarks.append({"requests": lists, "metrics": {"request_totals": totals}})
    return msgspec.json.decode(msgspec.json.encode({"benchmarks": benchmarks}), type=_Report)


def _part(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _scalars(value: object) -> dict[str, object]:
    fields = {*_Request.__struct_fields__, *_Totals.__struct_fields__}
    stated = value if isinstance(value, dict) else {}
    return {key: value for key in fields & stated.keys() if (value := _scalar(stated[key])) is not None}


def _scalar(value: object) -> str | float | None:
    """None for what JSON cannot state, and for what is no scalar."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value if isinstance(value, int | float) and -_LARGE < value < _LARGE else None


TEXT = TextFormat("guidellm", lambda path: iter(_rows(_report(path))), _requests_of)


def _recognises(head: str) -> bool:
    return any(form.match(head) is not None for form in (_JSON, _YAML, _SUMMARY))


READER = TraceReader("guidellm's report", _recognises, _read, TEXT)
