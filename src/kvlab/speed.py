"""How fast a plan may run: its work over what its GPUs reach, as ranges."""

from __future__ import annotations

import msgspec

from kvlab.core import roofline
from kvlab.core.engine import Carved, Deployment, Gpu, Planner
from kvlab.core.model import Doubt, Model
from kvlab.core.roofline import Machine, Work
from kvlab.core.speed import Range, Speed
from kvlab.source import Loaded

_WEIGHT_ONLY = ("awq", "awq_marlin", "gptq", "gptq_marlin", "bitsandbytes", "gguf", "auto-round", "hqq")
"""Formats that are unpacked to 16 bits before they are multiplied."""


def expected(loaded: Loaded, planner: Planner, deployment: Deployment, carved: Carved) -> Speed | None:
    """The plan's speed at batch 1 and at the planned concurrency; None without a GPU."""
    gpu, weights = deployment.gpu, deployment.weights
    if gpu is None:
        return None
    read = weights.bytes if weights is not None and weights.kind != "estimated" else None
    work = loaded.work(read) if loaded.work is not None else None
    if work is None:
        text = "the matrices of this model are not known here, so neither are the bytes and operations of a token"
        return Speed(context=carved.context, active_parameters=None, doubts=(Doubt("speed", text),))
    try:
        return _expected(work, gpu, planner, deployment, carved)
    except ArithmeticError:
        text = "the sizes of this model are beyond any that a speed could be told for"
        return Speed(context=carved.context, active_parameters=None, doubts=(Doubt("speed", text),))


def _expected(work: Work, gpu: Gpu, planner: Planner, deployment: Deployment, carved: Carved) -> Speed:
    from kvlab.facts import efficiency

    ask, model = deployment.ask, deployment.model
    gguf = model.weight_format == "gguf"
    bits = _bits(work)
    decoding = efficiency.DECODE_QUANTISED if bits < efficiency.FEW_BITS else efficiency.DECODE
    prefilling = efficiency.PREFILL_GGUF if gguf else efficiency.PREFILL
    rates = _rates(gpu, model, bits)
    machine = Machine(
        tp=ask.tp or 1,
        pp=ask.pp,
        bandwidth=None if gpu.bandwidth is None else Range(gpu.bandwidth * decoding.low, gpu.bandwidth * decoding.high),
        flops=None if rates is None else Range(rates.low * prefilling.low, rates.high * prefilling.high),
        step_seconds=_step_seconds(deployment, work),
    )
    cache = _cache_read(planner, deployment, carved, work)
    paces = (
        roofline.pace(work, machine, cache, carved.context, size, ask.dp)
        for size in _batches(planner, deployment, carved)
    )
    return Speed(
        context=carved.context,
        active_parameters=work.active_parameters,
        decode=tuple(pace for pace in paces if pace is not None),
        prefill=roofline.prefill(work, machine, carved.context),
        compute_bound_from=roofline.compute_bound_from(work, machine, cache, carved.context),
        because=(
            f"decoding reaches {decoding.low:.0%} to {decoding.high:.0%} of the bandwidth: {decoding.source}",
            f"prefill reaches {prefilling.low:.0%} to {prefilling.high:.0%} of the dense rate: {prefilling.source}",
        ),
        doubts=tuple(_doubts(gpu, deployment, work)),
    )


def _step_seconds(deployment: Deployment, work: Work) -> Range:
    """What one stage's step takes beside reading and computing."""
    from kvlab.facts import efficiency

    terms = [efficiency.STEP, *([efficiency.STEP_EXPERTS] if work.experts else [])]
    low, high = (sum(getattr(term, end) for term in terms) for end in ("low", "high"))
    if (deployment.ask.tp or 1) > 1:
        reductions = 2 * deployment.model.layers / deployment.ask.pp
        low, high = low + reductions * efficiency.ALL_REDUCE.low, high + reductions * efficiency.ALL_REDUCE.high
    return Range(low, high)


def _bits(work: Work) -> float:
    """Bits of a stored parameter, all of the weights together."""
    stored = work.dense_bytes + sum(part.layers * part.count * part.bytes for part in work.experts)
    held = work.dense_parameters + sum(part.layers * part.count * part.parameters for part in work.experts)
    return 8 * stored / held if held else 16.0


def _rates(gpu: Gpu, model: Model, bits: float) -> Range | None:
    """The dense rates that kernels for these weights may use: that of 16 bits, and a narrower one where they can."""
    from kvlab.facts.efficiency import FEW_BITS

    plain = gpu.bf16_flops or gpu.fp16_flops
    if plain is None:
        return None
    narrow = None
    # Below 6 bits a parameter the format is one of 4 bits with its scales.
    if model.weight_format not in (None, *_WEIGHT_ONLY):
        narrow = (gpu.fp4_flops or gpu.fp8_flops) if bits < 6 else gpu.fp8_flops if bits < FEW_BITS else None
    return Range(plain, max(plain, narrow or plain))


def _cache_read(planner: Planner, deployment: Deployment, carved: Carved, work: Work) -> float:
    """Bytes of one request's cache that a step reads on one rank; an indexer leaves most of a latent cache unread."""
    layout, ask, dtype = deployment.layout, deployment.ask, carved.kv.dtype
    picked = [part.most for part in work.attention if part.most is not None]
    latent = any(layout.only("latent")) and any(layout.only("indexer"))
    if not latent or not picked:
        return planner.sequence_bytes(deployment.model, layout, dtype, ask, carved.context)
    rows = {kind: tuple(layout.only(kind)) for kind in ("latent", "indexer")}
    scanned = msgspec.structs.replace(layout, rows=rows["indexer"], draft=())
    chosen = msgspec.structs.replace(layout, rows=rows["latent"], draft=())
    few = min(carved.context, max(picked))
    whole = planner.sequence_bytes(deployment.model, layout, dtype, ask, carved.context)
    part = planner.sequence_bytes(deployment.model, chosen, dtype, ask, few)
    return min(whole, part + planner.sequence_bytes(deployment.model, scanned, dtype, ask, carved.context))


def _batches(planner: Planner, deployment: Deployment, carved: Carved) -> list[int]:
    """One request, and as many as are meant or fit on one replica."""
    ask, capacity = deployment.ask, carved.capacity
    fit = int(capacity.max_concurrency) if capacity is not None else 0
    wanted = -(-ask.users // ask.dp) if ask.users is not None else fit
    limit = ask.max_num_seqs or (planner.most_requests(ask, deployment.gpu) if planner.most_requests else fit)
    planned = min(wanted, fit, limit)
    return [1] if planned <= 1 else [1, planned]


def _doubts(gpu: Gpu, deployment: Deployment, work: Work) -> list[Doubt]:
    found = []
    if gpu.bandwidth is None:
        found.append(Doubt("bandwidth", f"the memory bandwidth of {gpu.title} is not known, nor the decoding speed"))
    if gpu.bf16_flops is None and gpu.fp16_flops is None:
        found.append(
            Doubt("flops", f"nobody states a 16-bit matrix rate for {gpu.title}, so prefill has no speed here")
        )
    if (deployment.ask.tp or 1) > 1:
        text = "traffic between GPUs is counted as on NVLink inside one machine; PCIe and networks are slower"
        found.append(Doubt("traffic", text))
    if deployment.ask.dp > 1 and work.experts:
        text = "replicas that share the experts wait for each other: not in the speed"
        found.append(Doubt("data-parallel", text))
    if deployment.ask.arg("speculative-config") is not None:
        found.append(Doubt("speculative-config", "what drafts gain depends on how many are accepted: not in the speed"))
    return found
