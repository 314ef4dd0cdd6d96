"""The GPUs of this machine, their free memory, and the processes that hold the rest.

NVIDIA through NVML, or nvidia-smi where its Python package is not installed; AMD through sysfs, fdinfo and the KFD
driver. A machine without GPUs, without drivers or without the right to look yields fewer facts, never an error.
"""

from __future__ import annotations

from pathlib import Path

from kvlab.detect.amd import amd_gpus
from kvlab.detect.found import GpuProcess, LocalGpu
from kvlab.detect.nvml import load_nvml, nvidia_gpus
from kvlab.detect.smi import smi_gpus

__all__ = ["GpuProcess", "LocalGpu", "amd_gpus", "load_nvml", "local_gpus", "nvidia_gpus", "smi_gpus"]


def local_gpus() -> tuple[LocalGpu, ...]:
    """Every GPU that NVML, nvidia-smi or amdgpu shows; empty when there is none. Never raises."""
    nvml = load_nvml()
    nvidia = nvidia_gpus(nvml) if nvml is not None else smi_gpus()
    return (*nvidia, *amd_gpus(Path("/"), first=len(nvidia)))
