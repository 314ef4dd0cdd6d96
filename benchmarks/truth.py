"""Share of vLLM 0.32.0's own answers that kvlab reproduces to the block, by architecture.

    python benchmarks/truth.py [TABLE]

TABLE holds one answer a line: a table of vLLM's own planning code (.jsonl.gz, its configs in the folder that
`config_file` names), or an extract of one (the default, tests/golden/vllm/truth.jsonl.gz, with configs.jsonl.gz beside
it). A row is exact when blocks, block size, tokens and the printed concurrency are equal, or, where vLLM refuses,
the GiB that it asks for and the length that it suggests. A row that kvlab refuses by name or answers without a
capacity is not claimed; the exit code is 1 when a claimed row is not exact.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvlab import engines, source
from kvlab.core.engine import Deployment, Gpu
from kvlab.core.errors import BadInput, KvlabError
from kvlab.core.layout import Layout
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.core.units import GIB

EXTRACT = Path(__file__).parents[1] / "tests" / "golden" / "vllm" / "truth.jsonl.gz"
CAPABILITY = {"sm80": (8, 0), "sm90": (9, 0), "sm100": (10, 0), "sm120": (12, 0), "sm121": (12, 1)}
OTHER_MODEL = {
    "XiaomiMiMo__MiMo-7B-Base": "vLLM was run without this model's configuration class, which turns its window off"
}
Known = tuple[Model, Layout] | KvlabError


def compact(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the full table in the words of the extract; a row of the extract as it is."""
    if "config_file" not in row:
        return row
    args = {
        flag.replace("_", "-"): value if isinstance(value, str) else json.dumps(value)
        for flag, value in (row["extra"] or {}).items()
        if flag != "max_num_seqs"
    }
    found = {
        "config": Path(row["config_file"]).stem,
        "cc": row["assumed_platform"].split()[1],
        **{key: row[key] for key in ("tp", "pp", "dcp")},
        "dtype": row["kv_cache_dtype"],
        "context": row["max_model_len"],
        "batched": row["max_num_batched_tokens"],
        "block": row["user_block_size"],
        "pool": row["available_bytes"],
    }
    if not row["prefix_caching"]:
        found["prefix_caching"] = False
    if args:
        found["args"] = args
    if row.get("num_blocks") is None:
        return {**found, "needed_gib": row["error_needed_gib"], "longest": row["error_est_max_len"]}
    return {
        **found,
        "block_size": row["final_cache_config_block_size"],
        "blocks": row["num_blocks"],
        "tokens": row["kv_tokens"],
        "concurrency": row["max_concurrency"],
    }


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a table, in the words of the extract."""
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield compact(json.loads(line))


def models(table: Path, names: set[str]) -> dict[str, Known]:
    """What kvlab reads from each config that the table names, or its refusal."""
    packed = table.with_name("configs.jsonl.gz")
    if packed.exists():
        with gzip.open(packed, "rt") as lines:
            texts = {row["name"]: json.dumps(row["config"]) for row in map(json.loads, lines)}
    else:
        texts = {name: (table.parent / "configs" / f"{name}.json").read_text() for name in names}
    found: dict[str, Known] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(names):
            path = Path(folder) / f"{name}.json"
            path.write_text(texts[name])
            try:
                loaded = source.load(str(path))
                found[name] = loaded.model, loaded.layout
            except KvlabError as error:
                found[name] = error
    return found


def deployment(row: dict[str, Any], model: Model, layout: Layout) -> Deployment:
    """What the row asked of vLLM."""
    ask = Ask(
        **{key: row[key] for key in ("tp", "pp", "dcp", "context")},
        kv_dtype=row["dtype"],
        block_size=row["block"],
        max_num_batched_tokens=row["batched"],
        pool_gib=row["pool"] / GIB,
        prefix_caching=row.get("prefix_caching"),
        engine_args=tuple(row.get("args", {}).items()),
    )
    gpu = Gpu(
        name=row["cc"],
        title=row["cc"],
        usable_bytes=80 * GIB,
        bandwidth=None,
        compute_capability=CAPABILITY[row["cc"]],
        source="the table",
    )
    return Deployment(model=model, layout=layout, ask=ask, gpu=gpu, pool_bytes=row["pool"])


def compare(row: dict[str, Any], known: Known) -> tuple[bool, str | None]:
    """Whether kvlab claims the row, and what is not exact: None when all is."""
    if row["config"] in OTHER_MODEL:
        return False, OTHER_MODEL[row["config"]]
    if isinstance(known, KvlabError):
        return False, str(known)
    try:
        carved = engines.planner("vllm").carve(deployment(row, *known))
    except BadInput as error:
        return True, f"refused: {error}"
    except KvlabError as error:
        return False, str(error)
    capacity = carved.capacity
    doubted = [doubt.text for doubt in carved.doubts if doubt.key in ("capacity", "speculative-config")]
    if capacity is None or doubted:
        return False, "; ".join(doubted)
    if "needed_gib" in row:
        stated = {item.name: item.value for item in carved.expects if not isinstance(item.value, str)}
        if "request_bytes" not in stated:
            return True, "vLLM refuses, kvlab does not"
        ours = [f"{stated['request_bytes'] / GIB:.2f} GiB", stated["longest_request_tokens"]]
        theirs = [f"{row['needed_gib']:.2f} GiB", row["longest"]]
    else:
        ours = [capacity.block_size, capacity.num_blocks, capacity.tokens, f"{capacity.max_concurrency:.2f}x"]
        theirs = [row["block_size"], row["blocks"], row["tokens"], f"{row['concurrency']:.2f}x"]
        if capacity.longest_request_tokens < row["context"]:
            return True, "kvlab refuses, vLLM does not"
    return True, None if ours == theirs else f"{ours} instead of {theirs}"


def architecture(table: Path, known: dict[str, Known]) -> dict[str, str]:
    """The architecture of each config, by name."""
    packed = table.with_name("configs.jsonl.gz")
    if packed.exists():
        with gzip.open(packed, "rt") as lines:
            configs = {row["name"]: row["config"] for row in map(json.loads, lines)}
    else:
        configs = {name: json.loads((table.parent / "configs" / f"{name}.json").read_text()) for name in known}
    return {name: (configs[name].get("architectures") or ["?"])[0] for name in known}


def main(argv: list[str]) -> int:
    """Prints a line for each architecture, then every reason for a row that is not exact."""
    table = Path(argv[0]) if argv else EXTRACT
    rows = list(read(table))
    known = models(table, {row["config"] for row in rows})
    named = architecture(table, known)
    total, claimed, exact = Counter[str](), Counter[str](), Counter[str]()
    wrong, unclaimed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in rows:
        ours, reason = compare(row, known[row["config"]])
        kind = named[row["config"]]
        total[kind] += 1
        claimed[kind] += ours
        exact[kind] += ours and reason is None
        if reason is not None:
            (wrong if ours else unclaimed)[row["config"], reason] += 1
    print(f"{'architecture':44} {'rows':>6} {'claimed':>8} {'exact':>6} {'share':>8}")
    for kind in (*sorted(total), "all"):
        counts = [sum(column.values()) if kind == "all" else column[kind] for column in (total, claimed, exact)]
        share = f"{100 * counts[2] / counts[1]:7.2f}%" if counts[1] else "-"
        print(f"{kind:44} {counts[0]:6,} {counts[1]:8,} {counts[2]:6,} {share:>8}")
    for title, reasons in (("not exact", wrong), ("not claimed", unclaimed)):
        for (config, reason), count in sorted(reasons.items(), key=lambda item: -item[1])[:40]:
            print(f"{title}: {count:,} rows of {config}: {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
