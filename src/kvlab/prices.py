"""What GPUs cost an hour: from the command line, a file, or the user's own list."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kvlab.core.errors import BadInput

VARIABLE = "KVLAB_PRICES"
"""Names the file to use when none is given; else it is kvlab/prices.toml in the user's configuration folder."""


def usual_file() -> Path:
    """Where prices are looked for when no file is named."""
    named = os.environ.get(VARIABLE)
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(named) if named else Path(folder) / "kvlab" / "prices.toml"


def read(path: str | None = None) -> dict[str, float]:
    """US dollars an hour by GPU, from a TOML file of lines like `"h100-80gb" = 2.49`.

    The usual file may be missing; a named one may not. Raises BadInput for what is no such file.
    """
    import tomllib

    file = Path(path) if path is not None else usual_file()
    if path is None and not file.is_file() and VARIABLE not in os.environ:
        return {}
    try:
        stated = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise BadInput(f"cannot read the prices in {file}: {error.strerror or error}; check --prices") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f'{file} is not TOML ({error}); write lines like "h100-80gb" = 2.49') from None
    return checked(stated, str(file))


def checked(stated: Mapping[str, object], where: str) -> dict[str, float]:
    """Prices that are numbers of at least 0. Raises BadInput naming the first that is not."""
    for name, price in stated.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < float("inf"):
            raise BadInput(f"{where}: {name} = {price!r} is no price; write US dollars an hour, as in h100-80gb=2.49")
    return {name: float(price) for name, price in stated.items() if isinstance(price, int | float)}
