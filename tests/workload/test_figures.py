"""Figures of published traces, to the unit, as separate programs computed them (tests/golden/traces/SOURCE.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvlab
from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.core.trace import Blocks
from kvlab.workload.policies import POLICIES
from kvlab.workload.replicas import lru_hits, prefix_aware
from kvlab.workload.tiers import exclusive_hits, inclusive_hits

GOLDEN = Path(__file__).parents[1] / "golden" / "traces"
CONVERSATION, SYNTHETIC = (GOLDEN / f"mooncake_{name}_trace.jsonl.gz" for name in ("conversation", "synthetic"))

# trace, blocks -> FIFO, LFU, Belady
POINTS = [
    (SYNTHETIC, 500, (4_969, 1_663, 24_251)),
    (SYNTHETIC, 5_000, (32_381, 24_049, 64_135)),
    (SYNTHETIC, 30_000, (72_411, 76_290, 77_953)),
    (CONVERSATION, 1_000, (12_509, 13_871, 54_994)),
    (CONVERSATION, 5_859, (36_003, 27_870, 101_880)),
    (CONVERSATION, 50_000, (96_228, 99_189, 105_710)),
    (SYNTHETIC, 1_000, (9_593, 4_885, 33_713)),
    (SYNTHETIC, 10_000, (48_622, 43_602, 75_315)),
    (SYNTHETIC, 20_000, (64_850, 72_106, 77_953)),
]
# trace, blocks of the GPU's and the CPU's tier -> blocks found in each
CHAINS = [
    (CONVERSATION, (1_000, 9_000), [12_831, 48_083]),
    (CONVERSATION, (5_000, 25_000), [31_840, 62_127]),
    (CONVERSATION, (5_859, 44_141), [39_076, 63_214]),
    (SYNTHETIC, (1_000, 9_000), [10_050, 41_564]),
    (SYNTHETIC, (5_000, 25_000), [34_018, 42_059]),
    (SYNTHETIC, (5_859, 44_141), [37_703, 40_250]),
]
# file, longest request -> waste of Max, Pow2, Oracle and pages of 16, 32, 64, 128, 256, 512 tokens
WASTE = [
    ("azure_code.csv.gz", 8_192, (0.7398, 0.0597, 0.0352, 0.0035, 0.0072, 0.0147, 0.0294, 0.0587, 0.1108)),
    ("azure_conv.csv.gz", 16_384, (0.9251, 0.1845, 0.1203, 0.0061, 0.0125, 0.0250, 0.0494, 0.0922, 0.1637)),
    (CONVERSATION.name, 131_072, (0.8999, 0.0345, 0.0196, 0.0006, 0.0012, 0.0024, 0.0048, 0.0096, 0.0191)),
    (SYNTHETIC.name, 262_144, (0.9722, 0.0447, 0.0242, 0.0010, 0.0021, 0.0043, 0.0086, 0.0175, 0.0363)),
    ("vidur_arxiv.csv.gz", 4_096, (0.4090, 0.3047, 0.2060, 0.0031, 0.0064, 0.0129, 0.0256, 0.0500, 0.0953)),
]
# file -> prompts' mean, p50, p90, p95, p99, p99.9, max; answers' p50, p99, max; totals' p50, p99, p99.9, max
LENGTHS = {
    CONVERSATION.name: (
        (12035, 6909, 27367, 39550, 85400, 121301, 126195),
        (350, 1119, 2000),
        (7255, 85851, 121894, 126527),
    ),
    SYNTHETIC.name: (
        (15325, 11587, 38611, 48905, 66456, 191373, 191378),
        (69, 768, 893),
        (11646, 66467, 191383, 191386),
    ),
    "azure_code.csv.gz": ((2048, 1469, 5188, 7303, 7436, 7437, 7437), (13, 251, 1899), (1493, 7462, 7566, 7841)),
    "azure_conv.csv.gz": ((1155, 1020, 2734, 4083, 4142, 6179, 14050), (129, 601, 1000), (1412, 4259, 6301, 14089)),
    "vidur_arxiv.csv.gz": ((2588, 2730, 3702, 3813, 3933, 4012, 4054), (167, 3271, 4056), (2992, 4077, 4095, 4096)),
}


def blocks(path: Path) -> Blocks:
    found = traces.read(path).blocks
    assert found is not None
    return found


@pytest.mark.parametrize(("path", "capacity", "hits"), POINTS)
def test_policies_at_a_capacity(path: Path, capacity: int, hits: tuple[int, int, int]) -> None:
    held = blocks(path)
    assert tuple(policy(held, capacity) for policy in POLICIES.values()) == hits


@pytest.mark.parametrize(("path", "sizes", "hits"), CHAINS)
def test_exclusive_tiers(path: Path, sizes: tuple[int, int], hits: list[int]) -> None:
    held = blocks(path)
    assert exclusive_hits(held, sizes) == hits
    # all tiers together find what one of their size does, however many they are
    assert sum(exclusive_hits(held, (sizes[0], 1_000, sizes[1] - 1_000))) == sum(hits)


def test_inclusive_tiers_hit_together_what_the_largest_does() -> None:
    held = blocks(SYNTHETIC)
    alone = exclusive_hits(held, (10_000,))
    assert inclusive_hits(held, (1_000, 10_000)) == [10_050, alone[0] - 10_050]


@pytest.mark.parametrize(("name", "longest", "expected"), WASTE)
def test_waste_of_reserving(name: str, longest: int, expected: tuple[float, ...]) -> None:
    found = kvlab.traffic(GOLDEN / name, context=longest).paging
    # two of the figures were rounded twice: 0.029349 is listed as 0.0294
    assert [line.waste for line in found] == pytest.approx(expected, abs=5.5e-5)


@pytest.mark.parametrize("name", LENGTHS)
def test_percentiles(name: str) -> None:
    found = kvlab.traffic(GOLDEN / name)
    prompts, answers, total = found.input_tokens, found.output_tokens, found.total_tokens
    assert answers is not None
    assert total is not None
    inputs = (prompts.mean, prompts.p50, prompts.p90, prompts.p95, prompts.p99, prompts.p999, prompts.max)
    seen = (inputs, (answers.p50, answers.p99, answers.max), (total.p50, total.p99, total.p999, total.max))
    for one, two in zip(seen, LENGTHS[name], strict=True):
        assert one == pytest.approx(two, abs=0.51)


def test_a_hundred_agent_sessions() -> None:
    found = kvlab.traffic(
        GOLDEN / "agent_sessions_100.ranges.jsonl.gz", capacities=(10_000, 30_000, 100_000, 300_000, 1_000_000)
    )
    assert found.reuse is not None
    assert (found.requests, found.reuse.blocks, found.reuse.tokens) == (5_571, 11_484_654, 735_194_018)
    assert (found.reuse.ideal.hit_blocks, found.reuse.ideal.unique_blocks) == (10_923_020, 561_634)
    hits = {point.capacity_blocks: point.hit_blocks for point in found.reuse.curve}
    asked = (10_000, 30_000, 100_000, 300_000, 1_000_000)
    assert [hits[at] for at in asked] == [4_253_500, 7_595_254, 10_225_485, 10_916_661, 10_923_020]


def test_replicas_hit_between_one_cache_and_none() -> None:
    found = kvlab.traffic(SYNTHETIC, capacities=(2_500,), replicas=4).reuse
    assert found is not None
    assert found.replicas is not None
    hits = {one.name: one.hit_blocks for one in found.replicas.routing}
    # one cache of 10,000 blocks: the published point of the curve
    assert hits["shared"] == 51_669
    assert hits["round robin"] < hits["prefix-aware"] <= 77_953
    held = blocks(SYNTHETIC)
    assert prefix_aware(held, 1, 2_500)[0] == lru_hits(held, 2_500) == 20_817


def test_a_tier_saves_the_prefill_less_the_fetch() -> None:
    speeds = {"bytes_per_token": 147_456, "prefill_tokens_per_second": 10_000.0}
    found = kvlab.traffic(SYNTHETIC, tiers=("gpu:1000", "cpu:632.8125GiB@50GB/s"), **speeds).reuse  # type: ignore[arg-type]
    assert found is not None
    assert found.tiers is not None
    gpu, cpu = found.tiers.tiers
    assert (gpu.hit_blocks, cpu.capacity_blocks, cpu.hit_blocks) == (10_050, 9_000, 41_564)
    assert gpu.ttft_saved_seconds == pytest.approx(10_050 * 512 / 10_000 / 3_993)
    # 41,564 blocks of 72 MiB at 50 GB/s take 62.76 s, computing their 21.28 million tokens 2,128.1 s
    assert cpu.ttft_saved_seconds == pytest.approx((2128.08 - 62.76) / 3_993, abs=1e-4)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"policies": ("lur",), "capacities": (5,)}, "no policy 'lur'; did you mean lru"),
        ({"policies": ("lru",)}, "needs --capacity"),
        ({"replicas": 3}, "needs --capacity"),
        ({"replicas": 1, "capacities": (5,)}, "from 2 to"),
        ({"tiers": ("gpu",)}, "must be NAME:SIZE"),
        ({"tiers": ("gpu:5@fast",)}, "bandwidth"),
        ({"tiers": ("gpu:5GiB",)}, "give --model"),
        ({"tiers": ("gpu:1.5",)}, "whole blocks"),
        ({"tiers": ("gpu:5", "cpu:3"), "inclusive": True}, "at least as large"),
        ({"tiers": ("gpu:5",) * 9}, "1 to 8 tiers"),
        ({"inclusive": True}, "give --tiers"),
        ({"capacities": ("5GiB",)}, "give --model"),
        ({"capacities": ("x",)}, "must be a number of blocks"),
        ({"last_half": True, "tiers": ("gpu:5",)}, "leave out --last-half"),
    ],
)
def test_questions_without_an_answer(tmp_path: Path, asked: dict[str, object], why: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [0, 1]}\n')
    with pytest.raises(BadInput, match=why):
        kvlab.traffic(path, **asked)  # type: ignore[arg-type]
    (tmp_path / "a.csv").write_text("num_prefill_tokens,num_decode_tokens\n5,5\n")
    with pytest.raises(BadInput, match=f"{why}|no block ids"):
        kvlab.traffic(tmp_path / "a.csv", **asked)  # type: ignore[arg-type]
