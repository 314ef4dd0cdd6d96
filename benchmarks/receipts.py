"""Numbers that engines printed in public logs, beside kvlab's for the same model, flags and pool.

    python benchmarks/receipts.py [RECEIPTS]

RECEIPTS holds one log a line (a .jsonl file with its configs in the folder `configs` beside it, or the default, an
extract in tests/golden/receipts). A receipt counts when its model's config is in hand and it states the pool and
something that follows from it: tokens, blocks, requests that run together, or the refusal's GiB and length. It agrees
within half a per cent, the rounding of a pool that is printed with two decimals, and is not claimed where kvlab says
that it does not compute the engine's arithmetic. What does not count is listed with the reason. The exit code is 1 when
fewer than 95 % of the claimed ones agree.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kvlab import api, source
from kvlab.core.errors import KvlabError
from kvlab.core.plan import Ask, Plan
from kvlab.core.units import GIB

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
EXTRACT = GOLDEN / "receipts" / "receipts.jsonl"
TOLERANCE, TARGET = 0.005, 0.95
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
}
OTHER_ENGINES = ("Tenstorrent", "XPU", "vllm-metal", "vllm-ascend", "Intel", "community")
ERAS = ("0.32.0", "0.29.0", "0.28.0", "0.27.0", "0.25.0", "0.19.0", "0.10.0")
"""A release of each set of rules: those that a log may follow which does not state its own."""
EXPLAINED = {
    "p032": "the printed pool is one rank's; the smallest of the four ranks decides the blocks",
}
"""Why a receipt that counts does not agree."""


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
    named = re.sub(r"[@ (].*", "", row["model"]).replace("/", "__")
    if named in configs:
        return named
    return next((stem for pattern, stem in SAME_SHAPE.items() if re.fullmatch(pattern, row["model"])), None)


def dtype(row: Row, engine: str) -> str | None:
    """The cache's dtype in the engine's words; None leaves it to the checkpoint."""
    text = flag(row, "kv_cache_dtype", "kv_dtype", "cache_dtype")
    if text is None and engine == "sglang" and ("NVFP4" in row["model"] or " fp8 " in row["model"]):
        text = "fp8_e4m3"  # the checkpoint asks for it, or the receipt says so with the model
    word = re.sub(r"[ (].*", "", text) if text else None
    return {"bf16": "bfloat16", "auto": None}.get(word, word) if word else None


def gpu_of(row: Row) -> str | None:
    """The GPU by kvlab's name; None when the receipt names none."""
    said = (row.get("gpu"), flag(row, "gpu", "hardware"), row.get("gpu_inferred"), row["model"], row["engine"])
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
    if row.get("model") is None:
        return "its model is not stated"
    if not said:
        return "nothing printed follows from the pool"
    if given is None and set(said) != {"request_gib"}:
        return "its pool is not stated"
    config = config_of(row, configs)
    if config is None or config not in configs:
        return "the config of its model is not in hand"
    if flag(row, "speculative", "spec") is not None:
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
        gpu=gpu_of(row),
        tp=tp or 1,
        dcp=flag(row, "decode_context_parallel_size", "dcp") or 1,
        kv_dtype=stored,
        context=flag(row, "max_model_len") or together.get("len"),
        pool_gib=given or 1.0,
        block_size=flag(row, "block_size"),
        max_num_batched_tokens=flag(row, "max_num_batched_tokens"),
        max_num_seqs=flag(row, "max_num_seqs"),
        prefix_caching=False if flag(row, "enable_prefix_caching", "prefix_caching") is False else None,
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
    word = row["engine"].lower()
    return next((name for name in ("vllm", "sglang") if name in word), None)


