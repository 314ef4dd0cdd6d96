"""The report of `trtllm-bench --report_json` (TensorRT-LLM 1.x): an engine driven in its own process, without HTTP.

TTFT and TPOT are there with --streaming only. A request's latency counts from when the engine was given it.
"""

from __future__ import annotations

from pathlib import Path

from kvlab.core.result import Document, Own, Reader, Result
from kvlab.readers._fields import number, present, section, spread, stated

_PLACES = {"median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
_OWN = {
    "output_throughput_per_user_tok_s": ("performance", "output tokens a second of one request, TTFT in it"),
    "output_throughput_per_gpu_tok_s": ("performance", "output throughput / GPUs"),
    "token_output_speed_tok_s": ("streaming_metrics", "output tokens a second of one request after its first token"),
}


def _recognises(document: Document) -> bool:
    return {"engine", "world_info", "performance"} <= document.keys() and "total_latency_ms" in section(
        document, "performance"
    )


def _read(document: Document, path: Path) -> Result:
    performance, streaming = section(document, "performance"), section(document, "streaming_metrics")
    about = section(document, "request_info")
    requests, total = number(about, "num_requests", path), number(performance, "total_latency_ms", path)
    lengths = {f"total_{side}_tokens": number(about, f"avg_{side}_length", path) for side in ("input", "output")}
    metrics = present(
        {
            "duration": None if total is None else total / 1000,
            "completed": requests,
            **{name: None if requests is None or mean is None else mean * requests for name, mean in lengths.items()},
            "request_throughput": number(performance, "request_throughput_req_s", path),
            "output_throughput": number(performance, "system_output_throughput_tok_s", path),
            "total_token_throughput": number(performance, "system_total_throughput_tok_s", path),
            "mean_ttft_ms": number(streaming, "avg_ttft_ms", path),
            "mean_tpot_ms": number(streaming, "avg_tpot_ms", path),
            "mean_e2el_ms": number(performance, "avg_request_latency_ms", path),
        }
    )
    for holder, key, name in (
        (streaming, "ttft_percentiles", "ttft"),
        (streaming, "tpot_percentiles", "tpot"),
        (performance, "request_latency_percentiles_ms", "e2el"),
    ):
        metrics |= spread(section(holder, key), name, path, keys=_PLACES)
    own = {}
    for name, (holder_name, means) in _OWN.items():
        value = number(section(document, holder_name), name, path)
        if value is not None:
            own[name] = Own(value, "tokens/s", f"trtllm-bench's {means}", higher_is_better=True)
    return Result(
        format="trtllm-bench",
        metrics=metrics,
        load=stated({"num_prompts": requests}),
        own=own,
    )


TRTLLM = Reader(name="trtllm-bench", title="trtllm-bench", recognises=_recognises, read=_read)
