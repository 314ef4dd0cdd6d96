"""Which floating point formats a chip reads in hardware, by its design.

CUDA: bf16 from compute capability 8.0, e4m3 and e5m2 from 8.9, e2m1 from 10.0 (PTX ISA, table of cvt by target,
https://docs.nvidia.com/cuda/parallel-thread-execution/). AMD: https://rocm.docs.amd.com/en/latest/reference/precision-support.html.
Intel: the XMX and MME formats of the product white papers. Apple: not published per chip.
"""

from __future__ import annotations

_CUDA = (((10, 0), "fp4"), ((8, 9), "fp8"), ((8, 0), "bf16"), ((6, 0), "fp16"))
_BY_ARCH = {
    "gfx908": ("fp16", "bf16"),
    "gfx90a": ("fp16", "bf16"),
    "gfx942": ("fp16", "bf16", "fp8"),
    "gfx950": ("fp16", "bf16", "fp8", "fp4"),
    "gfx1030": ("fp16",),
    "gfx1100": ("fp16", "bf16"),
    "gfx1151": ("fp16", "bf16"),
    "gfx1201": ("fp16", "bf16", "fp8"),
    "xe-hpg": ("fp16", "bf16"),
    "xe2-hpg": ("fp16", "bf16"),
    "xe-hpc": ("fp16", "bf16"),
    "gaudi2": ("fp16", "bf16", "fp8"),
    "gaudi3": ("fp16", "bf16", "fp8"),
}


def native_formats(capability: tuple[int, int] | None, arch: str | None) -> tuple[str, ...] | None:
    """The formats among fp16, bf16, fp8, fp4, widest first; None when the design is not known."""
    if capability is not None:
        return tuple(name for since, name in reversed(_CUDA) if capability >= since)
    return _BY_ARCH.get(arch) if arch is not None else None