def predicted(plan: Plan) -> dict[str, float]:
    """kvlab's numbers under the names of `printed`."""
    capacity = plan.capacity
    found: dict[str, float] = {}
    if capacity is not None:
        found = {
            "tokens": capacity.tokens,
            "max_concurrency": capacity.max_concurrency,
            "num_blocks": capacity.num_blocks,
            "longest": capacity.longest_request_tokens,
        }
    if plan.kv.bytes_per_sequence is not None:
        found["request_gib"] = plan.kv.bytes_per_sequence / GIB
    return found


def rounding(name: str, value: float) -> float:
    """Half of the last printed digit, as a share."""
    return 0.005 / value if name in ("max_concurrency", "request_gib") else 0.0


def judge(found: Case, path: Path) -> tuple[bool | None, str]:
    """Whether all that was printed agrees (None: not claimed), and the numbers side by side.

    A receipt that leaves its release open agrees when it does under the rules of some release.
    """
    results = [(*side_by_side(found, ask, path), words) for ask, words in possible(found.ask)]
    best = next((result for result in results if result[0]), results[0])
    return best[0], best[1] + (best[2] if best[0] else "")


def possible(ask: Ask) -> list[tuple[Ask, str]]:
    """The request under each release that the receipt leaves open, with prefix caching on where it says nothing."""
    if ask.engine != "vllm":
        return [(ask, "")]
    releases = [(ask, "")]
    if ask.engine_version is None:
        releases = [(msgspec.structs.replace(ask, engine_version=era), f" [by {era}]") for era in ERAS]
    cached = [
        (msgspec.structs.replace(one, prefix_caching=True), f"{words} [with prefix caching]") for one, words in releases
    ]
    return releases + (cached if ask.prefix_caching is None else [])


def side_by_side(found: Case, ask: Ask, path: Path) -> tuple[bool | None, str]:
    """What was printed beside what one set of rules gives."""
    try:
        plan = api.plan_ask(path, ask)
    except KvlabError as error:
        return False, f"refused: {error}"
    reason = next((doubt.text for doubt in plan.doubts if doubt.key == "capacity"), None)
    if reason is not None:
        return None, reason
    ours, words, agrees = predicted(plan), [], True
    for name, value in found.printed.items():
        off = ours.get(name, 0.0) / value - 1
        agrees &= abs(off) <= TOLERANCE + rounding(name, value)
        text = f"{ours.get(name, 0.0):,.2f}".removesuffix(".00") + f" ({100 * off:+.2f} %)"
        words.append(f"{name} {f'{value:,.2f}'.removesuffix('.00')}: {text}")
    return agrees, "; ".join(words)


def main(argv: list[str]) -> int:
    """Prints a line for each receipt that counts, the share that agrees, and why the others do not count."""
    path = Path(argv[0]) if argv else EXTRACT
    folder = path.parent / "configs" if (path.parent / "configs").is_dir() else GOLDEN / "configs"
    configs = {file.stem: file for file in folder.glob("*.json")}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    results, left_out = Counter[bool | None](), dict[str, list[str]]()
    for row in rows:
        found = case(row, configs)
        if isinstance(found, str):
            left_out.setdefault(found, []).append(row["id"])
            continue
        agrees, text = judge(found, configs[found.config])
        results[agrees] += 1
        mark = {True: "agrees", False: "DIFFERS", None: "not claimed"}[agrees]
        engine = f"{found.ask.engine} {found.ask.engine_version or '?'}"
        print(f"{row['id']:5} {mark:11} {engine:13} {row['model'][:34]:34} {text}")
        if agrees is False:
            print(f"{'':18}{EXPLAINED.get(row['id'], 'not explained')}")
    good, claimed = results[True], results[True] + results[False]
    share = good / claimed if claimed else 0.0
    print(f"{good} of {claimed} claimed receipts agree within {100 * TOLERANCE:g} % ({100 * share:.1f} %);", end=" ")
    print(f"{results[None]} are not claimed")
    for reason, ids in sorted(left_out.items(), key=lambda item: -len(item[1])):
        print(f"not counted: {len(ids):3} {reason}: {', '.join(ids)}")
    return 0 if share >= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
