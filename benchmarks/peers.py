"""kvfit, hf-mem, vramscout, ridgepoint and kvlab on the same configs, in one run.

    python benchmarks/peers.py FOLDER [--truth TABLE] [--formulas FILE] [--only NAME ...] [--json FILE]

FOLDER holds config.json files by name (`org__model.json`; an index.jsonl beside them may name the models). Each tool is
asked for the cache of one sequence of 8,192 tokens (less where the model has less) in BF16 on one GPU, as a process of
its own. The peers are installed from PyPI into an environment of their own that is removed afterwards, and read the
configs from a stand-in of the Hub on loopback (peers_hub.py); kvlab reads the file. TABLE is a table of vLLM's own
planning code, FILE one of formulas; both are optional, and a model without a reference is not judged
(peers_truth.py).

    within 1 %   of any reference
    wrong        further from all of them; "worst" is the largest ratio, either way
    refused      a message instead of a number; "crashed" when it is a traceback
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kvlab import api
from kvlab.core.errors import KvlabError
from peers_hub import hub
from peers_truth import GIB, references

TOKENS, CALL_SECONDS, INSTALL_SECONDS, CLOSE = 8192, 60.0, 300.0, 0.01
_LONGEST = ("max_position_embeddings", "n_positions", "n_ctx", "context_length", "seq_length", "max_sequence_length")
_NOT_CACHE = ("Model weights", "CUDA / runtime", "Prefill scratch", "Safety reserve")


class Answer(NamedTuple):
    """What a tool made of one config."""

    bytes: float | None
    seconds: float
    said: str


class Tool(NamedTuple):
    """How a tool is asked, and where its answer stands."""

    name: str
    argv: Callable[[str, int], list[str]]
    read: Callable[[dict[str, Any]], float | None]


def _vramscout_bytes(found: dict[str, Any]) -> float:
    parts = found["parts_gib"].items()
    return GIB * float(sum(size for name, size in parts if not name.startswith(_NOT_CACHE)))


def _kvlab_bytes(found: dict[str, Any]) -> float:
    return float(sum(row["bytes_per_sequence"] for row in found["layout"]))


PEERS = (
    Tool(
        "kvfit",
        lambda model, tokens: [model, *f"--context {tokens} --kv-dtype bf16 --hardware h100 --json".split()],
        lambda found: found["cache"]["bytes_per_sequence"],
    ),
    Tool(
        "hf-mem",
        lambda model, tokens: [
            *("--model-id", model),
            *f"--experimental --max-model-len {tokens} --kv-cache-dtype bfloat16 --json-output".split(),
        ],
        lambda found: found.get("kv_cache"),
    ),
    Tool(
        "vramscout",
        lambda model, tokens: [model, *f"--context {tokens} --kv-dtype bf16 --vram-gib 80 --json".split()],
        _vramscout_bytes,
    ),
    Tool(
        "ridgepoint",
        lambda model, tokens: [
            *("fit", model),
            *f"--ctx {tokens} --gpu h100-80gb --kv-cache-dtype bf16 --json".split(),
        ],
        lambda found: found["capacity"]["bytes_per_seq"],
    ),
)
KVLAB = Tool(
    "kvlab",
    lambda file, tokens: [
        *("plan", file),
        *f"--context {tokens} --kv-dtype bfloat16 --gpu h100-80gb --pool-gib 64 --json".split(),
    ],
    _kvlab_bytes,
)


def ask(tool: Tool, program: Path, model: str, tokens: int, env: Mapping[str, str]) -> Answer:
    """One call of a tool, at most a minute long."""
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [str(program), *tool.argv(model, tokens)],
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(None, CALL_SECONDS, f"no answer within {CALL_SECONDS:.0f} s")
    seconds = time.perf_counter() - began
    said = (done.stderr.strip() or done.stdout.strip())[-2000:]
    try:
        found = tool.read(json.loads(done.stdout[done.stdout.index("{") :])) if done.returncode == 0 else None
    except (ValueError, KeyError, TypeError) as error:
        return Answer(None, seconds, f"{type(error).__name__}: {error}; {said}")
    return Answer(found, seconds, said)


def install(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Version of each peer that could be installed; trustme, which makes the stand-in's certificate, comes along."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    versions = {}
    for name in (*names, "trustme"):
        argv = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        if done.returncode == 0:
            asked = [python, "-c", "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))", name]
            versions[name] = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return versions


def models(folder: Path) -> dict[str, Path]:
    """Model id -> config file."""
    index = folder / "index.jsonl"
    named = (
        {row["file"]: row["model"] for row in map(json.loads, index.read_text().splitlines())} if index.exists() else {}
    )
    files = sorted(folder.glob("*.json"))
    return {named.get(file.name) or file.stem.replace("__", "/", 1): file for file in files}


def tokens_of(file: Path) -> int:
    """8,192, or the largest power of two of tokens that the model has."""
    config = json.loads(file.read_text())
    parts = (config, config.get("text_config"), config.get("language_config"))
    stated: list[int] = [
        part[key] for part in parts if isinstance(part, dict) for key in _LONGEST if isinstance(part.get(key), int)
    ]
    return min(TOKENS, *(1 << (length.bit_length() - 1) for length in stated if length > 0), TOKENS)


class Row(NamedTuple):
    """One tool over all configs."""

    name: str
    version: str
    answers: dict[str, Answer]
    judged: dict[str, float]
    """Ratio to the nearest reference, of the answers that have one."""

    def line(self) -> str:
        """As it is printed."""
        given = [answer for answer in self.answers.values() if answer.bytes is not None]
        crashed = sum("Traceback" in a.said for a in self.answers.values() if a.bytes is None)
        wrong = [ratio for ratio in self.judged.values() if abs(ratio - 1) > CLOSE]
        nothing = sum(not ratio for ratio in wrong)
        worst = max((max(ratio, 1 / ratio) for ratio in wrong if ratio), default=1.0)
        furthest = f"{worst:.1f}x" + (f", {nothing} of 0 bytes" if nothing else "")
        seconds = statistics.median(answer.seconds for answer in self.answers.values())
        counts = [len(given), len(self.judged) - len(wrong), len(wrong), len(given) - len(self.judged)]
        refused = len(self.answers) - len(given)
        cells = [*counts, refused - crashed, crashed, furthest if wrong else "-", f"{seconds:.2f} s"]
        return "| " + " | ".join([f"{self.name} {self.version}", *map(str, cells)]) + " |"


def judge(answers: Mapping[str, Answer], known: Mapping[str, list[float]]) -> dict[str, float]:
    """How far each answer is from the reference nearest to it."""
    found = {}
    for model, answer in answers.items():
        if answer.bytes is not None and known.get(model):
            found[model] = min((answer.bytes / one for one in known[model]), key=lambda ratio: abs(ratio - 1))
    return found


def in_process(files: Mapping[str, Path]) -> float:
    """Median seconds of kvlab's Python call, of the configs that it plans, after the first."""
    seconds: list[float] = []
    for file in files.values():
        began = time.perf_counter()
        try:
            api.plan(file, context=tokens_of(file), kv_dtype="bfloat16", gpu="h100-80gb", pool_gib=64)
        except KvlabError:
            continue
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:]) if len(seconds) > 1 else float("nan")


