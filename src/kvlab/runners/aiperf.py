"""`aiperf profile` (AIPerf 0.13): told by a config file, which takes an API key from the environment.

Its own options would put the key on the command line, where other users of the machine see it.
"""

from __future__ import annotations

import json

from kvlab.core.runner import Runner, Task

_KEY = "OPENAI_API_KEY"


def _argv(task: Task) -> tuple[str, ...]:
    return (
        "profile", "-f", "aiperf.yaml", "--output-artifact-dir", "out", "--ui", "none",
        "--no-server-metrics", "--no-gpu-telemetry",
    )  # fmt: skip


def _files(task: Task) -> dict[str, str]:
    endpoint: dict[str, object] = {
        "urls": [task.url],
        "type": task.endpoint,
        "streaming": True,
        "use_legacy_max_tokens": True,  # engines that do not know the newer name ignore it
        "use_server_token_count": True,
        "extra": {"ignore_eos": True} if task.ignore_eos else {},
    }
    if task.keyed:
        endpoint["api_key"] = f"${{{_KEY}}}"
    config = {
        "models": {"items": [{"name": task.model}]},
        "endpoint": endpoint,
        "tokenizer": {"name": task.tokenizer},
        "datasets": [
            {
                "name": "main",
                "type": "synthetic",
                "entries": task.num_prompts,
                "random_seed": task.seed,
                "prompts": {"isl": {"mean": task.input_tokens}, "osl": {"mean": task.output_tokens}},
            }
        ],
        "phases": _phases(task),
    }
    return {"aiperf.yaml": json.dumps({"benchmark": config}, indent=1)}  # JSON is YAML


def _phases(task: Task) -> list[dict[str, object]]:
    shape: dict[str, object] = (
        {"type": "poisson", "rate": task.rate}
        if task.rate is not None
        else {"type": "concurrency", "concurrency": task.concurrency}
    )
    warm_up: dict[str, object] = {
        "name": "warmup",
        "kind": "warmup",
        "type": "concurrency",
        "concurrency": task.warm_up,
        "requests": task.warm_up,
    }
    measured: dict[str, object] = {"name": "profiling", "kind": "profiling", "requests": task.num_prompts, **shape}
    return [warm_up, measured] if task.warm_up else [measured]


AIPERF = Runner(
    name="aiperf",
    title="AIPerf",
    program="aiperf",
    packages=("aiperf",),
    argv=_argv,
    files=_files,
    result="out/profile_export_aiperf.json",
    key=_KEY,
)
