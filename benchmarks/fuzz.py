"""Damaged configs by the thousand: each must give an answer, an answer with doubts, or one line that refuses it.

    python benchmarks/fuzz.py [FOLDER] [--count 10000] [--seed 0] [--engines vllm,llamacpp] [--keep FOLDER]

Every config of FOLDER (default: tests/golden/configs) is changed in one to four places: keys are deleted, moved, taken
from another config, given a value of another JSON type, or scaled; each result is planned for each of the engines.
Counted as absurd: a number that is negative where none can be, above 2^60, infinite or not a number, and a cache of 0
bytes. Prints a table; exit code 1 when anything was a traceback (running out of 4 GiB among them), absurd, or took more
than 20 seconds of processor time. `--keep` writes the configs that did, for a closer look.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kvlab import api
from kvlab.core.errors import KvlabError
from kvlab.core.plan import Plan

CONFIGS = Path(__file__).parents[1] / "tests" / "golden" / "configs"
ENGINES = ("vllm", "llamacpp")
LARGEST = 1 << 60
SECONDS, MEMORY = 20, 4 << 30
MAY_BE_NEGATIVE = ("ledger",)
"""What is taken away is negative there, and a pool may be short of nothing."""
WORDS = (
    *("full_attention", "sliding_attention", "linear_attention", "mamba", "conv", "auto", "", "float32", "fp8", "M*-E"),
    *("\u0000", "\ud83d\ude00" * 50, "-1", "1e9", "null", "true"),
)
LARGE = (9_999, 10_000, 99_999, 100_000, 99_999_999, 100_000_000, (1 << 31) - 1, 1 << 40)
"""Around the largest numbers that are taken for a config's."""
KINDS = ("answered", "answered with doubts", "refused by name", "traceback", "absurd number", "hung")


class Hung(Exception):
    """A plan that took longer than `SECONDS`."""


def value(dice: random.Random, deep: int = 0) -> Any:
    """A value of any JSON type."""
    kind = dice.randrange(10 if deep < 3 else 7)
    if kind == 0:
        return dice.choice((None, True, False))
    if kind == 1:
        return dice.randint(-4, 300)
    if kind == 2:
        return dice.choice((1, -1)) * dice.randrange(1 << dice.randrange(1, 200))
    if kind == 3:
        return dice.choice((0.0, -0.0, 0.5, 1e308, -1e308, math.nan, math.inf, -math.inf, dice.uniform(-1e6, 1e6)))
    if kind in (4, 5):
        return dice.choice(WORDS)
    if kind == 6:
        return dice.choice(LARGE)
    if kind == 7:
        return [value(dice, deep + 1) for _ in range(dice.randrange(5))]
    if kind == 8:
        return [dice.randint(0, 2)] * dice.choice((1, 2, 32, 61, 100_000))
    return {dice.choice(("type", "num_bits", "factor", "a")): value(dice, deep + 1) for _ in range(dice.randrange(3))}


def scaled(number: float, dice: random.Random) -> Any:
    """A number made from another one: what a slip of the finger makes."""
    change = dice.randrange(9)
    if change == 8:
        return dice.choice(LARGE)
    if change < 4 and isinstance(number, int):
        return (0, -number, number + dice.choice((-1, 1)), number * 10 ** dice.randrange(1, 12))[change]
    return (number * 2, number // 2 if number == number and abs(number) < 1e300 else 0, str(number), [number])[
        change % 4
    ]


