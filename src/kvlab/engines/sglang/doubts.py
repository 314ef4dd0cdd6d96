"""What a plan for SGLang assumes, and what could make the engine decide otherwise."""

from __future__ import annotations

from kvlab.core.engine import Deployment
from kvlab.core.model import Doubt
from kvlab.core.releases import newer
from kvlab.core.units import MIB
from kvlab.engines.sglang import ENGINE
from kvlab.engines.sglang.arguments import FRACTION, attention_groups
from kvlab.engines.sglang.defaults import NVIDIA_SMI_MIB
from kvlab.engines.sglang.drafts import FLAG, draft_rows
from kvlab.engines.sglang.pools import WINDOWS_SINCE, Pools, Sizes, has_window_pool, running_limit
from kvlab.engines.sglang.states import KNOWN_SINCE, no_radix, slots_per_request
from kvlab.engines.sglang.versions import Release, parse, release

_UNPLANNED = (
    # Engine arguments that change the pools in ways that are not computed here.
    ("dcp-size", "spreads a request's tokens over ranks"),
    ("attn-cp-size", "changes how attention is split"),
    ("attention-context-parallel-size", "changes how attention is split"),
    ("enable-hisparse", "keeps part of the cache in host memory"),
    ("enable-unified-memory", "puts states and attention in one pool"),
    ("enable-kv-cache-sharding", "shards pages over ranks"),
    ("enable-double-sparsity", "adds a cache of labels"),
    ("enable-linear-replayssm", "adds buffers to each state"),
    ("enable-linear-replayssm-spec", "adds buffers to each state"),
    ("cpu-offload-gb", "moves weights to host memory"),
    ("json-model-override-args", "changes the config that is planned here"),
    ("enable-memory-saver", "changes how memory is held"),
)


def not_known(deployment: Deployment) -> str | None:
    """Why the tokens of a pool are not computed for this deployment; None when they are."""
    ask, layout = deployment.ask, deployment.layout
    version = release(ask)
    if any(layout.only("state")) and version < KNOWN_SINCE:
        return "how SGLang before 0.5.8 sizes recurrent state is not computed; name a newer --engine-version"
    if not any(layout.only("full", "window", "chunked", "latent")):
        return "SGLang's pool of a model of recurrent layers alone is not computed"
    capped = no_radix(ask) and ask.max_num_seqs is not None and version >= (0, 5, 21)
    if capped and has_window_pool(deployment) and any(layout.only("full", "latent")):
        return (
            "without prefix caching and with --max-num-seqs SGLang sizes the window pool by the requests, which is not"
            " computed"
        )
    return None


def doubts(deployment: Deployment, pools: Pools, sizes: Sizes | None, context: int) -> tuple[Doubt, ...]:
    """Every assumption that could change the numbers, with the option that settles it."""
    found = newer(release(deployment.ask), parse(ENGINE.version), ENGINE.title)
    if reason := not_known(deployment):
        found.append(Doubt("capacity", f"{reason}; bytes per token and per sequence hold"))
    found += [*_share_doubts(deployment), *_layout_doubts(deployment), *_argument_doubts(deployment)]
    if sizes is not None:
        found += _limit_doubts(deployment, pools, sizes, context)
    return tuple(found)


def _share_doubts(deployment: Deployment) -> list[Doubt]:
    ask, gpu = deployment.ask, deployment.gpu
    if gpu is None or ask.pool_gib is not None or ask.util is not None or ask.arg(FRACTION) is not None:
        return []
    found = []
    if gpu.name not in NVIDIA_SMI_MIB:
        text = (
            f"SGLang's default follows from what nvidia-smi calls total, which is not known for {gpu.name}; planned"
            f" from {gpu.usable_bytes / MIB:,.0f} MiB, and the command pins that share"
        )
        found.append(Doubt(FRACTION, text))
    found += _vision_doubts(deployment.model.vision, release(ask))
    return found


def _vision_doubts(vision: tuple[int | None, int | None] | None, version: Release) -> list[Doubt]:
    """What a vision tower does to the share, where it is not certain."""
    if vision is None:
        return []
    if version < (0, 4, 10):
        text = (
            "this release takes 5 % (10 % since 0.4.6) off any share for models that take images: the pool is smaller"
        )
        return [Doubt(FRACTION, text)]
    if None in vision:
        text = (
            "SGLang lowers its default by the size of the vision tower; this config does not name its layers and width,"
            " so it counts as a ViT-L/14"
        )
        return [Doubt(FRACTION, text)]
    return []


