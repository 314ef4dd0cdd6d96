"""The names of two arms say what differs between them: a reader of the report must not have to look at the flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.labels import labels
from kvlab.core.plan import Ask


def named(model: Path, a: Ask, b: Ask) -> tuple[str, str]:
    return labels((a, b), (api.plan_ask(model, a), api.plan_ask(model, b)))


LLAMA = {"engine": "llamacpp", "context": 1024}


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        ({"kv_dtype": "f16"}, {"kv_dtype": "q8_0"}, ("f16", "q8_0")),
        ({}, {"kv_dtype": "q8_0", "parallel": 2}, ("f16, parallel the engine's own", "q8_0, parallel 2")),
        ({}, {"prefix_caching": False}, ("prefix caching the engine's own", "prefix caching off")),
        ({"ubatch": 256}, {"ubatch": 512}, ("ubatch 256", "ubatch 512")),
        (
            {"engine_args": (("threads", "1"),)},
            {"engine_args": (("threads", "2"), ("chat-template-file", "/home/someone/own.jinja"))},
            ("threads 1, chat-template-file the engine's own", "threads 2, chat-template-file own.jinja"),
        ),
        ({"engine_args": (("cache-ram", "0"),)}, {"engine_args": (("cache_ram", "0"),)}, ("f16", "f16")),
        (
            {"engine_args": (("cache-ram", "0"),)},
            {"engine_args": (("cache_ram", "1"),)},
            ("cache-ram 0", "cache-ram 1"),
        ),
        ({"engine_args": (("no-mmap", ""),)}, {}, ("no-mmap given", "no-mmap the engine's own")),
        (
            {"engine_args": (("chat-template", "{{ x }}" * 99),)},
            {},
            (
                "chat-template " + "{{ x }}" * 8 + "{...",
                "chat-template the engine's own",
            ),
        ),
        (
            {"engine_args": (("lora", "/home/someone/a.gguf"), ("lora", "/home/someone/c.gguf"))},
            {"engine_args": (("lora", "/home/someone/b.gguf"), ("lora", "/home/someone/c.gguf"))},
            ("lora a.gguf c.gguf", "lora b.gguf c.gguf"),
        ),
        ({"any_engine": True}, {}, ("f16", "f16")),
        ({}, {}, ("f16", "f16")),
    ],
)
def test_arms_are_named_by_what_differs(
    gemma: Path, a: dict[str, object], b: dict[str, object], names: tuple[str, str]
) -> None:
    asks = [Ask(**LLAMA, **arm) for arm in (a, b)]  # type: ignore[arg-type]  # the fields of Ask by name
    assert named(gemma, asks[0], asks[1]) == names
