"""What a plan for vLLM rests on that the request did not state."""

from __future__ import annotations

from kvlab.core.engine import Deployment
from kvlab.core.layout import Layout
from kvlab.core.model import Doubt
from kvlab.core.releases import newer
from kvlab.engines.vllm import ENGINE
from kvlab.engines.vllm.arguments import argument_doubts
from kvlab.engines.vllm.carving import Carving, hybrid_off, not_paged
from kvlab.engines.vllm.defaults import sequences
from kvlab.engines.vllm.drafts import drafting
from kvlab.engines.vllm.dtypes import compressed, is_sparse, unknown_format, without_bfloat16
from kvlab.engines.vllm.platform import capability, on_cpu
from kvlab.engines.vllm.versions import parse, release

_FALLS_BACK = (0, 10, 0)  # the first release that was seen to leave bfloat16 by itself where the GPU has none
_COMPRESSED = (0, 30, 0)  # rules of older releases for DeepSeek V4's caches are not known


def doubts(deployment: Deployment, plan: Carving) -> tuple[Doubt, ...]:
    """Every assumption that could change the numbers, with the option that settles it."""
    ask, layout, gpu = deployment.ask, deployment.layout, deployment.gpu
    found = []
    if reason := not_paged(layout, plan.dtype, ask):
        found.append(Doubt("capacity", f"{reason}; bytes per token and per sequence hold before paging"))
    if gpu is None and layout.windowed and ask.max_num_batched_tokens is None and not hybrid_off(ask, layout):
        found.append(
            Doubt(
                "max-num-batched-tokens",
                f"no GPU given: {plan.batched} tokens a batch assumed, vLLM's default on 70 to 160 GiB; windows keep"
                " room for it; give --gpu or --max-num-batched-tokens",
            )
        )
    if capability(gpu) is None and not on_cpu(gpu) and ask.block_size is None and _block_depends(layout):
        found.append(
            Doubt(
                "block-size",
                f"compute capability not known: blocks of {plan.block_size} tokens as on 9.0 (H100);"
                " give --gpu or --block-size",
            )
        )
    found += [*_half_doubts(deployment), *_dtype_doubts(deployment, plan), *_state_doubts(deployment, plan)]
    if drafting(deployment.model, layout, ask) is None:
        found.append(
            Doubt("speculative-config", "layers of a draft model keep a cache of their own, which is not in this plan")
        )
    if compressed(layout) and release(ask) < _COMPRESSED:
        unseen = "compressed caches are planned as 0.32 packs them; what releases before 0.30 do was not seen"
        found.append(Doubt("engine-version", unseen))
    found += newer(release(ask), parse(ENGINE.version), ENGINE.title)
    if (text := unknown_format(deployment.model, ask.kv_dtype, release(ask))) is not None:
        found.append(Doubt("kv-cache-dtype", text))
    return (*found, *argument_doubts(ask))


def _block_depends(layout: Layout) -> bool:
    wide = any(row.k_dim > 256 for row in layout.only("full", "window", "chunked"))
    return wide or (any(layout.only("latent")) and not is_sparse(layout))


def _format_depends(layout: Layout, dtype: str) -> bool:
    """Whether another GPU's kernels of sparse MLA would store the same words in rows of another size."""
    return dtype == "fp8_ds_mla" and is_sparse(layout) and not compressed(layout)


def _half_doubts(deployment: Deployment) -> list[Doubt]:
    """What vLLM refuses, or does by itself, on a GPU whose compute capability has no bfloat16."""
    model, ask, cc = deployment.model, deployment.ask, capability(deployment.gpu)
    instead = without_bfloat16(model, cc)
    if cc is None or instead is None:
        return []
    where, named = f"compute capability {cc[0]}.{cc[1]}", ask.arg("dtype")
    if named == "bfloat16":
        text = f"vLLM does not start with --dtype bfloat16 on {where} (it needs 8.0): leave it out, or name {instead}"
        return [Doubt("dtype", text)]
    found = []
    if ask.kv_dtype == "bfloat16":
        text = f"the model is computed in {instead} on {where}, and the cache must be in that: --kv-dtype auto"
        found.append(Doubt("kv-cache-dtype", text))
    if model.dtype != "bfloat16" or named not in (None, "auto"):
        return found
    if release(ask) < _FALLS_BACK:
        text = f"bfloat16 needs compute capability 8.0, this GPU has {cc[0]}.{cc[1]}, and old releases refuse to start"
        found.append(Doubt("dtype", f"{text} with such a checkpoint: add --engine-arg dtype={instead}"))
    elif instead == "float32":
        text = f"on {where} vLLM computes {model.model_type} in float32: its weights take twice the bytes of the file"
        found.append(Doubt("dtype", f"{text}: give them with --weights-gib"))
    return found


def _dtype_doubts(deployment: Deployment, plan: Carving) -> list[Doubt]:
    cc, dtype = capability(deployment.gpu), plan.dtype
    found = []
    if on_cpu(deployment.gpu) and dtype.startswith("fp8"):
        found.append(Doubt("kv-cache-dtype", "an fp8 cache on a CPU needs AVX-512 or AMX; vLLM fails at start without"))
    if compressed(deployment.layout) and dtype != "fp8_ds_mla":
        text = "if vLLM packs the windowed layers too, a block differs by some 0.1 %; --kv-dtype fp8_ds_mla plans that"
        found.append(Doubt("kv-cache-dtype", text))
    if cc is None and not on_cpu(deployment.gpu) and _format_depends(deployment.layout, dtype):
        text = f"compute capability not known: {dtype} as on 9.0 (H100), 10.0 (B200) keeps plain fp8; give --gpu"
        found.append(Doubt("kv-cache-dtype", text))
    if dtype.endswith("_ds_mla") and not is_sparse(deployment.layout):
        found.append(Doubt("kv-cache-dtype", f"{dtype} is a format of sparse MLA; here vLLM counts a byte a value"))
    if dtype.startswith("fp8") and cc is not None and cc < (8, 9) and deployment.layout.windowed:
        found.append(
            Doubt(
                "kv-cache-dtype",
                f"models with attention sinks or bidirectional image tokens run on Triton, which refuses {dtype} on"
                f" compute capability {cc[0]}.{cc[1]}",
            )
        )
    if dtype.startswith("nvfp4") and cc is not None and cc < (9, 0):
        found.append(Doubt("kv-cache-dtype", f"{dtype} was seen to be accepted from compute capability 9.0 on"))
    return found


def _state_doubts(deployment: Deployment, plan: Carving) -> list[Doubt]:
    if not any(deployment.layout.only("state")):
        return []
    found = []
    if on_cpu(deployment.gpu) and deployment.ask.arg("mamba-ssm-cache-dtype") != "float32":
        text = "on CPUs with AVX-512 vLLM may keep the recurrent state in float32, which is larger"
        found.append(Doubt("mamba-ssm-cache-dtype", text))
    pool, wanted = deployment.pool_bytes, sequences(deployment.ask, deployment.gpu)
    blocks = plan.num_blocks(pool) if pool is not None and plan.groups else wanted
    if blocks < wanted:
        said = deployment.ask.max_num_seqs is not None
        advice = "lower it" if said else f"the launch command asks for {blocks:,}"
        text = (
            f"vLLM does not start with --max-num-seqs {wanted:,}{'' if said else ', its default,'} and"
            f" {blocks:,} blocks for recurrent state; {advice}"
        )
        found.append(Doubt("max-num-seqs", text))
    return found
