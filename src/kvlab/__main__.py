"""`python -m kvlab`."""

from __future__ import annotations

from kvlab.cli import run

if __name__ == "__main__":
    run()
