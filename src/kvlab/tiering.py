"""Tiers of a plan: the request checked against what the engine has, and the machine's own memory as a ledger."""

from __future__ import annotations

from msgspec.structs import replace

from kvlab import engines
from kvlab.core.engine import Carved, Deployment, Offloading, Tiered
from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.plan import Ask, LedgerLine, computed, short_host
from kvlab.core.units import GIB, size

_MOST_GIB = 1e7
_BESIDE = "and what the engine's own processes take beside it"


def check(ask: Ask) -> None:
    """Raises BadInput for a tier that the engine does not have, and for sizes out of range or without a tier."""
    for name in ("offload_gib", "offload_disk_gib", "host_gib"):
        value = getattr(ask, name)
        if value is not None and not 0 < value < _MOST_GIB:
            raise BadInput(f"--{name.replace('_', '-')} {value:g} must be more than 0 GiB and less than ten million")
    if ask.offload is None:
        for name in ("offload_gib", "offload_disk_gib", "offload_dir"):
            if getattr(ask, name) is not None:
                raise BadInput(f"--{name.replace('_', '-')} sizes a tier that was not asked for; add --offload KIND")
        return
    known, title = engines.offloading(ask.engine), engines.engine(ask.engine).title
    if not known.kinds:
        raise BadInput(f"--offload {ask.offload}: kvlab knows no tier of {title}; leave it out")
    if ask.offload not in known.kinds:
        raise BadInput(f"--offload {ask.offload} is no tier of {title}; it has {_listed(known)}")
    _check_sizes(ask, known, title)


def _check_sizes(ask: Ask, known: Offloading, title: str) -> None:
    if ask.offload_gib is None and ask.offload not in known.unsized:
        raise BadInput(f"--offload {ask.offload} needs a size: give --offload-gib X, host memory for the whole server")
    if ask.offload_disk_gib is not None and ask.offload not in known.disk:
        having = [kind for kind in known.kinds if kind in known.disk]
        other = f"with --offload {' or '.join(having)} only" if having else "at no tier that kvlab knows"
        raise BadInput(f"--offload-disk-gib: {title} has a disk {other}; leave it out")
    if ask.offload_dir is not None and ask.offload_disk_gib is None:
        raise BadInput("--offload-dir is the folder of a disk tier; add --offload-disk-gib X")
    if ask.offload_dir is not None and (not ask.offload_dir.isprintable() or not ask.offload_dir.strip()):
        raise BadInput("--offload-dir must be the name of a folder")
    for name in ("offload_gib", "offload_disk_gib"):
        value = getattr(ask, name)
        if value is not None and value * 1024 < 1:
            raise BadInput(
                f"--{name.replace('_', '-')} {value:g} is less than 1 MiB, too little for a block; give more"
            )


def _listed(known: Offloading) -> str:
    return ", ".join(f"{kind} ({text})" for kind, text in known.kinds.items())


def tiered(deployment: Deployment, carved: Carved, ledger: tuple[LedgerLine, ...]) -> Tiered:
    """The tiers of a deployment, `needs` completed to a ledger of the machine's memory.

    With a doubt where the machine has too little for them. `ledger`: that of the device, which for a CPU is the
    machine's own memory too.
    """
    found = engines.offloading(deployment.ask.engine).tiers(deployment, carved)
    small = next((tier for tier in found.tiers if tier.tokens == 0), None)
    if small is not None and deployment.ask.offload_gib is not None:
        option = "--offload-disk-gib" if small.kind == "disk" else "--offload-gib"
        raise BadInput(f"{option} leaves {size(small.bytes_per_rank)} a rank, less than one block takes; give more")
    lines = _host(deployment, carved, found.needs, ledger)
    short = short_host(lines)
    if short is None:
        return replace(found, needs=lines)
    needed, has = map(size, short)
    text = (
        f"the server takes {needed} of the machine's memory, {_BESIDE}, and it has {has}: lower --offload-gib, or name"
        " a machine with more"
    )
    return replace(found, needs=lines, doubts=(*found.doubts, Doubt("host-gib", text)))


def _host(
    deployment: Deployment, carved: Carved, needs: tuple[LedgerLine, ...], ledger: tuple[LedgerLine, ...]
) -> tuple[LedgerLine, ...]:
    """The machine's own memory line by line; empty when nothing is known to be needed of it."""
    has = deployment.ask.host_gib
    cpu = deployment.gpu if deployment.gpu is not None and deployment.gpu.name == "cpu" else None
    if not needs:
        return ()
    if cpu is not None:
        # Below zero, the pool says what is missing; nobody takes what is left free.
        held = [_taken(line) for line in ledger if line.bytes < 0 and line.name not in ("pool", "left_free")]
        pool = carved.capacity.pool_bytes if carved.capacity is not None else 0
        needs = (*held, computed("pool", pool, "the cache itself"), *needs)
    whole = sum(line.bytes for line in needs)
    lines = [*needs, computed("host_needed", whole, f"the lines above, {_BESIDE}")]
    if has is not None:
        lines += _left(round(has * GIB), whole, "what the server may use of the machine's memory (--host-gib)")
    elif cpu is not None:
        lines += _left(cpu.usable_bytes, whole, f"{cpu.title}: {size(cpu.usable_bytes)}")
    return tuple(lines)


def _taken(line: LedgerLine) -> LedgerLine:
    """A line of the device's ledger as an amount that is needed."""
    return replace(line, bytes=-line.bytes, low=-line.high, high=-line.low)


def _left(memory: int, whole: int, because: str) -> list[LedgerLine]:
    left = computed("host_left", memory - whole, "what that leaves for processes and for reading weights")
    return [computed("host_memory", memory, because), left]
