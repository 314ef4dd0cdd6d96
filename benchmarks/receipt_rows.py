"""A row of a table of public logs as a request to kvlab and the numbers that the engine printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from kvlab import source
from kvlab.core.plan import Ask

Row = dict[str, Any]

SAME_SHAPE = {
    r"(.*/)?Qwen3\.[58]-27B.*": "Qwen__Qwen3.5-27B",
    r"Qwen3\.6-35B-A3B NVFP4|unsloth/Qwen3\.6-35B-A3B.*": "Qwen__Qwen3.5-35B-A3B",
    r"moonshotai/Kimi-K2.*": "moonshotai__Kimi-K2.5",
    r"moonshotai/Kimi-K3": "moonshotai__Kimi-K3",
    r"MiniMaxAI/MiniMax-M2\..*": "MiniMaxAI__MiniMax-M2.7",
    r"nvidia/MiniMax-M3-NVFP4": "MiniMaxAI__MiniMax-M3",
    r"zai-org/GLM-5\.3-Flash.*": "zai-org__GLM-5.3-Flash",
    r"zai-org/GLM-5\.2.*": "zai-org__GLM-5.2",
    r"GLM-5\.x NVFP4.*": "nvidia__GLM-5.2-NVFP4",
    r"GLM-5\.x DSA.*": "zai-org__GLM-5-FP8",
    r"GLM-5\.x \(glm_moe_dsa.*": "zai-org__GLM-5.2",
    r"(meta-llama|unsloth)/(Meta-)?Llama-3(\.1)?-8B-Instruct.*": "meta-llama__Llama-3.1-8B-Instruct",
    r"(meta-llama|NousResearch)/Llama-2-7b-hf": "codellama__CodeLlama-7b-hf",
    r"Qwen2\.5-0\.5B.*|Qwen2\.5 \(0\.5B per text\).*": "Qwen__Qwen2.5-0.5B",
    r"Qwen/Qwen2\.5-3B-Instruct": "Qwen__Qwen2.5-3B",
    r"Qwen/Qwen2\.5-7B-Instruct": "Qwen__Qwen2.5-7B-Instruct",
    r"Qwen/Qwen2\.5-32B-Instruct-AWQ": "Qwen__Qwen2.5-32B",
    r"deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": "Qwen__Qwen2.5-14B",
    r"DeepSeek-R1-0528-Qwen3-8B": "Qwen__Qwen3-8B",
    r"Qwen/Qwen3-235B-A22B-FP8": "Qwen__Qwen3-235B-A22B",
    r"deepseek-ai/DeepSeek-V4-Flash": "deepseek-ai__DeepSeek-V4-Flash",
    r"google/gemma-4-26B-A4B-it": "google__gemma-4-26B-A4B",
    r"gpt-oss-20b": "openai__gpt-oss-20b",
}
"""Models whose cache has the shape of a config in hand, by the receipts' own facts or their makers' words."""
BY_FACTS = [({"layers": 40, "full_attention_layers": 10, "kv_heads": 2, "head_dim": 256}, "Qwen__Qwen3.5-35B-A3B")]
"""Shapes that a receipt states in the place of its model's name."""
GPUS = {
    "H100 NVL": "h100-nvl-94gb",
    "GH200": "gh200-96gb",
    "H100": "h100-80gb",
    "H200": "h200-141gb",
    "H20": "h20-96gb",
    "B300": "b300-288gb",
    "B200": "b200-180gb",
    "A100": "a100-80gb",
    "RTX 3090": "rtx3090-24gb",
    "RTX 4090": "rtx4090-24gb",
    "RTX 5090": "rtx5090-32gb",
    "RTX PRO 6000": "rtxpro6000-96gb",
    "GB10": "dgx-spark-128gb",
    "DGX Spark": "dgx-spark-128gb",
    "Intel XPU": "arc-pro-b60-24gb",
}
OTHER_ENGINES = ("Tenstorrent", "vllm-metal", "vllm-ascend", "community")


class Case(NamedTuple):
    """A receipt that counts: what to ask of kvlab, and what the engine printed."""

    config: str
    ask: Ask
    printed: dict[str, float]


