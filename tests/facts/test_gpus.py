"""The GPU table against the makers' data sheets and against memory totals from public logs."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from kvlab.core.errors import UnknownGpu
from kvlab.core.units import GIB
from kvlab.facts.gpus import by_driver_name, by_pci_id, find, table

GOLDEN = Path(__file__).parents[1] / "golden" / "gpus"
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*-(\d+)gb")


def lines(name: str) -> list[dict[str, str]]:
    with (GOLDEN / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("line", lines("datasheets.csv"), ids=lambda line: f"{line['gpu']}-{line['quantity']}")
def test_the_makers_figures(line: dict[str, str]) -> None:
    gpu = find(line["gpu"])
    printed = float(line["printed"]) / float(line["counts"])
    ours = gpu.bandwidth if line["quantity"] == "bandwidth" else getattr(gpu, f"{line['quantity']}_flops")
    assert ours == pytest.approx(printed * (1e9 if line["quantity"] == "bandwidth" else 1e12), rel=0.01)


@pytest.mark.parametrize("line", lines("totals.csv"), ids=lambda line: line["gpu"])
def test_totals_from_public_logs(line: dict[str, str]) -> None:
    assert find(line["gpu"]).usable_bytes / 2**20 == pytest.approx(int(line["mib"]), abs=512)


def test_the_table_is_long_and_its_names_follow_the_grammar() -> None:
    assert len(table()) >= 80
    assert {gpu.vendor for gpu in table().values()} == {"nvidia", "amd", "intel", "apple"}
    for name, gpu in table().items():
        assert NAME.fullmatch(name), name
        assert "https://" in gpu.source
        assert gpu.bandwidth is not None
        assert (gpu.compute_capability is None) != (gpu.vendor == "nvidia"), name


def test_usable_memory_is_near_the_memory_in_the_name() -> None:
    for name, gpu in table().items():
        found = NAME.fullmatch(name)
        assert found is not None
        sold = int(found[2])
        low = 0.66 if "unified" in gpu.title else 0.9  # unified: the share that the system lends to the GPU
        assert low * sold <= gpu.usable_bytes / GIB <= sold, name


def test_every_name_and_alias_is_one_gpus_alone_and_is_found() -> None:
    called = [(word, gpu) for gpu in table().values() for word in (gpu.name, *gpu.aliases)]
    assert len({word for word, _ in called}) == len(called)
    for word, gpu in called:
        assert find(word) == gpu
        assert word == word.lower()


def test_narrow_formats_are_never_slower() -> None:
    for name, gpu in table().items():
        rates = [rate for rate in (gpu.bf16_flops, gpu.fp8_flops, gpu.fp4_flops) if rate is not None]
        assert rates == sorted(rates), name
        for dtype, rate in (("bf16", gpu.bf16_flops), ("fp8", gpu.fp8_flops), ("fp4", gpu.fp4_flops)):
            assert rate is None or (gpu.formats is not None and dtype in gpu.formats), (name, dtype)


def test_formats_by_generation() -> None:
    assert find("t4").formats == ("fp16",)
    assert find("a100").formats == ("fp16", "bf16")
    assert find("h100").formats == ("fp16", "bf16", "fp8")
    assert find("b200").formats == ("fp16", "bf16", "fp8", "fp4")
    assert find("mi355x").formats == ("fp16", "bf16", "fp8", "fp4")
    assert find("m4-max-128gb").formats is None


@pytest.mark.parametrize(
    ("name", "mib", "row"),
    [  # names and memory.total as nvidia-smi prints them
        ("NVIDIA H100 80GB HBM3", 81559, "h100-80gb"),
        ("NVIDIA H100 PCIe", 81559, "h100-pcie-80gb"),
        ("NVIDIA H100 NVL", 95830, "h100-nvl-94gb"),
        ("NVIDIA A100-SXM4-40GB", 40960, "a100-40gb"),
        ("NVIDIA GH200 480GB", 97871, "gh200-96gb"),
        ("NVIDIA B200", 183359, "b200-180gb"),
        ("NVIDIA GB300", 256703, "gb300-288gb"),
        ("NVIDIA GeForce RTX 3080", 10240, "rtx3080-10gb"),
        ("NVIDIA GeForce RTX 3080", 12288, "rtx3080-12gb"),
        ("NVIDIA GeForce RTX 3080", 20480, None),
        ("NVIDIA GeForce RTX 4060 Ti", 16380, "rtx4060ti-16gb"),
        ("NVIDIA GeForce RTX 4060 Ti", 8188, "rtx4060ti-8gb"),
        ("NVIDIA RTX PRO 5000 Blackwell", 73415, "rtxpro5000-72gb"),
        ("NVIDIA RTX PRO 5000 Blackwell", 48935, "rtxpro5000-48gb"),
        ("Quadro RTX 8000", 46080, "rtx8000-48gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.10gb", 9856, None),
        ("NVIDIA GeForce GTX 1060", 6144, None),
        ("NVIDIA GB10", None, "dgx-spark-128gb"),
        ("Orin", None, None),
    ],
)
def test_rows_by_the_drivers_name(name: str, mib: int | None, row: str | None) -> None:
    gpu = by_driver_name(name, None if mib is None else mib * 2**20)
    assert (gpu.name if gpu else None) == row


@pytest.mark.parametrize(
    ("device", "revision", "mib", "row"),
    [  # ids of libdrm's amdgpu.ids, memory as ROCm prints it
        ("74a1", "00", 196592, "mi300x-192gb"),
        ("744c", "c8", 24560, "rx7900xtx-24gb"),
        ("744c", "cc", 20464, "rx7900xt-20gb"),
        ("7550", "c0", 16304, "rx9070xt-16gb"),
        ("7550", "c3", 16304, "rx9070-16gb"),
        ("1586", "c1", 512, None),
        ("ffff", "00", 16304, None),
    ],
)
def test_rows_by_pci_id(device: str, revision: str, mib: int, row: str | None) -> None:
    gpu = by_pci_id(device, revision, mib * 2**20)
    assert (gpu.name if gpu else None) == row


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UnknownGpu, match="mi300x"):
        find("mi301x")
    assert find("CPU").name == "cpu"
