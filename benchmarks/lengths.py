"""Percentiles of ten million Azure-shaped rows: kvlab against pandas, as whole processes in one run.

    python benchmarks/lengths.py [--folder DIR] [--rows N]

The rows repeat Azure's conversation trace with later times. pandas is installed into an environment of its own below
DIR and computes the same figures of the same file: mean, five percentiles and maximum of three columns.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
import venv
from datetime import datetime, timedelta
from pathlib import Path

TRACE = Path(__file__).parents[1] / "tests" / "golden" / "traces" / "azure_conv.csv.gz"
PANDAS = """
import json, sys
import pandas as pd
t = pd.read_csv(sys.argv[1], parse_dates=["TIMESTAMP"])
t["total"] = t.ContextTokens + t.GeneratedTokens
q = [0.5, 0.9, 0.95, 0.99, 0.999]
print(json.dumps({c: [t[c].mean(), *t[c].quantile(q), float(t[c].max())] for c in ("ContextTokens", "GeneratedTokens",
      "total")}))
"""


def write(path: Path, rows: int) -> None:
    with gzip.open(TRACE, "rt") as file:
        header, *lines = file.read().split()  # a date and a time each
    pairs = [
        (datetime.fromisoformat(f"{lines[i]} {lines[i + 1][:15]}"), lines[i + 1].partition(",")[2])
        for i in range(0, len(lines), 2)
    ]
    shift, done = timedelta(0), 0
    with path.open("w") as out:
        out.write(header + "\n")
        while done < rows:
            for moment, rest in pairs[: rows - done]:
                out.write(f"{moment + shift:%Y-%m-%d %H:%M:%S.%f}0,{rest}\n")
            done += len(pairs)
            shift += timedelta(hours=1)


def timed(argv: list[str]) -> tuple[float, float, str]:
    """Seconds of the wall and of the CPUs, and what the command printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    wall, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where pandas and the rows are kept (default: a temporary one)")
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        python = folder / "pandas" / "bin" / "python"
        if not python.exists():
            venv.create(folder / "pandas", with_pip=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "pandas"], check=True)
        path = folder / f"azure_{options.rows}.csv"
        if not path.exists():
            write(path, options.rows)
        *ours, said = timed([sys.executable, "-m", "kvlab", "traffic", str(path), "--json"])
        *theirs, also = timed([str(python), "-c", PANDAS, str(path)])
        size = path.stat().st_size
    found, other = json.loads(said), json.loads(also)
    names = {"input_tokens": "ContextTokens", "output_tokens": "GeneratedTokens", "total_tokens": "total"}
    for name, column in names.items():
        assert [round(value, 6) for value in found[name].values()] == [round(value, 6) for value in other[column]], name
    print(f"{options.rows:,} rows, {size / 2**20:.0f} MiB")
    print(f"kvlab traffic  {ours[0]:6.1f} s, {ours[1]:6.1f} CPU s (with paging and the limit)")
    print(f"pandas         {theirs[0]:6.1f} s, {theirs[1]:6.1f} CPU s")
    print(f"ratio          {ours[0] / theirs[0]:6.2f}, {ours[1] / theirs[1]:8.2f}; the percentiles are equal")


if __name__ == "__main__":
    main()