def flag(row: Row, *names: str) -> Any:
    """The first of the flags that the receipt states."""
    return next((row["flags"][name] for name in names if row["flags"].get(name) is not None), None)


def version(row: Row) -> str | None:
    """The release, where the receipt names one; nightly builds without a number name none."""
    text = row.get("engine_version") or row["engine"]
    found = re.search(r"(?<![\d.])v?(\d+\.\d+(?:\.\d+)?)", text)
    return found[1] if found and not found[1].startswith("0.1.") and found[1] != "0.1" else None


def pool(row: Row) -> float | None:
    """GiB of cache on one GPU."""
    reported, log = row.get("reported") or {}, row.get("log") or {}
    if log.get("cpu_blocks") and "OffloadingConnector 8 GiB" in str(row["flags"].get("cpu_offload")):
        return 8.0  # the offload's blocks are as large as the cache's, and its memory is stated
    stated = (
        *(row.get("available_kv_gib"), row["flags"].get("kv_cache_memory_gib")),
        *(reported.get(key) for key in ("kv_pool_gib", "available_kv_gib", "available_kv_gib_per_gpu", "kv_cache_gib")),
        *(reported.get("kv_pool_gib_per_rank"),),
    )
    found = next((value for value in stated if isinstance(value, int | float) and value > 0), None)
    if found is not None:
        return found
    parts = [log.get(f"{part}_gb") for part in ("k_size", "v_size", "kv_size", "conv_state", "ssm_state")]
    return sum(part for part in parts if part) or None  # SGLang states each


def printed(row: Row) -> dict[str, float]:
    """What the engine printed of the pool, under kvlab's names."""
    reported, log = row.get("reported") or {}, row.get("log") or {}
    together = row.get("concurrency") or {}
    offload = bool(row["flags"].get("cpu_offload"))
    if log.get("kv"):  # llama.cpp states each of its caches
        return {f"{kept['role']} MiB": kept["size_mib"] for kept in log["kv"] if kept["size_mib"] is not None}
    found = {
        "tokens": None if offload else row.get("kv_tokens") or reported.get("kv_tokens"),
        "max_concurrency": together.get("x") or reported.get("max_concurrency"),
        "num_blocks": log.get("cpu_blocks") if offload else log.get("gpu_blocks") or reported.get("num_gpu_blocks"),
        "request_gib": row.get("error_needed_gib") or reported.get("needed_kv_gib"),
        "longest": row.get("error_est_max_len") or reported.get("estimated_max_model_len"),
    }
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def config_of(row: Row, configs: dict[str, Path]) -> str | None:
    """The config in hand that has the shape of the receipt's model."""
    if row["model"] is None:
        return next((stem for facts, stem in BY_FACTS if row.get("arch_facts") == facts), None)
    named = re.sub(r"[@ (].*", "", row["model"]).replace("/", "__")
    if named in configs:
        return named
    return next((stem for pattern, stem in SAME_SHAPE.items() if re.fullmatch(pattern, row["model"])), None)


def dtype(row: Row, engine: str) -> str | None:
    """The cache's dtype in the engine's words; None leaves it to the checkpoint."""
    text = flag(row, "kv_cache_dtype", "kv_dtype", "cache_dtype", "kv")
    if text is None and engine == "sglang" and re.search("NVFP4| fp8 ", row["model"] or ""):
        text = "fp8_e4m3"  # the checkpoint asks for it, or the receipt says so with the model
    word = re.sub(r"[ (].*", "", text) if text else None
    return {"bf16": "bfloat16", "auto": None}.get(word, word) if word else None


def gpu_of(row: Row) -> str | None:
    """The GPU by kvlab's name; None when the receipt names none."""
    said = (row.get("gpu"), flag(row, "gpu", "hardware"), row.get("gpu_inferred"), row.get("model"), row["engine"])
    text = " ".join(str(value) for value in said)
    return next((name for words, name in GPUS.items() if words in text), None)


