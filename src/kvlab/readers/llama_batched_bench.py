"""`llama-batched-bench --output-format jsonl`: a row for each number of sequences decoded together (b11434).

No requests and no server: t_pp is the whole batch's prompt, not a request's TTFT, and speed_tg the sum over sequences.
"""

from __future__ import annotations

from pathlib import Path

from kvlab.core.result import Document, Own, Reader, Result
from kvlab.readers._fields import number, said, stated

_TEST = ("pp", "tg", "pl")
_RATES = {
    "speed_pp": "llama-batched-bench's rate of reading all prompts of a batch",
    "speed_tg": "llama-batched-bench's rate of generating, all sequences together",
    "speed": "llama-batched-bench's tokens of prompts and answers over the whole time",
}
_SECONDS = {
    "t_pp": "llama-batched-bench's time to read all prompts of a batch",
    "t_tg": "llama-batched-bench's time to generate all answers of a batch",
}


def _recognises(document: Document) -> bool:
    return {"n_kv", "speed_pp", "speed_tg", "pl"} <= document.keys()


def _label(document: Document) -> str:
    return said(**{name: document.get(name) for name in _TEST})


def _read(document: Document, path: Path) -> Result:
    own = {}
    for name, means in (_RATES | _SECONDS).items():
        value = number(document, name, path)
        if value is not None:
            rate = name in _RATES
            own[name] = Own(value if rate else value * 1000, "tokens/s" if rate else "ms", means, higher_is_better=rate)
    return Result(
        format="llama-batched-bench",
        metrics={},
        load=stated({name: number(document, name, path) for name in _TEST}),
        own=own,
    )


LLAMA_BATCHED = Reader(
    name="llama-batched-bench", title="llama-batched-bench", recognises=_recognises, read=_read, label=_label
)
