"""What kvlab, polyserve and vramscout read in the same golden logs, against what a person reads in them.

    python benchmarks/log_peers.py [--environments FOLDER]

The peers are installed from PyPI, each into a virtual environment of its own under FOLDER (a folder that is removed
afterwards). vramscout is asked by its command, polyserve by `polyserve.memlog.parse_log`, which its benchmark calls and
which is told the engine; kvlab finds the engine out itself. The logs are those of tests/golden/*/logs.jsonl that were
recorded or ran here; the same file says what a person reads in each.

    tokens        that the cache holds          cache     its bytes, of all devices
    concurrency   requests of the context       weights   bytes as loaded

    right   as a person reads it (within 0.01 %)
    wrong   something else, or a number where the log states none
    -       nothing where the log states one
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kvlab import engines
from kvlab.core.errors import KvlabError
from kvlab.core.units import GIB, MIB
from kvlab.observe import read_log
from log_table import folder, index

UNITS = {"B": 1, "MB": MIB, "MiB": MIB, "GB": GIB, "GiB": GIB}
"""As the engines print them: none of their sizes is decimal."""
CLOSE, SECONDS = 0.0001, 300.0
QUANTITIES = ("tokens", "concurrency", "cache", "weights")
Answer = dict[str, float | None]

POLYSERVE = """
import json, sys
from polyserve.memlog import parse_log
found = parse_log(sys.argv[1], open(sys.argv[2], encoding="utf-8", errors="replace").read())
print(json.dumps(found.model_dump()))
"""
BACKENDS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp-cuda", "ollama": "llamacpp-cuda"}
"""polyserve's name of the engine; Ollama's log holds the lines of its llama.cpp. It has no reader for the others."""


class Log(NamedTuple):
    """A golden log and what a person reads in it."""

    engine: str
    path: Path
    truth: Answer


def quantities(says: Mapping[str, float | str | None]) -> Answer:
    """The four quantities, of what is said in kvlab's words."""

    def first(*names: str) -> float | None:
        found = (says.get(name) for name in names)
        return next((float(value) for value in found if value is not None), None)

    caches = [f"kv_{name}_bytes" for name in ("full", "window", "state", "k", "v")]
    parts = [float(value) for name in caches if (value := says.get(name)) is not None]
    return {
        "tokens": first("kv_tokens", "n_ctx"),
        "concurrency": first("max_concurrency"),
        "cache": first("kv_pool_bytes", "kv_allocated_bytes", "kv_bytes") or (sum(parts) if parts else None),
        "weights": first("weights_bytes", "weights_loaded_bytes"),
    }


def logs() -> list[Log]:
    """The golden logs that state any of the four."""
    found = []
    for engine in engines.names():
        for row in index(engine):
            if row["from"] == "imitation" or "says" not in row:
                continue
            truth = quantities({name: _number(value) for name, value in row["says"].items()})
            if any(value is not None for value in truth.values()):
                found.append(Log(engine, (folder(engine) / row["file"]).resolve(), truth))
    return found


def _number(value: float | str) -> float | str:
    number, _, unit = value.partition(" ") if isinstance(value, str) else ("", "", "")
    return float(number) * UNITS[unit] if unit in UNITS else value


def by_kvlab(log: Log) -> Answer:
    """kvlab's answer; the engine is not told."""
    try:
        found = read_log(str(log.path))
    except KvlabError:
        return dict.fromkeys(QUANTITIES)
    return quantities({item.name: item.value for item in found.seen})


def by_polyserve(python: Path, log: Log) -> Answer:
    """polyserve's answer; what it counts on the host is added to what it counts on devices."""
    backend = BACKENDS.get(log.engine)
    if backend is None:
        return dict.fromkeys(QUANTITIES)
    found = _asked([str(python), "-c", POLYSERVE, backend, str(log.path)])
    details = found.get("details", {})

    def mib(name: str) -> float | None:
        own, host = found.get(f"{name}_mb"), details.get(f"host_{name}_mb", 0.0)
        return None if own is None else (own + host) * MIB

    return {
        "tokens": found.get("kv_tokens"),
        "concurrency": None,
        "cache": mib("kv"),
        "weights": mib("weights"),
    }


def by_vramscout(python: Path, log: Log) -> Answer:
    """vramscout's answer."""
    found = _asked([str(python.parent / "vramscout"), "--parse-log", str(log.path), "--json"])

    def gib(name: str) -> float | None:
        return None if found.get(name) is None else found[name] * GIB

    return {
        "tokens": found.get("kv_tokens"),
        "concurrency": found.get("max_concurrency"),
        "cache": gib("available_kv_gib"),
        "weights": gib("model_loading_gib"),
    }


def _asked(argv: list[str]) -> dict[str, Any]:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def verdict(truth: float | None, answer: float | None) -> str:
    """ "right", "wrong" or "-"; "" where nothing is stated and nothing was said."""
    if answer is None:
        return "" if truth is None else "-"
    return "right" if truth is not None and abs(answer - truth) <= CLOSE * truth else "wrong"


def install(place: Path, name: str) -> tuple[Path, str]:
    """The Python of a virtual environment that has the peer, and the peer's version."""
    python = place / name / "bin" / "python"
    if not python.exists():
        venv.create(place / name, with_pip=True)
        argv = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name]
        subprocess.run(argv, check=True, timeout=SECONDS)
    asked = [str(python), "-c", "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))", name]
    return python, subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def compare(tools: Mapping[str, Callable[[Log], Answer]]) -> None:
    """Prints the answers that are not right, then the table."""
    counted: dict[tuple[str, str], Counter[str]] = {}
    of_quantity: dict[tuple[str, str], Counter[str]] = {}
    for log in logs():
        for tool, ask in tools.items():
            answer = ask(log)
            verdicts = {name: verdict(log.truth[name], answer[name]) for name in QUANTITIES}
            counted.setdefault((tool, log.engine), Counter()).update(verdicts.values())
            for name, found in verdicts.items():
                of_quantity.setdefault((tool, name), Counter())[found] += 1
                if found == "wrong":
                    print(f"wrong: {tool}, {log.engine}/{log.path.name}: {name} {answer[name]}, is {log.truth[name]}")
    print("\n| right / wrong / - | " + " | ".join(tools) + " |")
    print("| --- |" + " --- |" * len(tools))
    for engine in engines.names():
        _row(engine, [counted.get((tool, engine), Counter()) for tool in tools])
    for name in QUANTITIES:
        _row(name, [of_quantity[tool, name] for tool in tools])
    _row("all", [sum((of_quantity[tool, name] for name in QUANTITIES), Counter[str]()) for tool in tools])


def _row(name: str, counts: list[Counter[str]]) -> None:
    cells = [f"{count['right']} / {count['wrong']} / {count['-']}" for count in counts]
    print(f"| {name} | {' | '.join(cells)} |")


def main(argv: list[str] | None = None) -> int:
    """Installs the peers and compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path)
    given = parser.parse_args(argv).environments
    with tempfile.TemporaryDirectory() as temporary:
        place = given or Path(temporary)
        polyserve, polyserve_version = install(place, "polyserve")
        vramscout, vramscout_version = install(place, "vramscout")
        print(f"polyserve {polyserve_version}, vramscout {vramscout_version}, {len(logs())} logs\n")
        compare(
            {
                "kvlab": by_kvlab,
                "polyserve": lambda log: by_polyserve(polyserve, log),
                "vramscout": lambda log: by_vramscout(vramscout, log),
            }
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
