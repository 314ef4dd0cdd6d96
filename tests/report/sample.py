"""A realistic record: Gemma-3-270m under llama.cpp, an f16 cache against a q8_0 cache in the same memory.

Cache bytes and log lines are those that the real server prints (3 full and 15 sliding-window layers, one KV head of
256). Times are drawn from a seeded generator around what two CPU cores measure, so that the charts look like real ones.
"""

from __future__ import annotations

import random
from statistics import fmean
from typing import Literal

from kvlab.core.check import Check, CheckRow
from kvlab.core.comparison import ComparisonRow, RowVerdict
from kvlab.core.measure import MetricSample, PoolUse
from kvlab.core.model import Doubt, Origin
from kvlab.core.plan import (
    Alternative,
    Ask,
    Capacity,
    ContextLine,
    EngineId,
    Expected,
    Flag,
    KvCost,
    Launch,
    LayoutLine,
    LedgerLine,
    Move,
    Plan,
    Verdict,
)
from kvlab.core.quality import Agreement, Divergence, Interval, Prefix, PrefixRequest, Quality
from kvlab.core.record import Ab, AbVerdict, Arm, Load, Machine, PoolPeak, Record, Run, RunRow

MIB = 1 << 20
ENGINE = EngineId("llamacpp", "2026.10.11549")
SLOTS = {"f16": 4, "q8_0": 7}
FULL_BYTES = {"f16": 24 * MIB, "q8_0": int(22.3125 * MIB)}
WINDOW_BYTES = {"f16": 60 * MIB, "q8_0": int(55.78125 * MIB)}
TOKEN_BYTES = {"f16": 18 * 1024, "q8_0": 18 * 544}
_SIZE = "llama_kv_cache: size = "
PRINTED = {
    "f16": (
        _SIZE + "  24.00 MiB (  2048 cells,   3 layers,  4/4 seqs), K (f16):   12.00 MiB, V (f16):   12.00 MiB",
        _SIZE + "  60.00 MiB (  1024 cells,  15 layers,  4/4 seqs), K (f16):   30.00 MiB, V (f16):   30.00 MiB",
    ),
    "q8_0": (
        _SIZE + "  22.31 MiB (  2048 cells,   3 layers,  7/7 seqs), K (q8_0):   11.16 MiB, V (q8_0):   11.16 MiB",
        _SIZE + "  55.78 MiB (  1024 cells,  15 layers,  7/7 seqs), K (q8_0):   27.89 MiB, V (q8_0):   27.89 MiB",
    ),
}


def _line(
    name: str, amount: int, kind: Literal["computed", "read", "measured", "estimated"], because: str
) -> LedgerLine:
    return LedgerLine(name=name, bytes=amount, kind=kind, low=amount, high=amount, because=because)


def _ledger(dtype: str) -> tuple[LedgerLine, ...]:
    estimate = LedgerLine(
        name="compute_buffers",
        bytes=-53 * MIB,
        kind="estimated",
        low=-60 * MIB,
        high=-20 * MIB,
        because="llama-server reserves 20 to 60 MiB for a vocabulary of 262,144",
    )
    return (
        _line("given", 421 * MIB, "computed", "memory that both arms may use"),
        _line("weights", -241 * MIB, "read", "tensor sizes in the GGUF header"),
        estimate,
        _line("left_to_others", -43 * MIB, "computed", "what the pool of 84 MiB leaves free"),
        _line("pool", 84 * MIB, "computed", "given with --pool-gib"),
        _line("cache_full", FULL_BYTES[dtype], "computed", f"2,048 cells x {SLOTS[dtype]} slots x 3 layers"),
        _line("cache_window", WINDOW_BYTES[dtype], "computed", f"1,024 cells x {SLOTS[dtype]} slots x 15 layers"),
    )


