"""Stopping early against a fixed size, in simulation: python benchmarks/sequential.py [EXPERIMENTS] [NOISE].

Every experiment has eight blocks at most (32 runs of 24 requests). The fixed-size one runs them all and is judged by
the ordinary rule; the sequential one looks at the same runs after every block and stops as soon as it is settled. B is
slower by 0, 1, 5, 10 or 20 %; runs of one arm differ by NOISE (0.02: a standard deviation of 2 %), normally, or with
heavy tails (Student's t, 3 degrees of freedom), or while the machine drifts by 5 % in all. Printed: how often each says
"worse" or "better", how often both say the same, and the requests that the sequential one sent, as a share of the
fixed size.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import median

import numpy as np

from kvlab.core.judge import judge, settled
from kvlab.core.measure import PoolUse
from kvlab.core.record import Run, RunRow
from kvlab.settings import MOST_BLOCKS, order

REQUESTS, TOKENS = 24, 32
BUSY = PoolUse(peak_kv_used=0.97, peak_waiting=5.0, peak_running=4.0, preemptions=0.0, samples=20)


def noise_of(kind: str, deviation: float, rng: np.random.Generator) -> np.ndarray:
    """The logarithms by which the runs are slower or faster."""
    runs = 4 * MOST_BLOCKS
    if kind == "heavy tails":
        return rng.standard_t(3, runs) / 3**0.5 * deviation
    drift = np.linspace(0, 0.05, runs) if kind == "drift" else 0.0
    return rng.normal(0, deviation, runs) + drift


def experiment(slower: float, kind: str, deviation: float, seed: int) -> list[Run]:
    """All runs of one experiment."""
    rng = np.random.default_rng(seed)
    prompts, machine = rng.lognormal(-1, 0.4, REQUESTS), np.exp(noise_of(kind, deviation, rng))
    return [
        run(number, arm, machine[number] * (1 + slower if arm == "b" else 1), prompts, rng)
        for number, arm in enumerate(order(MOST_BLOCKS))
    ]


def run(number: int, arm: str, factor: float, prompts: np.ndarray, rng: np.random.Generator) -> Run:
    """One run, all of its times multiplied by `factor`."""
    ttft = prompts * factor * rng.lognormal(0, 0.05, REQUESTS)
    tpot = 0.03 * factor * rng.lognormal(0, 0.05, REQUESTS)
    e2e = ttft + (TOKENS - 1) * tpot
    rows = tuple(
        RunRow(scheduled=0.0, ttft=t, tpot=p, e2e=e, prompt_tokens=100, output_tokens=TOKENS, error=None)
        for t, p, e in zip(ttft.tolist(), tpot.tolist(), e2e.tolist(), strict=True)
    )
    served = float(e2e.sum()) / 4
    return Run(
        block=number,
        arm="b" if arm == "b" else "a",
        folder="",
        metrics={"request_throughput": REQUESTS / served, "output_throughput": REQUESTS * TOKENS / served},
        completed=REQUESTS,
        failed=0,
        rows=rows,
        samples=(),
        pool=BUSY,
    )


def stopped(runs: list[Run], seed: int) -> tuple[str, int]:
    """The verdict of the experiment that looks after every block, and the blocks that it took."""
    code = "inconclusive"
    for blocks in range(1, MOST_BLOCKS + 1):
        rows, _, verdict = judge(runs[: 4 * blocks], None, None, seed=seed, resamples=200, sequential=True)
        code = verdict.code
        if settled(rows):
            return code, blocks
    return code, MOST_BLOCKS


def cases(count: int, deviation: float) -> Iterator[tuple[str, float, list[tuple[str, str, int]]]]:
    """For each noise and effect: (fixed verdict, sequential verdict, blocks) of every experiment."""
    for kind in ("normal", "heavy tails", "drift"):
        for slower in (0.0, 0.01, 0.05, 0.1, 0.2):
            found = list[tuple[str, str, int]]()
            for seed in range(count):
                runs = experiment(slower, kind, deviation, seed)
                fixed = judge(runs, None, None, seed=seed, resamples=400)[2].code
                found.append((fixed, *stopped(runs, seed)))
            yield kind, slower, found


def main() -> None:
    """Prints one line for each noise and effect."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    deviation = float(sys.argv[2]) if len(sys.argv) > 2 else 0.02
    print(f"{count} experiments each, runs of one arm differ by {deviation:.1%}; at most {MOST_BLOCKS} blocks")
    print("noise        slower   called: fixed  sequential   same verdict   requests sent, median and most")
    for kind, slower, found in cases(count, deviation):
        called = [sum(one[at] in ("worse", "better") for one in found) for at in (0, 1)]
        same = sum(fixed == sequential for fixed, sequential, _ in found)
        shares = [blocks / MOST_BLOCKS for _, _, blocks in found]
        print(
            f"{kind:12} {slower:5.0%} {called[0]:10} of {count} {called[1]:5} of {count} {same:9} of {count}"
            f" {median(shares):12.0%} {max(shares):8.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