def _layout_doubts(deployment: Deployment) -> list[Doubt]:
    ask, model, layout, gpu = deployment.ask, deployment.model, deployment.layout, deployment.gpu
    found = []
    if gpu is not None and gpu.vendor not in (None, "nvidia"):
        text = f"page sizes, cache formats and shares were read for NVIDIA GPUs; {gpu.title} may have others"
        found.append(Doubt("gpu", text))
    keeps = {layer for row in layout.rows for layer in row.layers}
    if model.layers > len(keeps) and not any(layout.only("state")):
        text = (
            f"{model.layers - len(keeps)} of {model.layers} layers keep no cache of their own, and SGLang's pool may"
            " have rows for them all the same: then it holds fewer tokens"
        )
        found.append(Doubt("layers", text))
    kinds = {(row.heads, row.k_dim, row.v_dim) for row in layout.only("full", "window", "chunked")}
    if len(kinds) > 1 and not has_window_pool(deployment):
        text = "SGLang's pool gives every layer the same heads; layers that differ from each other may take more"
        found.append(Doubt("heads", text))
    if layout.windowed and not has_window_pool(deployment):
        found.append(_unsplit(deployment))
    if ask.kv_dtype == "nvfp4":
        text = "some attention kernels need a workspace and a second set of scales on top, which is not in this plan"
        found.append(Doubt("kv-cache-dtype", text))
    return found


def _unsplit(deployment: Deployment) -> Doubt:
    """Windows that are planned as if they kept every token."""
    version = release(deployment.ask)
    if version >= WINDOWS_SINCE:
        text = (
            "SGLang is not known to give this architecture a pool for windows: its windowed layers are planned to keep"
            " every token"
        )
    elif version < (0, 5, 1):
        text = "releases before 0.5.1 gave some models a pool for windows, which is not computed here"
    else:
        text = "planned without a pool for windows, which this release gives few models (MiMo-V2-Flash)"
    return Doubt("sliding_window", text)


def _argument_doubts(deployment: Deployment) -> list[Doubt]:
    ask = deployment.ask
    found = [
        Doubt(flag, f"{what}; passed to the launch command, not computed")
        for flag, what in _UNPLANNED
        if ask.arg(flag) is not None
    ]
    if ask.arg(FLAG) is not None and not draft_rows(deployment.layout, ask):
        text = "draft layers keep a cache of their own, which is not in this plan: the pool holds fewer tokens"
        found.append(Doubt(FLAG, text))
    groups = attention_groups(ask)
    if groups > 1:
        text = (
            f"each of the {groups} groups of DP attention serves other requests from a pool of its own: tokens and"
            " requests are those of one group"
        )
        found.append(Doubt("enable-dp-attention", text))
    return found


def _limit_doubts(deployment: Deployment, pools: Pools, sizes: Sizes, context: int) -> list[Doubt]:
    ask, model = deployment.ask, deployment.model
    found = []
    per_request = slots_per_request(model, ask) if pools.slot else 0
    limit = running_limit(sizes, ask, context, per_request)
    wanted = ask.max_num_seqs
    if wanted is not None and limit < wanted // attention_groups(ask):
        what = f"{sizes.slots} state slots at {per_request} a request" if pools.slot else "the tokens of the pool"
        found.append(Doubt("max-running-requests", f"SGLang lowers {wanted:,} to {limit:,} without failing: {what}"))
    if sizes.slots == 0:
        text = "no recurrent state fits: SGLang does not start; raise --util or use more GPUs"
        found.append(Doubt("max-mamba-cache-size", text))
    window = pools.longest_window
    if sizes.window_tokens is not None and window is not None and window + pools.page >= sizes.window_tokens:
        text = (
            f"the window pool of {sizes.window_tokens:,} tokens does not hold one window of {window:,}: SGLang 0.5.20"
            " and later refuse to start, older ones hang; raise --util or --engine-arg swa-full-tokens-ratio"
        )
        found.append(Doubt("swa-full-tokens-ratio", text))
    return found
