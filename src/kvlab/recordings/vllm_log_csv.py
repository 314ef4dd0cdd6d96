"""The numbers of vLLM V0's log lines every half second, as BurstGPT's tests kept them.

Cache use is in per cent. https://github.com/HPMLL/BurstGPT
"""

from __future__ import annotations

from kvlab.core.diagnosis import Look
from kvlab.recordings import Format
from kvlab.recordings._tables import Table, looks

_HEAD = "timestamp,prompt_throughput,generation_throughput,num_running,"
_TABLE = Table(
    engine="vllm",
    time="timestamp",
    words={"num_running": ("running", 1), "num_pending": ("waiting", 1), "gpu_kvcache_usage": ("kv_used_ratio", 0.01)},
)


def _read(text: str, path: str, seconds: float | None) -> tuple[Look, ...]:
    return looks(_TABLE, text, path, seconds)


FORMAT = Format(title="CSV of vLLM's log lines", recognises=lambda line: line.startswith(_HEAD), read=_read)
