"""`guidellm run` (guidellm 0.8; earlier versions say `guidellm benchmark run` and take other options).

It knows no warm-up by requests, and its prompts always ask for answers of the full length.
"""

from __future__ import annotations

from kvlab.core.runner import Runner, Task


def _argv(task: Task) -> tuple[str, ...]:
    route = "/v1/chat/completions" if task.endpoint == "chat" else "/v1/completions"
    profile = (
        f"kind=poisson,rate={task.rate}"
        if task.rate is not None
        else f"kind=concurrent,streams={task.concurrency}"
    )  # fmt: skip
    return (
        "run",
        "--backend", f"kind=openai_http,target={task.url},model={task.model},request_format={route}",
        "--profile", profile,
        "--constraint", f"kind=max_requests,count={task.num_prompts}",
        "--tokenizer", f"kind=huggingface_auto,model={task.tokenizer}",
        "--data", f"kind=synthetic_text,prompt_tokens={task.input_tokens},output_tokens={task.output_tokens}",
        "--seed", f"kind=static,value={task.seed}",
        "--output", "kind=json,path=result.json",
        "--disable-console-interactive",
    )  # fmt: skip


def _refuses(task: Task) -> str | None:
    for name in (task.url, task.model, task.tokenizer):
        if "," in name:
            return f"takes {name} apart at its comma; give a name without one"
    return None if task.ignore_eos else "always asks for full answers: leave out --no-ignore-eos"


GUIDELLM = Runner(
    name="guidellm",
    title="guidellm",
    program="guidellm",
    packages=("guidellm",),
    argv=_argv,
    result="result.json",
    key="GUIDELLM__SPEC__BACKEND__API_KEY",
    refuses=_refuses,
)
