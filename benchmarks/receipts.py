"""Numbers that engines printed in public logs, beside kvlab's for the same model, flags and pool.

    python benchmarks/receipts.py [RECEIPTS]

RECEIPTS holds one log a line (a .jsonl file with its configs in the folder `configs` beside it, or the default, an
extract in tests/golden/receipts). A receipt counts when its model's config is in hand and it states the pool and
something that follows from it: tokens, blocks, requests that run together, or the refusal's GiB and length. It agrees
within half a per cent, the rounding of a pool that is printed with two decimals, and is not claimed where kvlab says
that it does not compute the engine's arithmetic. What does not count is listed with the reason. The exit code is 1 when
fewer than 95 % of the claimed ones agree.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from math import inf
from pathlib import Path

import msgspec

from kvlab import source
from kvlab.core.engine import Carved
from kvlab.core.errors import KvlabError
from kvlab.core.plan import Ask
from kvlab.core.units import GIB, MIB
from kvlab.planning import prepare
from kvlab.source import Loaded
from receipt_rows import Case, case

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
EXTRACT = GOLDEN / "receipts" / "receipts.jsonl"
TOLERANCE, TARGET = 0.005, 0.95

ERAS = ("0.32.0", "0.29.0", "0.28.0", "0.27.0", "0.25.0", "0.19.0", "0.10.0")
"""A release of each set of rules: those that a log may follow which does not state its own."""
EXPLAINED = {
    "p032": "perhaps the printed pool is one rank's, and a smaller one of the four decides; the log does not say",
}
"""Why a receipt that counts does not agree."""


def predicted(plan: Carved) -> dict[str, float]:
    """kvlab's numbers under the names of `printed`."""
    capacity = plan.capacity
    caches = {"kv_full_bytes": "main MiB", "kv_window_bytes": "swa MiB", "kv_indexer_bytes": "indexer MiB"}
    stated = {row.name: row.value for row in plan.expects if not isinstance(row.value, str)}
    found = {caches[name]: value / MIB for name, value in stated.items() if name in caches}
    if capacity is not None:
        found |= {
            "tokens": capacity.tokens,
            "max_concurrency": capacity.max_concurrency,
            "num_blocks": capacity.num_blocks,
            "longest": capacity.longest_request_tokens,
        }
    if plan.kv.bytes_per_sequence is not None:
        found["request_gib"] = plan.kv.bytes_per_sequence / GIB
    return found


def rounding(name: str, value: float) -> float:
    """Half of the last printed digit, as a share."""
    return 0.005 / value if name in ("max_concurrency", "request_gib") else 0.0


def judge(found: Case, loaded: Loaded) -> tuple[bool | None, str]:
    """Whether all that was printed agrees (None: not claimed), and the numbers side by side.

    A receipt that leaves its release open is read by the rules of the release that describes it best.
    """
    agrees, text, _, words = min(
        ((*side_by_side(found, ask, loaded), words) for ask, words in possible(found.ask)), key=lambda result: result[2]
    )
    return agrees, text + words


def possible(ask: Ask) -> list[tuple[Ask, str]]:
    """The request under each release that the receipt leaves open, with prefix caching on where it says nothing."""
    if ask.engine != "vllm":
        return [(ask, "")]
    releases = [(ask, "")]
    if ask.engine_version is None:
        releases = [(msgspec.structs.replace(ask, engine_version=era), f" [by {era}]") for era in ERAS]
    cached = [
        (msgspec.structs.replace(one, prefix_caching=True), f"{words} [with prefix caching]") for one, words in releases
    ]
    return releases + (cached if ask.prefix_caching is None else [])


def side_by_side(found: Case, ask: Ask, loaded: Loaded) -> tuple[bool | None, str, float]:
    """What was printed beside what one set of rules gives, and the largest difference as a share."""
    try:
        prepared = prepare(loaded, ask)
        plan = prepared.planner.carve(prepared.deployment)
    except KvlabError as error:
        return False, f"refused: {error}", inf
    reason = next((doubt.text for doubt in plan.doubts if doubt.key == "capacity"), None)
    if reason is not None:
        return None, reason, inf
    ours, words, agrees, most = predicted(plan), [], True, 0.0
    for name, value in found.printed.items():
        off = ours.get(name, 0.0) / value - 1
        agrees &= abs(off) <= TOLERANCE + rounding(name, value)
        most = max(most, abs(off))
        text = f"{ours.get(name, 0.0):,.2f}".removesuffix(".00") + f" ({100 * off:+.2f} %)"
        words.append(f"{name} {f'{value:,.2f}'.removesuffix('.00')}: {text}")
    return agrees, "; ".join(words), most


def main(argv: list[str]) -> int:
    """Prints a line for each receipt that counts, the share that agrees, and why the others do not count."""
    path = Path(argv[0]) if argv else EXTRACT
    folder = path.parent / "configs" if (path.parent / "configs").is_dir() else GOLDEN / "configs"
    configs = {file.stem: file for file in folder.glob("*.json")}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    results, left_out = Counter[bool | None](), dict[str, list[str]]()
    for row in rows:
        found = case(row, configs)
        if isinstance(found, str):
            left_out.setdefault(found, []).append(row["id"])
            continue
        agrees, text = judge(found, source.load(str(configs[found.config])))
        results[agrees] += 1
        mark = {True: "agrees", False: "DIFFERS", None: "not claimed"}[agrees]
        engine = f"{found.ask.engine} {found.ask.engine_version or '?'}"
        print(f"{row['id']:5} {mark:11} {engine:13} {(row['model'] or 'a stated shape')[:34]:34} {text}")
        if agrees is False:
            print(f"{'':18}{EXPLAINED.get(row['id'], 'not explained')}")
    good, claimed = results[True], results[True] + results[False]
    share = good / claimed if claimed else 0.0
    print(f"{good} of {claimed} claimed receipts agree within {100 * TOLERANCE:g} % ({100 * share:.1f} %);", end=" ")
    print(f"{results[None]} are not claimed")
    for reason, ids in sorted(left_out.items(), key=lambda item: -len(item[1])):
        print(f"not counted: {len(ids):3} {reason}: {', '.join(ids)}")
    return 0 if share >= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
