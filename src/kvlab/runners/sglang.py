"""SGLang's benchmark client, which is a module: a Python with SGLang installed runs it (run here with 0.5.23).

Its path was sglang.bench_serving; sglang.benchmark.serving is the newer one.
"""

from __future__ import annotations

from kvlab.core.runner import Runner, Task


def _argv(task: Task) -> tuple[str, ...]:
    shape = (
        ("--request-rate", str(task.rate))
        if task.rate is not None
        else ("--max-concurrency", str(task.concurrency))
    )  # fmt: skip
    return (
        "--backend", "sglang-oai-chat" if task.endpoint == "chat" else "sglang-oai",
        "--base-url", task.url,
        "--model", task.model,
        "--tokenizer", task.tokenizer,
        # Ids, not words: "random" takes its words from a file that it downloads.
        "--dataset-name", "random-ids",
        "--random-input-len", str(task.input_tokens),
        "--random-output-len", str(task.output_tokens),
        "--random-range-ratio", "1",
        "--num-prompts", str(task.num_prompts),
        *shape,
        "--warmup-requests", str(task.warm_up),
        "--seed", str(task.seed),
        *(() if task.ignore_eos else ("--disable-ignore-eos",)),
        "--output-details", "--output-file", "result.jsonl",
    )  # fmt: skip


SGLANG = Runner(
    name="sglang",
    title="SGLang's benchmark client",
    program="python3",
    modules=("sglang.benchmark.serving", "sglang.bench_serving"),
    packages=("sglang",),
    argv=_argv,
    result="result.jsonl",
)
