"""A/A and planted slow-downs on the real engine: python benchmarks/planted.py MODEL.gguf [TIMES] [BLOCKS] [PERCENT..].

Each experiment is a whole `kvlab ab` on llama.cpp's server behind benchmarks/slow_server.py: TIMES (20) of arm A
against itself, half as many with B slower by 10 %, and by 1 %; or only those of the PERCENT named (0, 10, 1). They stop
when settled, after BLOCKS (8) at most. Counted: the verdicts, and the requests that were sent of those that the most
blocks would have taken.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

from kvlab import api
from kvlab.core.plan import Ask
from kvlab.core.record import Load, Record
from kvlab.load.datasets import RandomTokens
from kvlab.settings import Settings

HERE = Path(__file__).parent
REQUESTS, INPUT, OUTPUT = 8, 32, 12


def settings(model: Path, slower: float, blocks: int, seed: int) -> Settings:
    """One experiment of short requests, one at a time, so that what is planted is what a client sees."""
    arm = Ask(
        engine="llamacpp", context=512, parallel=1, kv_dtype="f16", engine_args=(("cache-ram", "0"), ("threads", "1"))
    )
    named = [
        msgspec.structs.replace(arm, engine_args=(*arm.engine_args, ("alias", f"slow-{factor:.2f}")))
        for factor in (1.0, 1.0 + slower)
    ]
    return Settings(
        title="planted",
        source=str(model),
        a=named[0],
        b=named[1],
        load=Load(
            dataset="random",
            prompts=REQUESTS,
            input_tokens=INPUT,
            output_tokens=OUTPUT,
            concurrency=1,
            rate=None,
            seed=seed,
        ),
        dataset=RandomTokens(input_tokens=INPUT, output_tokens=OUTPUT),
        warm_up=2,
        quality_tokens=None,
        prefix_rounds=None,
        blocks=blocks,
        sequential=True,
        against_itself=not slower,
    )


def wrapper(folder: Path) -> Path:
    """The slow server as one executable."""
    path = folder / "llama-server"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "slow_server.py"}" "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def report(what: str, records: list[Record]) -> None:
    """The verdicts of one kind of experiment."""
    if not records:
        return
    codes = Counter(record.ab.verdict.code for record in records if record.ab)
    designs = [record.ab.design for record in records if record.ab and record.ab.design]
    shares = sorted(design.requests / (design.requests + design.requests_saved) for design in designs)
    noises = sorted(
        row.noise * (2 * design.blocks) ** 0.5 / 2**0.5
        for record, design in zip(records, designs, strict=True)
        if record.ab
        for row in record.ab.performance
        if row.metric == "output_throughput" and row.noise is not None
    )
    told = ", ".join(f"{count} {code}" for code, count in codes.most_common())
    print(
        f"{what:12} {told}; requests sent, median {shares[len(shares) // 2]:.0%} of the most; two runs of one arm stay"
        f" within {noises[len(noises) // 2]:.1%} (median)",
        flush=True,
    )


def main() -> None:
    """Runs every experiment, one line a kind."""
    model, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20
    blocks = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["LLAMA_SERVER"] = str(wrapper(folder))
        for percent in map(int, sys.argv[4:] or ("0", "10", "1")):
            what, times = (f"{percent} % slower", count // 2) if percent else ("A/A", count)
            slower = percent / 100
            began, records = time.monotonic(), []
            for number in range(times):
                lab = folder / f"{what.replace(' ', '').replace('/', '')}-{number}"
                records.append(api.ab(settings(model, slower, blocks, number), lab))
                found = records[-1].ab
                assert found is not None
                print(f"  {what} {number + 1}: {found.verdict.code}, {found.verdict.text}", file=sys.stderr, flush=True)
            report(what, records)
            print(f"{'':12} {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
