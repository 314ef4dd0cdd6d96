"""How long `kvlab plan config.json --json` takes against a bare `python -c pass`, medians of ten in one run.

The two are started in turn, so that a machine whose speed drifts slows both. Bound: at most 6 times.
"""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path

RUNS, BOUND = 10, 6.0
CONFIG = """{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 128, "hidden_size": 4096,
"num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "max_position_embeddings": 40960,
"intermediate_size": 12288, "vocab_size": 151936, "torch_dtype": "bfloat16"}"""


def seconds(argv: list[str]) -> float:
    """Wall time of one whole process."""
    start = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    """Prints both medians and their ratio; 1 when the ratio is above the bound."""
    # An installed package has its bytecode compiled; a source tree may not, where writing bytecode is turned off.
    compileall.compile_dir(str(files("kvlab")), quiet=1)
    kvlab = Path(sys.executable).with_name("kvlab")
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(CONFIG)
        plan = [str(kvlab), "plan", str(config), "--json"]
        bare = [sys.executable, "-c", "pass"]
        for argv in (plan, bare):
            seconds(argv)
        pairs = [(seconds(plan), seconds(bare)) for _ in range(RUNS)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"kvlab plan config.json --json  {ours * 1000:6.1f} ms (median of {RUNS})")
    print(f"python -c pass                 {theirs * 1000:6.1f} ms (median of {RUNS})")
    print(f"ratio                          {ours / theirs:6.2f} (bound {BOUND:g})")
    return 0 if ours / theirs <= BOUND else 1


if __name__ == "__main__":
    raise SystemExit(main())
