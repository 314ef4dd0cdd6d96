"""Plans of GGUF files against what llama.cpp's own loader prints for them, architecture by architecture.

    python benchmarks/gguf_shapes.py [NAME ...] [--server LLAMA_SERVER] [--record FOLDER] [--embedded]

Each file has true metadata and no weights (gguf_models.py). llama-server is started with the plan's own command, for
f16 and q8_0, one slot, four slots, and four slots that share one cache; every size, count and cell that it prints of
its caches must be the plan's, and none may be printed that the plan lacks. Exit code 1 on any difference. `--server`
(or $LLAMA_SERVER, or `llama-server` on PATH) also says which tensors an architecture has. `--record` keeps each
file's metadata and the lines of its logs that state a cache: tests/golden/llamacpp/shapes was made so. `--embedded`
starts the xllamacpp wheel instead of that server.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gguf_models import SHAPES, Shape
from gguf_sparse import find_tensors, write
from kvlab import api
from kvlab.core.check import Check, CheckRow
from kvlab.core.errors import KvlabError
from kvlab.launch import Server, command
from kvlab.observe import read_log

CONTEXT, START_SECONDS = 8192, 120.0
STATES_A_CACHE = re.compile(
    r"creating .* KV cache|KV buffer size|llama_kv_cache: size|llama_memory_recurrent: size"
    r"|llama_dsv4_comp_state: \w+ ratio|llama_context: (n_ctx|n_ctx_seq) +=|output buffer size|n_ctx_slot ="
)
_SIZE = re.compile(r"kv_\w+_(bytes|layers)")


class Case(NamedTuple):
    """What is asked of the server."""

    context: int
    slots: int
    unified: bool
    dtype: str

    @property
    def title(self) -> str:
        """As its section of a recorded log is called."""
        return (
            f"-c {self.context} -np {self.slots} {'-kvu' if self.unified else '--no-kv-unified'} -ctk/-ctv {self.dtype}"
        )


CASES = [
    Case(CONTEXT, slots, unified, dtype)
    for dtype in ("f16", "q8_0")
    for slots, unified in ((1, False), (4, False), (4, True))
]


class Outcome(NamedTuple):
    """A case, how many printed quantities agree, and what does not."""

    case: Case
    agrees: int
    wrong: list[str]
    lines: list[str]


def exact(check: Check) -> list[CheckRow]:
    """Rows of what is computed: the compute buffer, an estimate for hidden sizes as published, is not among them."""
    return [row for row in check.rows if row.low == row.high]


def differences(check: Check, log: Path) -> list[str]:
    """Rows that differ or were not printed, and printed sizes of caches that the plan lacks."""
    wrong = [f"{row.name}: planned {row.planned}, seen {row.seen}" for row in exact(check) if row.verdict != "agrees"]
    planned = {row.name for row in check.rows}
    printed = {seen.name: seen.value for seen in read_log(str(log)).seen if _SIZE.fullmatch(seen.name)}
    unplanned = [name for name, value in printed.items() if value and name not in planned]
    return wrong + [f"{name}: seen {printed[name]}, not planned" for name in unplanned]


def run(model: Path, case: Case, arguments: dict[str, str]) -> Outcome:
    """One start of the server with the plan's command, and engine arguments of its own."""
    log = model.with_suffix(".log")
    try:
        plan = api.plan(
            model,
            engine="llamacpp",
            context=case.context,
            parallel=case.slots,
            kv_unified=case.unified,
            kv_dtype=case.dtype,
            engine_args=arguments,
        )
        with Server(command(plan), log) as server:
            server.wait_ready(START_SECONDS)
        check = api.check(log, plan=plan)
    except KvlabError as error:
        return Outcome(case, 0, [str(error)], [])
    lines = [line for line in log.read_text(errors="replace").splitlines() if STATES_A_CACHE.search(line)]
    return Outcome(case, sum(row.verdict == "agrees" for row in exact(check)), differences(check, log), lines)


def outcomes(shape: Shape, server: Path, folder: Path, arguments: dict[str, str]) -> Iterator[Outcome]:
    """All cases of one file, which is removed afterwards."""
    tensors = find_tensors(server, folder, shape)
    model = write(folder / f"{shape.name}.gguf", shape.arch, shape.keys, tensors)
    for case in CASES:
        yield run(model, case, arguments)
    model.unlink()


def record(folder: Path, shape: Shape, found: list[Outcome]) -> None:
    """The file's metadata, and of each log the lines that state a cache."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{shape.name}.json").write_text(json.dumps({"arch": shape.arch, "keys": shape.keys}) + "\n")
    sections = ["\n".join([f"# {outcome.case.title}", *outcome.lines]) for outcome in found]
    (folder / f"{shape.name}.log").write_text("\n".join(sections) + "\n")


def main(argv: list[str]) -> int:
    """Prints a line for each file and each difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these files")
    parser.add_argument("--server", default=os.environ.get("LLAMA_SERVER") or shutil.which("llama-server"))
    parser.add_argument("--record", type=Path, help="folder for metadata and logs")
    parser.add_argument("--embedded", action="store_true", help="start xllamacpp")
    asked = parser.parse_args(argv)
    arguments = {"embedded": "true"} if asked.embedded else {"no-warmup": "true"}
    if asked.server is None:
        parser.error("no llama-server on PATH; name one with --server")
    os.environ["LLAMA_SERVER"] = asked.server
    shapes = [shape for shape in SHAPES if not asked.names or shape.name in asked.names]
    bad = 0
    print(f"{'file':24} {'architecture':16} {'starts':>6} {'agree':>6} {'differ':>6} {'seconds':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for shape in shapes:
            began = time.perf_counter()
            try:
                found = list(outcomes(shape, Path(asked.server), Path(folder), arguments))
            except RuntimeError as error:
                found = [Outcome(CASES[0], 0, [str(error)], [])]
            wrong = [(outcome.case, reason) for outcome in found for reason in outcome.wrong]
            seconds, agrees = time.perf_counter() - began, sum(outcome.agrees for outcome in found)
            print(
                f"{shape.name:24} {shape.arch:16} {len(found):6} {agrees:6} {len(wrong):6} {seconds:8.1f}", flush=True
            )
            for case, reason in wrong:
                print(f"    {case.title}: {reason}")
            if asked.record is not None:
                record(asked.record, shape, found)
            bad += len(wrong)
    print(f"{len(shapes)} files, {bad} differences")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