def case(row: Row, configs: dict[str, Path]) -> Case | str:
    """The receipt as a request, or why it does not count."""
    if row.get("kind", "engine_log") != "engine_log":
        return f"is about {row['kind'].replace('_', ' ')}"
    engine = engine_of(row)
    if engine is None:
        return "an engine, a platform or a fork that kvlab does not plan"
    said, given = printed(row), pool(row)
    config = config_of(row, configs)
    if row.get("model") is None and config is None:
        return "its model is not stated"
    if not said:
        return "nothing printed follows from the pool"
    if given is None and engine != "llamacpp" and set(said) != {"request_gib"}:
        return "its pool is not stated"
    if config is None or config not in configs:
        return "the config of its model is not in hand"
    drafted = flag(row, "speculative", "spec")
    if drafted is not None and not re.fullmatch(r"mtp x\d+", drafted):
        return "drafts with a model of its own, or with layers whose number it does not state"
    if "KV dtype not visible" in (row.get("notes") or ""):
        return "its cache dtype is not stated"
    stored = dtype(row, engine)
    unnamed = gpu_of(row) is None and engine == "vllm"
    if unnamed and (stored or "").startswith("fp8") and sparse(configs[config]):
        return "its GPU is not stated, and with it how sparse attention stores fp8"
    tp = flag(row, "tensor_parallel_size", "tp")
    if tp is None and row.get("gpu_count", 1) != 1 and engine == "vllm" and not copied(configs[config]):
        return "how many GPUs share its cache is not stated"
    together = row.get("concurrency") or {}
    ask = Ask(
        engine=engine,
        engine_version=version(row) if engine == "vllm" else None,
        gpu=None if engine == "llamacpp" else gpu_of(row),
        tp=tp,
        dcp=flag(row, "decode_context_parallel_size", "dcp") or 1,
        kv_dtype=stored,
        context=flag(row, "max_model_len", "ctx") or together.get("len"),
        pool_gib=given or (None if engine == "llamacpp" else 1.0),
        parallel=flag(row, "parallel"),
        ubatch=flag(row, "ubatch"),
        swa_full=bool(flag(row, "swa_full")),
        block_size=flag(row, "block_size"),
        max_num_batched_tokens=flag(row, "max_num_batched_tokens"),
        max_num_seqs=flag(row, "max_num_seqs"),
        prefix_caching=flag(row, "enable_prefix_caching", "prefix_caching"),
        engine_args=arguments(row),
    )
    return Case(config, ask, said)


def copied(config: Path) -> bool:
    """Whether every rank keeps the whole cache: latent attention, and nothing else."""
    return {row.kind for row in source.load(str(config)).layout.rows} <= {"latent", "indexer"}


def sparse(config: Path) -> bool:
    """Whether the model's latent attention has an indexer."""
    return {row.kind for row in source.load(str(config)).layout.rows} >= {"latent", "indexer"}


def arguments(row: Row) -> tuple[tuple[str, str], ...]:
    """Flags of the engine that bear on the cache."""
    found = []
    drafted = re.fullmatch(r"mtp x(\d+)", row["flags"].get("speculative") or "")
    if drafted is not None:
        found.append(("speculative-config", f'{{"method": "mtp", "num_speculative_tokens": {drafted[1]}}}'))
    if row["flags"].get("cpu_offload"):
        found.append(("disable-hybrid-kv-cache-manager", "true"))  # connectors of its time did not know groups
    if row["flags"].get("max_mamba_cache_size"):
        found.append(("max-mamba-cache-size", str(row["flags"]["max_mamba_cache_size"])))
    return tuple(found)


def engine_of(row: Row) -> str | None:
    """kvlab's name of the engine; None when it plans none such."""
    text = f"{row['engine']} {row.get('engine_version')} {row.get('gpu')} {row['flags'].get('hardware')}"
    if any(word in text for word in OTHER_ENGINES):
        return None
    if row["engine"] == "llama.cpp" and row.get("engine_version") is None:  # a version names a fork
        return "llamacpp"
    word = row["engine"].lower()
    return next((name for name in ("vllm", "sglang") if name in word), None)