def plan(dtype: str = "f16") -> Plan:
    """One arm's plan: 84 MiB of cache carved into slots of 2,048 tokens."""
    slots = SLOTS[dtype]
    per_slot = (FULL_BYTES[dtype] + WINDOW_BYTES[dtype]) // slots
    argv = (
        "llama-server", "-m", "gemma-3-270m-q4_k_m.gguf", "--ctx-size", str(2048 * slots), "--parallel", str(slots),
        "--cache-type-k", dtype, "--cache-type-v", dtype, "--flash-attn", "on", "--metrics", "--slots", "-lv", "4",
        "--port", "8080",
    )  # fmt: skip
    return Plan(
        source=Origin("gemma-3-270m-q4_k_m.gguf", "gguf"),
        engine=ENGINE,
        layout=(
            LayoutLine("full", 3, TOKEN_BYTES[dtype] // 6, TOKEN_BYTES[dtype] // 6 * 2048),
            LayoutLine("window", 15, TOKEN_BYTES[dtype] // 6 * 5, TOKEN_BYTES[dtype] // 6 * 5 * 512, 512),
        ),
        kv=KvCost(dtype, TOKEN_BYTES[dtype], per_slot, 2048),
        ledger=_ledger(dtype),
        capacity=Capacity(
            pool_bytes=84 * MIB,
            block_size=1,
            num_blocks=2048 * slots,
            tokens=2048 * slots,
            max_concurrency=float(slots),
            longest_request_tokens=2048,
        ),
        alternatives=(
            Alternative("f16", 8192, 4.0, True),
            Alternative("q8_0", 14336, 7.0, True),
            Alternative("q5_1", 20480, 10.0, True),
            Alternative("q4_0", 28672, 14.0, True),
        ),
        contexts=tuple(
            ContextLine(context, kind, context * TOKEN_BYTES[kind] // 6 + 15 * MIB * TOKEN_BYTES[kind] // 18432, pool)
            for context, pools in ((1024, (4.6, 8.8)), (2048, (4.0, 7.5)), (8192, (2.1, 4.0)), (32768, (0.7, 1.4)))
            for kind, pool in zip(("f16", "q8_0"), pools, strict=True)
        ),
        verdict=Verdict(
            "fits",
            f"the {dtype} cache holds {slots} requests of 2,048 tokens in 84 MiB",
            (
                Move("share one pool between the slots (--kv-unified)", 2304),
                Move("lower --ubatch-size to 256: each window keeps 768 cells in place of 1,024", None),
            ),
        ),
        launch=Launch(
            argv,
            {},
            {},
            (
                Flag("--ctx-size", str(2048 * slots), f"{slots} slots of 2,048 tokens; a longer prompt is refused"),
                Flag("--cache-type-k", dtype, "smaller keys hold more tokens and may change answers"),
                Flag("--cache-type-v", dtype, "a quantised V cache needs flash attention"),
                Flag("--flash-attn", "on", "required for a quantised V cache; off would convert it to f16"),
                Flag("-lv", "4", "at the default verbosity the server prints no cache line to check"),
            ),
        ),
        expects=(
            Expected(name="kv_full_bytes", value=FULL_BYTES[dtype], unit="bytes", kind="computed", tolerance=5243,
                     because="3 layers"),
        ),
        doubts=(Doubt("attn_logit_softcapping", "read by no family; it does not change the cache if it is null"),),
        ask=Ask(engine="llamacpp", kv_dtype=dtype, context=2048, parallel=slots),
    )  # fmt: skip


def check(dtype: str = "f16") -> Check:
    """The log against the plan: two lines that agree, one that differs, one that is never printed."""
    full, window = PRINTED[dtype]
    slots = SLOTS[dtype]
    rows = [
        ("kv_full_bytes", "bytes", FULL_BYTES[dtype], full, 211),
        ("kv_window_bytes", "bytes", WINDOW_BYTES[dtype], window, 234),
        ("cells_window", "cells", 1024, window, 234),
        ("slots", "", slots, f"srv    load_model: initializing slots, n_slots = {slots}", 260),
    ]
    agreeing = [
        CheckRow(name=name, unit=unit, planned=planned, seen=planned, verdict="agrees", difference=0,
                 tolerance=0.5, line=line, line_number=number)
        for name, unit, planned, line, number in rows
    ]  # fmt: skip
    differing = CheckRow(
        name="compute_buffer_bytes",
        unit="bytes",
        planned=53 * MIB,
        seen=20.13 * MIB,
        verdict="differs",
        difference=-32.87 * MIB,
        tolerance=10 * MIB,
        line="sched_reserve:        CPU compute buffer size =    20.13 MiB",
        likely_because="planned because llama-server reserves logits for a whole micro-batch",
    )
    absent = CheckRow(
        name="prefix_cache_bytes",
        unit="bytes",
        planned=0,
        seen=None,
        verdict="not seen",
        tolerance=0,
        likely_because="it is never stated",
    )
    return Check(engine=ENGINE, rows=(*agreeing, differing, absent))


def run(block: int, arm: Literal["a", "b"], rng: random.Random, requests: int = 24) -> Run:
    """One block of 24 requests, eight in flight; arm B holds more slots and queues less."""
    slots = 4 if arm == "a" else 7
    drift = rng.gauss(1.0, 0.02)
    rows: list[RunRow] = []
    free = [0.0] * 8
    for index in range(requests):
        worker = min(range(8), key=free.__getitem__)
        scheduled = free[worker]
        ttft = drift * (0.9 + max(0.0, rng.gauss(1.6 * (8 - slots) / 4, 0.5)) + rng.random() * 0.3)
        tpot = drift * rng.gauss(0.092 if arm == "a" else 0.0955, 0.006)
        failed = index == 17 and block == 2
        free[worker] = scheduled + ttft + tpot * 63
        rows.append(
            RunRow(
                scheduled=scheduled,
                ttft=None if failed else ttft,
                tpot=None if failed else tpot,
                e2e=None if failed else ttft + tpot * 63,
                prompt_tokens=512,
                output_tokens=None if failed else 64,
                error="HTTP 500: context shift is disabled" if failed else None,
            )
        )
    duration = max(free)
    good = [row for row in rows if row.error is None]
    ttfts = sorted(row.ttft or 0.0 for row in good)
    metrics = {
        "duration": duration,
        "completed": float(len(good)),
        "failed": float(requests - len(good)),
        "request_throughput": len(good) / duration,
        "output_throughput": 64 * len(good) / duration,
        "total_token_throughput": 576 * len(good) / duration,
        "mean_ttft_ms": 1000 * sum(ttfts) / len(ttfts),
        "median_ttft_ms": 1000 * ttfts[len(ttfts) // 2],
        "p99_ttft_ms": 1000 * ttfts[-1],
        "mean_tpot_ms": 1000 * sum(row.tpot or 0.0 for row in good) / len(good),
        "std_ttft_ms": 412.0,
    }
    samples = tuple(
        MetricSample(
            at=step / 2,
            values={
                "running": float(min(slots, step + 1)),
                "waiting": float(max(0, 8 - slots - (step > 2 * duration - 8) * 3)),
                "kv_used_ratio": min(1.0, (0.25 + 0.05 * step) if step < 8 else rng.uniform(0.6, 0.98)),
            },
        )
        for step in range(int(duration * 2))
    )
    pool = PoolUse(peak_kv_used=0.97, peak_running=float(slots), peak_waiting=float(8 - slots), samples=len(samples))
    return Run(
        block=block, arm=arm, folder=f"runs/{block}-{arm}", metrics=metrics, completed=len(good),
        failed=requests - len(good), rows=tuple(rows), samples=samples, pool=pool,
    )  # fmt: skip


_JUDGED: tuple[tuple[str, str, float | None, float, RowVerdict], ...] = (
    ("request_throughput", "req/s", 0.043, 0.021, "better"),
    ("output_throughput", "tok/s", 0.043, 0.021, "better"),
    ("mean_ttft_ms", "ms", 0.047, 0.034, "better"),
    ("p99_ttft_ms", "ms", 0.46, 0.11, "inconclusive"),
    ("mean_tpot_ms", "ms", 0.012, 0.01, "worse"),
    ("std_ttft_ms", "ms", 0.03, 0.02, "no difference seen"),
    ("median_ttft_ms", "ms", None, 0.034, "inconclusive"),
)
"""Metric, unit, half width of the interval, noise, verdict."""


def comparison(runs: tuple[Run, ...]) -> tuple[ComparisonRow, ...]:
    """Rows with every verdict, and one without an interval."""
    rows = []
    for metric, unit, half, noise, verdict in _JUDGED:
        a, b = (fmean(run.metrics[metric] for run in runs if run.arm == arm) for arm in ("a", "b"))
        change = b / a - 1
        low, high = (None, None) if half is None else (change - half, change + half)
        rows.append(
            ComparisonRow(
                metric=metric, unit=unit, a=a, b=b, change=change, low=low, high=high, noise=noise, verdict=verdict
            )
        )
    return tuple(rows)


_FIBONACCI = "if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)"


def quality() -> Quality:
    """48 prompts; four answers part, two of them shown."""
    return Quality(
        max_tokens=64,
        noise_floor=Agreement(
            prompts=48, failed=0, identical=Interval(0.979, 0.938, 1.0), shared_prefix=Interval(0.991, 0.975, 1.0)
        ),
        candidate=Agreement(
            prompts=48, failed=1, identical=Interval(0.723, 0.596, 0.851), shared_prefix=Interval(0.842, 0.756, 0.92)
        ),
        by_kind={"arithmetic": (1.0, 0.5), "code": (1.0, 0.75), "fact": (1.0, 0.88), "long document": (0.75, 0.5)},
        divergences=(
            Divergence(
                prompt_id="arithmetic-03",
                kind="arithmetic",
                prompt="12 apples and 30 apples are",
                shared_prefix=0.31,
                a="42 apples in total. If each box holds 7 apples, then 6 boxes are needed, and nothing is left over.",
                b="42 apples in total. If each box holds 6 apples, then 7 boxes are needed.\n\nThe answer is 7.",
            ),
            Divergence(
                prompt_id="code-01",
                kind="code",
                prompt="def fibonacci(n):\n    ",
                shared_prefix=0.62,
                a=_FIBONACCI + "\n\nprint(fibonacci(10))",
                b=_FIBONACCI + "\n\n\ndef main():\n    pass",
            ),
        ),
        verdict="below the noise floor",
        because="72.3 % of the answers are identical (59.6 % to 85.1 %); the same arm twice gives 97.9 %",
    )


def prefix() -> Prefix:
    """Five rounds of four requests that share 512 tokens."""
    rng = random.Random(7)
    requests = tuple(
        PrefixRequest(
            round=number,
            position=position,
            ttft=rng.gauss(1.9, 0.06) if position == 0 else rng.gauss(0.21, 0.03),
            prompt_tokens=543,
            cached_tokens=0 if position == 0 else 512,
        )
        for number in range(5)
        for position in range(4)
    )
    return Prefix(
        rounds=5,
        requests=requests,
        cold_ttft=Interval(1.91, 1.85, 1.97),
        warm_ttft=Interval(0.212, 0.198, 0.226),
        speedup=Interval(9.0, 8.4, 9.8),
        cached_share=0.943,
        verdict="prefix caching works",
        because="warm requests start 9.0 times sooner, and the engine counts 94.3 % of their prompt as cached",
    )


def ab(runs: tuple[Run, ...]) -> Ab:
    """The whole A/B."""
    return Ab(
        arms={
            "a": Arm(label="f16, 4 slots", plan=plan("f16"), check=check("f16")),
            "b": Arm(label="q8_0, 7 slots", plan=plan("q8_0"), check=check("q8_0")),
        },
        performance=comparison(runs),
        quality=quality(),
        prefix=prefix(),
        pool=PoolPeak(a_peak_usage=0.97, b_peak_usage=0.91, filled=True),
        verdict=AbVerdict(
            code="inconclusive",
            text="q8_0 serves 5.4 % more requests from the same memory, but answers differ beyond the noise floor",
            because=(
                "request throughput rose by 5.4 % (1.1 % to 9.7 %), above the noise of 2.1 %",
                "time per output token rose by 6.1 % (4.9 % to 7.3 %)",
                "72.3 % of the answers are identical; arm A against itself gives 97.9 %",
                "the load filled the pool in both arms",
            ),
        ),
    )


def record() -> Record:
    """Blocks A B B A of 24 requests each, then quality and prefix."""
    rng = random.Random(3)
    order: tuple[Literal["a", "b"], ...] = ("a", "b", "b", "a")
    runs = tuple(run(block, arm, rng) for block, arm in enumerate(order))
    return Record(
        title="Gemma-3-270m: f16 against q8_0 in 84 MiB of cache",
        created="2026-05-04T09:12:44Z",
        finished="2026-05-04T09:19:02Z",
        kvlab_version="0.1.0",
        command=("kvlab", "demo", "--out", "kvlab demo"),
        machine=Machine(
            system="Linux 6.1",
            processor="AMD EPYC 7B13",
            cores=2,
            memory_bytes=8 << 30,
            python="3.11.2",
            accelerators=(),
        ),
        load=Load(
            dataset="random tokens",
            prompts=24,
            input_tokens=512,
            output_tokens=64,
            concurrency=8,
            rate=None,
            seed=0,
        ),
        runs=runs,
        ab=ab(runs),
    )