def run_all(files: Mapping[str, Path], known: Mapping[str, list[float]], folder: Path) -> tuple[list[Row], list[str]]:
    """A row for each tool that could be installed, and the names of the others."""
    place = folder / "venv"
    versions = install(place, [tool.name for tool in PEERS])
    subprocess.run(
        [str(place / "bin" / "python"), "-m", "trustme", "-q", "-d", str(folder), "-i", "huggingface.co"], check=True
    )
    configs = {model: file.read_bytes() for model, file in files.items()}
    plain = {"PATH": os.environ["PATH"], "HOME": str(folder), "NO_COLOR": "1"}
    kvlab = Path(sys.executable).with_name("kvlab")
    answers: dict[str, dict[str, Answer]] = {tool.name: {} for tool in (*PEERS, KVLAB) if tool.name in versions}
    answers["kvlab"] = {}
    with hub(configs, folder) as proxy:
        env = plain | {"HTTPS_PROXY": proxy, "SSL_CERT_FILE": str(folder / "client.pem")}
        for model, file in files.items():
            tokens = tokens_of(file)
            for tool in PEERS:
                if tool.name in versions:
                    answers[tool.name][model] = ask(tool, place / "bin" / tool.name, model, tokens, env)
            answers["kvlab"][model] = ask(KVLAB, kvlab, str(file), tokens, plain)
    versions["kvlab"] = api_version()
    rows = [Row(name, versions[name], found, judge(found, known)) for name, found in answers.items()]
    return rows, [tool.name for tool in PEERS if tool.name not in versions]


def api_version() -> str:
    """kvlab's own version."""
    from importlib.metadata import version

    return version("kvlab")


def main(argv: list[str]) -> int:
    """Prints the table, then what is wrong by more than a factor of two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--formulas", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path, help="file for every answer")
    asked = parser.parse_args(argv)
    files = {model: file for model, file in models(asked.folder).items() if not asked.only or file.stem in asked.only}
    table = references(asked.truth, asked.formulas)
    known = {}
    for model, file in files.items():
        names = (model.lower(), model.lower().rpartition("/")[2])
        known[model] = next((table[name, tokens_of(file)] for name in names if (name, tokens_of(file)) in table), [])
    with tempfile.TemporaryDirectory() as folder:
        rows, missing = run_all(files, known, Path(folder))
    print(
        f"{len(files)} configs, {sum(map(bool, known.values()))} with a reference; {TOKENS:,} tokens in BF16, one GPU\n"
    )
    print("| tool | answered | within 1 % | wrong | no reference | refused | crashed | worst | median wall time |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        print(row.line())
    for name in missing:
        print(f"| {name} | could not be installed | | | | | | | |")
    if asked.json is not None:
        asked.json.write_text(json.dumps({row.name: _detail(row, known) for row in rows}, indent=1))
    print(f"\nkvlab inside a running Python: {1000 * in_process(files):.1f} ms a plan (median)")
    return 0


def _detail(row: Row, known: Mapping[str, list[float]]) -> dict[str, Any]:
    return {
        model: {
            "bytes": answer.bytes,
            "references": known[model],
            "seconds": answer.seconds,
            "said": answer.said[-300:],
        }
        for model, answer in row.answers.items()
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