def objects(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The config and every object in it, the outer ones more often."""
    found, level = [config], [config]
    while level:
        level = [inner for held in level for inner in held.values() if isinstance(inner, dict)]
        found += level[:20]
    return found


def mutated(original: dict[str, Any], others: list[dict[str, Any]], dice: random.Random) -> dict[str, Any]:
    """The config with one to four changes."""
    config: dict[str, Any] = json.loads(json.dumps(original))
    for _ in range(dice.randint(1, 4)):
        place = dice.choice(objects(config))
        stranger = dice.choice(objects(dice.choice(others)))
        change, keys = dice.randrange(6), list(place)
        key = dice.choice(keys) if keys else "num_hidden_layers"
        if change == 0 and keys:
            del place[key]
        elif change == 1 and isinstance(place.get(key), int | float) and not isinstance(place[key], bool):
            place[key] = scaled(place[key], dice)
        elif change == 2 and stranger:
            taken = dice.choice(list(stranger))
            place[taken] = stranger[taken]
        elif change == 3 and isinstance(place.get(key), list) and place[key]:
            place[key] = place[key][: dice.randrange(len(place[key]) + 1)] + [value(dice)] * dice.randrange(2)
        elif change == 4 and stranger:
            place[dice.choice(list(stranger))] = value(dice)
        else:
            place[key] = value(dice)
    return config


def numbers(document: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a document with the way to it."""
    if isinstance(document, dict):
        for key, inner in document.items():
            yield from numbers(inner, f"{path}.{key}" if path else key)
    elif isinstance(document, list | tuple):
        for inner in document:
            yield from numbers(inner, path)
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path, document


def absurd(plan: Plan) -> str | None:
    """The first number that cannot be, with the way to it."""
    for path, number in numbers(msgspec.to_builtins(plan)):
        if not math.isfinite(number) or abs(number) > LARGEST:
            return f"{path} = {number}"
        if number < 0 and not path.startswith(MAY_BE_NEGATIVE):
            return f"{path} = {number}"
    if not any(line.bytes_per_token or line.bytes_per_sequence for line in plan.layout):
        return "a cache of 0 bytes"
    return None


def outcome(path: Path, engine: str, options: dict[str, Any]) -> tuple[str, str]:
    """What planning the config came to, and what to print of it."""
    try:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        plan = api.plan(path, engine=engine, **options)
        wrong = absurd(plan)
    except KvlabError as error:
        line = str(error)
        return ("refused by name", line) if len(line.splitlines()) == 1 else ("traceback", f"not one line: {line!r}")
    except Hung:
        return "hung", traceback.format_exc(limit=-4)
    except Exception:
        return "traceback", traceback.format_exc(limit=-4)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if wrong is not None:
        return "absurd number", wrong
    return ("answered with doubts" if plan.doubts else "answered"), ""


def requests(dice: random.Random, engine: str) -> dict[str, Any]:
    """How the plan is asked for: on a GPU, or with a pool."""
    options: dict[str, Any] = dice.choice(({"gpu": "h100-80gb"}, {"pool_gib": 20.0}, {}))
    if engine == "vllm" and dice.random() < 0.3:
        return options | {"tp": dice.choice((2, 3, 8))}
    return options if dice.random() < 0.7 else options | {"context": dice.choice((256, 4096, 1 << 20))}


def run(folder: Path, options: argparse.Namespace) -> int:
    """Plans mutated configs with each engine, and prints what came of them."""
    count, seed, keep, engines = options.count, options.seed, options.keep, options.engines.split(",")
    paths = sorted(folder.glob("*.json"))
    configs = [config for path in paths if isinstance(config := json.loads(path.read_bytes()), dict)]
    tally, shown, slowest = Counter[tuple[str, str]](), Counter[str](), (0.0, "")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "mutated.json"
        for number in range(count):
            dice = random.Random(f"{seed} {number}")
            config = mutated(configs[number % len(configs)], configs, dice)
            file.write_text(json.dumps(config))
            for engine in engines:
                before = time.process_time()
                kind, what = outcome(file, engine, requests(dice, engine))
                slowest = max(slowest, (time.process_time() - before, f"{engine}, number {number}"))
                tally[engine, kind] += 1
                if kind in KINDS[3:]:
                    shown[what] += 1
                    if shown[what] == 1 and len(shown) <= 30:
                        print(f"--- {engine}, {paths[number % len(paths)].name}, number {number}: {kind}\n{what}")
                    if keep is not None and shown[what] <= 3:
                        (keep / f"{number}-{engine}.json").write_text(json.dumps(config))
    table(tally, engines)
    took, (longest, which) = time.perf_counter() - start, slowest
    print(f"{count:,} configs from {len(configs)} in {took:.0f} s; slowest plan {longest:.2f} s ({which})")
    return 1 if shown else 0


def table(tally: Counter[tuple[str, str]], engines: list[str]) -> None:
    """Counts by engine."""
    print(f"{'':24}" + "".join(f"{engine:>14}" for engine in engines))
    for kind in KINDS:
        print(f"{kind:24}" + "".join(f"{tally[engine, kind]:>14,}" for engine in engines))


def _hung(*_: object) -> None:
    raise Hung


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=CONFIGS)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGPROF, _hung)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return run(options.folder, options)


if __name__ == "__main__":
    sys.exit(main())
