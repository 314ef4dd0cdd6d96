"""A disk that fills during a real `kvlab ab`: what it says, what is half written, what is left running, and resumed.

    python benchmarks/full_disk.py [--model FILE.gguf]

The lab lies on a tmpfs that is too small, in a mount namespace of this script's own (unshare; no root is needed where
user namespaces are allowed). The kernel itself then refuses the writes: kvlab's and the engine's log. The same command
is run again and again while the disk grows, until the experiment is complete. Each failure must be exit code 2 and one
line that names the file and the reason, with no process left, no temporary file, and every JSON file whole. Exits 1
if any of that fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from kill_nine import MARK, left_after, words

INSIDE = "KVLAB_FULL_DISK"
SIZES = (4, 24, 56, 80, 104, 128, 160, 224, 320, 448, 640, 1024, 4096)
"""KiB of the disk, one try each; a tmpfs gives whole pages of 4 KiB."""


def broken(lab: Path) -> list[str]:
    """Files that are half written: temporary ones, and JSON that does not parse."""
    found = [str(path) for path in lab.rglob(".kvlab-*")]
    for path in lab.rglob("*.json"):
        try:
            json.loads(path.read_bytes())
        except ValueError:
            found.append(str(path))
    return found


def main() -> int:
    """Prints the table; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", required=True, help="a small GGUF file")
    options = parser.parse_args()
    if INSIDE not in os.environ:
        how = ["-m"] if os.geteuid() == 0 else ["-Urm"]
        command = ["unshare", *how, sys.executable, __file__, "--model", options.model]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}).returncode
    good = True
    with tempfile.TemporaryDirectory(prefix="kvlab-full-") as folder:
        disk = Path(folder) / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZES[0]}k", "tmpfs", str(disk)], check=True)
        print(f"{'disk':>9}  exit  {'files':>5}  running  half written  said", flush=True)
        for size in SIZES:
            subprocess.run(["mount", "-o", f"remount,size={size}k", str(disk)], check=True)
            mark = uuid.uuid4().hex
            done = subprocess.run(
                words(options.model, disk / "lab"), capture_output=True, text=True, env={**os.environ, MARK: mark}
            )
            said = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
            gone, half = left_after(mark), broken(disk / "lab")
            files = sum(path.is_file() for path in disk.rglob("*"))
            one = done.returncode == 0 or (done.returncode == 2 and said.startswith("kvlab: ") and "Trace" not in said)
            good = good and one and gone is not None and not half
            told = said.replace(str(disk), "DISK")[:110] if done.returncode else "complete"
            print(
                f"{size:>5} KiB  {done.returncode:>4}  {files:>5}  {'no' if gone is not None else 'YES':<7}"
                f"  {', '.join(half) or 'nothing':<12}  {told}",
                flush=True,
            )
            if done.returncode == 0:
                break
        subprocess.run(["umount", str(disk)], check=True)
    return 0 if good and done.returncode == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
