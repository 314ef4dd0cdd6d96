"""`llama-bench -o json` and `-o jsonl`: a row for each test (b11434).

No requests and no server: a test processes a prompt (n_gen 0), generates (n_prompt 0) or does both, after a cache that
n_depth tokens fill already. There is no TTFT, and the rate of generation is one sequence's without sampling.
"""

from __future__ import annotations

from pathlib import Path

from kvlab.core.result import Document, Own, Reader, Result
from kvlab.readers._fields import number, numbers, said, stated

_TEST = ("n_prompt", "n_gen", "n_depth")
_MEANS = {
    "pp": "llama-bench's rate of reading a prompt",
    "tg": "llama-bench's rate of generating one sequence",
    "pp+tg": "llama-bench's rate over a prompt and the answer to it together",
}


def _recognises(document: Document) -> bool:
    return {"avg_ts", "stddev_ts", "n_prompt", "n_gen"} <= document.keys()


def _label(document: Document) -> str:
    return said(**{name: document.get(name) for name in (*_TEST, "type_k", "type_v")})


def _read(document: Document, path: Path) -> Result:
    prompt, answer = number(document, "n_prompt", path) or 0, number(document, "n_gen", path) or 0
    kind = "pp+tg" if prompt and answer else "tg" if answer else "pp"
    rate = number(document, "avg_ts", path)
    own = {}
    if rate is not None:
        samples = tuple(numbers(document, "samples_ts", path))
        own[f"{kind}_avg_ts"] = Own(rate, "tokens/s", _MEANS[kind], higher_is_better=True, values=samples)
    return Result(
        format="llama-bench",
        metrics={},
        load=stated({name: number(document, name, path) for name in _TEST}),
        own=own,
    )


LLAMA_BENCH = Reader(name="llama-bench", title="llama-bench", recognises=_recognises, read=_read, label=_label)
