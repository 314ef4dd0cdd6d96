"""CSV of LMDeploy's benchmark scripts (profile_restful_api.py, profile_pipeline_api.py, profile_throughput.py).

A row is a run: its parameters, then what was measured. Times are in milliseconds here and in seconds in the table that
the scripts print. Only means are kept. ITL is the gap between two steps, which may bring several tokens.
"""

from __future__ import annotations

from pathlib import Path

from kvlab.core.errors import BadInput, shortened
from kvlab.core.result import Document, Own, Reader, Result
from kvlab.readers._fields import number, present, said

_MARKS = {"completed", "total_input_tokens", "total_output_tokens", "output_throughput", "mean_ttft_ms", "mean_itl_ms"}
_SHARED = ("duration", "completed", "total_input_tokens", "total_output_tokens", "request_throughput",
           "output_throughput", "mean_ttft_ms", "mean_tpot_ms")  # fmt: skip
_GAP = "LMDeploy's gap between two steps of the stream, which may bring several tokens"


def _table(document: Document) -> list[list[str]]:
    blocks = document.get("csv")
    return blocks[0] if isinstance(blocks, list) and len(blocks) == 1 else [[]]


def _recognises(document: Document) -> bool:
    return set(_table(document)[0]) >= _MARKS


def _runs(document: Document) -> tuple[Document, ...]:
    head, *rows = _table(document)
    return tuple(dict(zip(head, row, strict=False)) for row in rows if row != head)


def _label(run: Document) -> str:
    return said(**{name: run.get(name) or None for name in ("backend", "bs", "request_rate", "num_prompts")})


def _cell(run: Document, name: str, path: Path) -> float | None:
    text = run.get(name)
    if text in (None, "", "None"):
        return None
    try:
        return number({name: float(str(text))}, name, path)
    except ValueError:
        raise BadInput(f"{path}: {name} is {shortened(repr(text))}, and must be a number; repeat the run") from None


def _read(run: Document, path: Path) -> Result:
    metrics = present({name: _cell(run, name, path) for name in _SHARED})
    metrics |= present({"mean_e2el_ms": _cell(run, "mean_e2e_latency_ms", path)})
    gap = _cell(run, "mean_itl_ms", path)
    load: dict[str, float | str | None] = {}
    for name, column in (("num_prompts", "num_prompts"), ("request_rate", "request_rate"), ("max_concurrency", "bs")):
        value = _cell(run, column, path)
        if value is not None:
            load[name] = "inf" if value == float("inf") else value
    return Result(
        format="lmdeploy",
        metrics=metrics,
        load=load,
        own={} if gap is None else {"itl_ms.mean": Own(gap, "ms", _GAP)},
    )


LMDEPLOY = Reader(name="lmdeploy", title="LMDeploy's CSV", recognises=_recognises, read=_read, runs=_runs, label=_label)
