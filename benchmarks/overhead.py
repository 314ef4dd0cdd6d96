"""What vLLM took beside weights and cache in public logs, beside kvlab's estimate from the other logs.

    python benchmarks/overhead.py [LOGS]

LOGS holds one start a line (tests/golden/receipts/overhead.jsonl): GPU, share, weights and pool, so that the overhead
is what is left. Each log is estimated with constants fitted on the others (leave one out); the peer is the median of
the others, a constant guess. The exit code is 1 when the constants in the planner are not those of all logs.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import msgspec

from kvlab.core.engine import Deployment, Gpu
from kvlab.core.layout import Layout, Row
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.core.units import GIB
from kvlab.engines.vllm.overhead import FIT, Fit, overhead

LOGS = Path(__file__).parents[1] / "tests" / "golden" / "receipts" / "overhead.jsonl"
NAMES = ("sorted_bytes", "sampler_bytes", "workspace", "context", "network", "graph")
BOUNDS = {
    "sorted_bytes": (20.0, 45.0),
    "sampler_bytes": (8.0, 40.0),
    "workspace": (0.0, 1.0),
    "context": (0.05, 0.6),
    "network": (0.0, 1.5),
    "graph": (0.0, 40.0),
}
"""What the constants can be: bytes of a logit in the sampler's copies, GiB and MiB."""
Start = dict[str, Any]


def deployment(row: Start) -> Deployment:
    """The start that a log describes, as the planner sees it."""
    rows: tuple[Row, ...] = ()
    if row.get("indexer"):
        rows = tuple(Row(kind=kind, layers=(0,), heads=1, k_dim=128) for kind in ("latent", "indexer"))
    sizes: Any = {key: row.get(key) for key in ("hidden", "vocab", "ffn", "experts_per_token", "expert_ffn", "heads")}
    model = Model(
        name=row["model"], model_type="a published shape", context=row["context"], layers=row["layers"], **sizes
    )
    gpu = Gpu(
        name=row["gpu"],
        title=row["gpu"],
        usable_bytes=round(row["usable_gib"] * GIB),
        bandwidth=None,
        compute_capability=None,
        source=row["source"],
    )
    ask = Ask(
        engine_version=row["version"],
        tp=row.get("tp", 1),
        context=row["context"],
        max_num_batched_tokens=row.get("batched"),
        max_num_seqs=row.get("seqs"),
    )
    return Deployment(model=model, layout=Layout(rows), ask=ask, gpu=gpu, pool_bytes=None)


def taken(row: Start) -> float:
    """GiB that were neither weights nor cache."""
    return float(row["usable_gib"] * row["util"] - row["weights_gib"] - row["pool_gib"])


def estimate(row: Start, fit: Fit, name: str = "") -> tuple[float, float, float]:
    """Low, guess and high in GiB, of all terms or of the one of that name."""
    terms = [term for term in overhead(deployment(row), fit) if name in ("", term.name)]
    low, guess, high = (sum(getattr(term, end) for term in terms) / GIB for end in ("low", "bytes", "high"))
    return low, guess, high


def fitted(rows: list[Start]) -> Fit:
    """Constants that describe `rows` best; logs that stand out weigh less (soft L1)."""
    from scipy.optimize import least_squares

    def residuals(values: Any) -> list[float]:
        fit = Fit(**dict(zip(NAMES, map(float, values), strict=True)))
        whole = [(estimate(row, fit)[1] - taken(row)) / (0.3 + 0.1 * taken(row)) for row in rows]
        stated = [row for row in rows if "non_torch_gib" in row]
        return whole + [(estimate(row, fit, "non_torch")[1] - row["non_torch_gib"]) / 0.3 for row in stated]

    start = [getattr(FIT, name) for name in NAMES]
    low, high = zip(*(BOUNDS[name] for name in NAMES), strict=True)
    found = least_squares(residuals, start, bounds=(low, high), loss="soft_l1")
    return Fit(**dict(zip(NAMES, map(float, found.x), strict=True)))


def main(argv: list[str]) -> int:
    """Prints a line for each log, the errors of both, and the constants of all logs."""
    path = Path(argv[0]) if argv else LOGS
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    errors, constant, inside = [], [], 0
    print(
        f"{'log':5} {'vLLM':7} {'model':34} {'tp':>2} {'taken':>6} {'guess':>6} {'low':>6} {'high':>6} {'constant':>8}"
    )
    for row in rows:
        others = [other for other in rows if other is not row]
        low, guess, high = estimate(row, fitted(others))
        seen, middle = taken(row), statistics.median(map(taken, others))
        errors.append(abs(guess - seen))
        constant.append(abs(middle - seen))
        inside += low <= seen <= high
        title = f"{row['model'][:34]:34} {row.get('tp', 1):2}"
        print(f"{row['id']:5} {row['version']:7} {title} {seen:6.2f} {guess:6.2f} {low:6.2f} {high:6.2f} {middle:8.2f}")
    for name, found in (("leave one out", errors), ("constant guess", constant)):
        print(f"{name}: median error {statistics.median(found):.2f} GiB, worst {max(found):.2f} GiB")
    print(f"inside the range: {inside} of {len(rows)} ({100 * inside / len(rows):.0f} %)")
    fit = fitted(rows)
    print("constants of all logs: " + ", ".join(f"{name} {getattr(fit, name):.3g}" for name in NAMES))
    near = all(abs(getattr(fit, name) - getattr(FIT, name)) <= 0.1 * getattr(FIT, name) for name in NAMES)
    print("the planner's constants are these" if near else f"the planner has others: {msgspec.structs.asdict(FIT)}")
    return 0 if near else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
