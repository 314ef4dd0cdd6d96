"""Local detection, driven by recorded values.

No test machine has a GPU. NVML: names, totals and versions as nvidia-smi prints them for these cards, behind a stand-in
with the calls of pynvml that detection uses. AMD: a tree of files of the shape that the kernel documents (amdgpu's
mem_info_vram_*, Documentation/gpu/drm-usage-stats.rst, KFD's topology), filled with an MI300X's and an RX 7900 XTX's
figures as ROCm prints them. nvidia-smi: rows that eight H200 printed in a public report, and its words for what it
does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kvlab import detect
from kvlab.detect import GpuProcess, amd_gpus, local_gpus, nvidia_gpus, smi_gpus

MIB = 2**20


class Refused(Exception):
    """Stands for pynvml.NVMLError."""


@dataclass
class Memory:
    total: int
    used: int
    free: int


@dataclass
class Process:
    pid: int
    usedGpuMemory: int | None  # noqa: N815


@dataclass
class Card:
    name: str
    memory: Memory | None
    compute: list[Process] = field(default_factory=list)
    graphics: list[Process] | None = field(default_factory=list)


@dataclass
class Recorded:
    """pynvml with recorded answers; None is an answer that NVML refuses."""

    cards: list[Card]
    works: bool = True
    cuda: int | None = 13000
    NVMLError: type[Exception] = Refused
    open: int = 0

    def _or_refuse(self, answer: Any) -> Any:
        if answer is None:
            raise Refused
        return answer

    def nvmlInit(self) -> None:  # noqa: N802
        self._or_refuse(self.works or None)
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.95.05"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: N802
        return int(self._or_refuse(self.cuda))

    def nvmlSystemGetProcessName(self, pid: int) -> str:  # noqa: N802
        return str(self._or_refuse({4242: "VLLM::EngineCore", 77: "/usr/lib/xorg/Xorg"}.get(pid)))

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:  # noqa: N802
        return self.cards[index]

    def nvmlDeviceGetName(self, handle: Card) -> str:  # noqa: N802
        return handle.name

    def nvmlDeviceGetMemoryInfo(self, handle: Card) -> Memory:  # noqa: N802
        return self._or_refuse(handle.memory)  # type: ignore[no-any-return]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Card) -> list[Process]:  # noqa: N802
        return handle.compute

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Card) -> list[Process]:  # noqa: N802
        return self._or_refuse(handle.graphics)  # type: ignore[no-any-return]


def memory(total: int, used: int) -> Memory:
    return Memory(total * MIB, used * MIB, (total - used) * MIB)


def test_an_nvidia_card_and_who_holds_it() -> None:
    busy = [Process(9, 300 * MIB), Process(4242, 60_000 * MIB)]
    nvml = Recorded([Card("NVIDIA H100 80GB HBM3", memory(81559, 60_827), busy, [Process(9, 500 * MIB)])])
    (gpu,) = nvidia_gpus(nvml)
    assert (gpu.index, gpu.vendor, gpu.name, gpu.table_name) == (0, "nvidia", "NVIDIA H100 80GB HBM3", "h100-80gb")
    assert (gpu.total_bytes, gpu.used_bytes, gpu.free_bytes) == (81559 * MIB, 60_827 * MIB, 20_732 * MIB)
    assert (gpu.driver, gpu.runtime) == ("580.95.05", "CUDA 13.0")
    assert gpu.processes == (
        GpuProcess(pid=4242, name="VLLM::EngineCore", bytes=60_000 * MIB),
        GpuProcess(pid=9, name=None, bytes=500 * MIB),
    )
    assert nvml.open == 0


def test_what_nvml_refuses_is_not_stated() -> None:
    cards = [Card("NVIDIA GB10", None, [Process(77, None)], None), Card("NVIDIA Next 1 TB", memory(1_000_000, 0))]
    spark, unknown = nvidia_gpus(Recorded(cards, cuda=None))
    assert spark.table_name == "dgx-spark-128gb"
    assert (spark.total_bytes, spark.free_bytes, spark.runtime) == (None, None, None)
    assert spark.processes == (GpuProcess(pid=77, name="/usr/lib/xorg/Xorg", bytes=None),)
    assert (unknown.index, unknown.table_name) == (1, None)


def test_no_driver_no_gpus() -> None:
    assert nvidia_gpus(Recorded([], works=False)) == ()


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def card(slot: str, device: str, revision: str, total: int, used: int) -> dict[str, str]:
    return {
        "vendor": "0x1002",
        "device": device,
        "revision": revision,
        "uevent": f"DRIVER=amdgpu\nPCI_ID=1002:{device[2:].upper()}\nPCI_SLOT_NAME={slot}",
        "mem_info_vram_total": str(total),
        "mem_info_vram_used": str(used),
    }


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    xtx = card("0000:03:00.0", "0x744c", "0xc8", 24_560 * MIB, 9_000 * MIB)
    mi300x = card("0000:c6:00.0", "0x74a1", "0x00", 196_592 * MIB, 100_000 * MIB)
    drm = "sys/class/drm"
    write(tmp_path, {f"{drm}/card1/device/{name}": text for name, text in xtx.items()})
    write(tmp_path, {f"{drm}/card0/device/{name}": text for name, text in mi300x.items()})
    write(tmp_path, {f"{drm}/card0/device/product_name": "AMD Instinct MI300X OAM", f"{drm}/card1-DP-1/status": "off"})
    write(tmp_path, {f"{drm}/card2/device/vendor": "0x8086"})
    write(tmp_path, {"opt/rocm/.info/version": "7.0.2-56", "sys/module/amdgpu/version": "6.14.14"})
    return tmp_path


def test_amd_cards_in_pci_order(machine: Path) -> None:
    xtx, mi300x = amd_gpus(machine, first=3)
    assert (xtx.index, xtx.name, xtx.table_name) == (3, "AMD GPU 744c", "rx7900xtx-24gb")
    assert (mi300x.index, mi300x.name, mi300x.table_name) == (4, "AMD Instinct MI300X OAM", "mi300x-192gb")
    assert (mi300x.total_bytes, mi300x.free_bytes) == (196_592 * MIB, 96_592 * MIB)
    assert (mi300x.driver, mi300x.runtime) == ("6.14.14", "ROCm 7.0.2")
    assert mi300x.processes == ()


def test_amd_processes_from_fdinfo_and_kfd(machine: Path) -> None:
    client = "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t34\ndrm-memory-vram:\t2048 KiB"
    other = client.replace("34", "35").replace("2048 KiB", "1 MiB")
    node = "sys/class/kfd/kfd/topology/nodes"
    files = {
        "proc/11/comm": "llama-server",
        "proc/11/fdinfo/5": f"pos:\t0\nflags:\t02\n{client}",
        "proc/11/fdinfo/6": client,  # the same client through a second descriptor
        "proc/11/fdinfo/7": other,
        "proc/11/fdinfo/0": "pos:\t0",
        "proc/22/comm": "python3",
        f"{node}/0/gpu_id": "0",
        f"{node}/0/properties": "cpu_cores_count 96\nlocation_id 0",
        f"{node}/1/gpu_id": "51997",
        f"{node}/1/properties": "location_id 50688\ndomain 0",  # 50688 = 0xc600
        "sys/class/kfd/kfd/proc/22/vram_51997": str(99_000 * MIB),
        "sys/class/kfd/kfd/proc/22/vram_1": "5",
    }
    write(machine, files)
    xtx, mi300x = amd_gpus(machine)
    assert xtx.processes == (GpuProcess(pid=11, name="llama-server", bytes=3 * MIB),)
    assert mi300x.processes == (GpuProcess(pid=22, name="python3", bytes=99_000 * MIB),)


def test_broken_kernel_files_are_facts_that_lack(machine: Path) -> None:
    write(
        machine,
        {
            "sys/class/drm/card1/device/mem_info_vram_used": "",
            "proc/11/fdinfo/5": "drm-driver:\tamdgpu\ndrm-memory-vram:\tmuch",
            "sys/class/kfd/kfd/topology/nodes/1/properties": "location_id x",
        },
    )
    xtx, _ = amd_gpus(machine)
    assert (xtx.total_bytes, xtx.used_bytes, xtx.free_bytes) == (24_560 * MIB, None, None)


SMI = {
    "gpu": """\
