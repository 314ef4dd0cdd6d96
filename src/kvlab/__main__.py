"""`python -m kvlab`."""

from __future__ import annotations

from kvlab.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
