"""A frozen configuration that gets slower: python benchmarks/verify_slow.py MODEL.gguf [BLOCKS].

`kvlab ab` and `kvlab freeze` on llama.cpp's server behind benchmarks/slow_server.py, then `kvlab verify` of the same
lock: as it was, and with every answer later by 5, 10 and 25 %, which no plan and no log shows.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from kvlab import api
from planted import settings, wrapper


def main() -> None:
    """One line for each slow-down: what verify says, and the change of throughput with its interval."""
    model = Path(sys.argv[1]).absolute()
    blocks = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    plain = settings(model, 0.0, blocks, 0)
    arm = msgspec.structs.replace(plain.a, engine_args=plain.a.engine_args[:-1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["LLAMA_SERVER"] = str(wrapper(folder))
        api.ab(msgspec.structs.replace(plain, a=arm, b=arm, sequential=False), folder / "lab")
        api.freeze(folder / "lab", folder / "frozen", arm="a")
        for slower in (0, 5, 10, 25):
            os.environ["SLOWER"] = f"{1 + slower / 100:.2f}"
            began = time.monotonic()
            lab = folder / f"verify-{slower}"
            found = api.verify(folder / "frozen" / "kvlab.lock", lab=lab, source=model)
            row = next(row for row in found.performance if row.metric == "output_throughput")
            assert None not in (row.change, row.low, row.high)
            print(
                f"{slower:2} % slower: {found.verdict.code}; throughput {row.change:+.1%} ({row.low:+.1%} to"
                f" {row.high:+.1%}); {time.monotonic() - began:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
