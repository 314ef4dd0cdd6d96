"""lm_eval as a program: found, told what to do, watched, and ended with whatever it started."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kvlab import supervised
from kvlab.core.errors import BadInput, EngineFailed, shortened
from kvlab.core.gate import GateOptions
from kvlab.core.masking import masked
from kvlab.load.address import authorization, base_url
from kvlab.load.connections import api_key

NAMES = ("lm_eval", "lm-eval")
MISSING = (
    "lm_eval is not installed: python -m venv lmeval && lmeval/bin/pip install 'lm_eval[api]',"
    " then name it with --lm-eval-bin lmeval/bin/lm_eval"
)
_BAR = re.compile(rb"Requesting API:\s+\d+%\|[^|]*\|\s*(\d+)/(\d+)")
_TAIL_BYTES = 8192


class Target(NamedTuple):
    """The server that is asked, by its address without /v1, and the name of its model."""

    url: str
    model: str
    context: int | None
    temperature: float
    remote_tokenizer: bool
    """Whether the server serves its tokenizer as lm_eval expects it (GET /tokenizer_info)."""


def program(options: GateOptions) -> str | None:
    """The path of lm_eval: the one that was named, or the one on PATH; None when there is none."""
    if options.lm_eval_bin is not None:
        found = shutil.which(options.lm_eval_bin)
        return None if found is None else os.path.abspath(found)
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


def argv(binary: str, options: GateOptions, target: Target, output: Path) -> tuple[str, ...]:
    """The words of the run. Raises BadInput for an address or a model name that its arguments cannot carry.

    No key stands among them: lm_eval reads it from its environment.
    """
    if authorization(target.url) is not None:
        raise BadInput(
            "lm_eval takes addresses on its command line, which every user of the machine can read: give the address"
            " without user name and password"
        )
    # Without the word "run", which releases before 0.4.9 do not know and later ones supply.
    words = [binary, "--model", f"local-{'chat-' if options.lm_eval_chat else ''}completions"]
    words += ["--model_args", ",".join(f"{name}={value}" for name, value in _model_args(options, target).items())]
    words += ["--tasks", ",".join(options.lm_eval), "--output_path", str(output), "--log_samples"]
    if options.lm_eval_include is not None:
        words += ["--include_path", os.path.abspath(options.lm_eval_include)]
    if options.lm_eval_limit is not None:
        words += ["--limit", str(options.lm_eval_limit)]
    if options.lm_eval_chat:
        words += ["--apply_chat_template"]
    if target.temperature:
        words += ["--gen_kwargs", f"temperature={target.temperature:g},do_sample=True"]
    return tuple(words)


def _model_args(options: GateOptions, target: Target) -> dict[str, str]:
    path = "/v1/chat/completions" if options.lm_eval_chat else "/v1/completions"
    found = {
        "base_url": base_url(target.url) + path,
        "model": target.model,
        "num_concurrent": str(options.concurrency),
        "max_retries": "3",
        "timeout": "600",
    }
    if target.context is not None:
        found["max_length"] = str(target.context)
    if options.lm_eval_tokenizer is not None:
        found |= {"tokenizer_backend": "huggingface", "tokenizer": options.lm_eval_tokenizer}
    elif target.remote_tokenizer and not options.lm_eval_chat:
        found["tokenizer_backend"] = "remote"
    else:
        # Without a tokenizer prompts go as text, and only tasks that generate can run.
        found |= {"tokenizer_backend": "None", "tokenized_requests": "False"}
    for name, value in found.items():
        if any(mark in value for mark in ",=\n") or not value:
            raise BadInput(f"{shortened(repr(value))} cannot be handed to lm_eval as its {name}: it splits at , and =")
    return found


def run(words: tuple[str, ...], log: Path, cwd: Path | None, progress: Callable[[int, int], None]) -> None:
    """Runs lm_eval until it is done; what it says goes to `log`. `cwd`: where relative paths of task files start.

    Raises EngineFailed with its last words when it fails. When this is interrupted, all that it started is stopped.
    """
    # An OpenAI key of the user is for OpenAI, not for whatever address is asked.
    env = {**os.environ, "OPENAI_API_KEY": api_key() or "none", "TOKENIZERS_PARALLELISM": "false"}
    try:
        code = supervised.run(words, log, env=env, cwd=cwd, watch=lambda: _tell(log, progress))
    finally:
        _without_key(log)
    if code:
        raise EngineFailed(f"lm_eval failed: {last_words(log)}; its log: {log}")


def _tell(log: Path, progress: Callable[[int, int], None]) -> None:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        bars = _BAR.findall(file.read())
    if bars:
        progress(int(bars[-1][0]), int(bars[-1][1]))


def _without_key(log: Path) -> None:
    """Takes the key out of the log, should the server have repeated it in an error."""
    key, text = (api_key() or "").encode(), log.read_bytes()
    if key and key in text:
        log.write_bytes(text.replace(key, b"***"))


def last_words(log: Path) -> str:
    """The last line of the log that is no progress bar: the error of a traceback. Keys in it are masked."""
    text = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
    lines = [part.strip() for part in re.split(r"[\r\n]+", text) if part.strip() and "it/s]" not in part]
    return shortened(masked(lines[-1]), 300) if lines else "it said nothing"