0, GPU-a44622e3-2296-6285-0a86-84d0f6c67900, 143771, 130013, 13134, 570.124.06, NVIDIA H200
2, GPU-4e9e74b7-4977-f04d-3af3-ccfe5f570e90, 143771, 105851, 37296, 570.124.06, NVIDIA H200
3, MIG-GPU-1, [N/A], [N/A], [N/A], 570.124.06, NVIDIA H200
""",
    "compute-apps": """\
GPU-a44622e3-2296-6285-0a86-84d0f6c67900, 1328667, 130004, /usr/local/bin/python3.10
GPU-4e9e74b7-4977-f04d-3af3-ccfe5f570e90, 1425258, 105842, python3 -m x, y
MIG-GPU-1, 77, [N/A], [Not Found]
""",
    "": "| NVIDIA-SMI 570.124.06   Driver Version: 570.124.06   CUDA Version: 12.8     |\n",
}


def test_nvidia_smi_stands_in_where_nvml_is_not_installed() -> None:
    asked = []

    def run(words: Sequence[str]) -> str | None:
        asked.append(words)
        return SMI[words[1].removeprefix("--query-").partition("=")[0] if len(words) > 1 else ""]

    first, second, third = smi_gpus(run)
    assert (first.index, first.name, first.table_name) == (0, "NVIDIA H200", "h200-141gb")
    assert (first.total_bytes, first.used_bytes, first.free_bytes) == (143_771 * MIB, 130_013 * MIB, 13_134 * MIB)
    assert (first.driver, first.runtime) == ("570.124.06", "CUDA 12.8")
    assert first.processes == (GpuProcess(pid=1328667, name="/usr/local/bin/python3.10", bytes=130_004 * MIB),)
    assert second.processes == (GpuProcess(pid=1425258, name="python3 -m x, y", bytes=105_842 * MIB),)
    assert (third.total_bytes, third.processes) == (None, (GpuProcess(pid=77, name=None, bytes=None),))
    assert {words[0] for words in asked} == {"nvidia-smi"}


@pytest.mark.parametrize("text", [None, "", "No devices were found\n", "NVIDIA-SMI has failed, because it could not\n"])
def test_an_nvidia_smi_that_shows_nothing(text: str | None) -> None:
    assert smi_gpus(lambda words: text) == ()


def test_a_machine_without_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert amd_gpus(tmp_path) == ()
    monkeypatch.setattr(detect, "load_nvml", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert all(gpu.vendor == "amd" for gpu in local_gpus())


def test_the_command_shows_what_was_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from kvlab.cli import main

    held = [Process(4242, 60_000 * MIB)]
    found = nvidia_gpus(Recorded([Card("NVIDIA H100 80GB HBM3", memory(81559, 60_827), held)]))
    monkeypatch.setattr(detect, "local_gpus", lambda: found)
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["gpus", "--local"]) == 0
    shown = capsys.readouterr().out
    for word in ("h100-80gb", "79.65 GiB", "20.25 GiB", "580.95.05", "CUDA 13.0", "VLLM::EngineCore", "58.59 GiB"):
        assert word in shown
    monkeypatch.setattr(detect, "local_gpus", lambda: ())
    assert main(["gpus", "--local"]) == 0
    assert "No GPU found" in capsys.readouterr().out
    assert main(["gpus", "h100", "--local"]) == 2
    assert "leave the name out" in capsys.readouterr().err
