"""What GPUs cost an hour: from the command line, a file, or the user's own list."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kvlab import store
from kvlab.core.errors import BadInput, shortened

VARIABLE = "KVLAB_PRICES"
"""Names the file to use when none is given; else it is kvlab/prices.toml in the user's configuration folder."""
_MOST_BYTES = 1 << 20
_MOST_DOLLARS = 1e6
"""An hour of one GPU: a larger number is a typing error."""


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
    if path is None and not os.path.lexists(file) and not os.environ.get(VARIABLE):
        return {}
    if path == "":
        raise BadInput("--prices has no name of a file; give a TOML file of prices")
    content = store.read_bytes(file, "file of prices", _MOST_BYTES)
    try:
        stated = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of thousands of digits
        raise BadInput(f'{file} is not TOML ({error}); write lines like "h100-80gb" = 2.49') from None
    return checked(stated, str(file))


def checked(stated: Mapping[str, object], where: str) -> dict[str, float]:
    """Prices that are numbers from 0 to a million. Raises BadInput naming the first that is not."""
    for name, price in stated.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price <= _MOST_DOLLARS:
            raise BadInput(
                f"{where}: {name} = {shortened(repr(price))} is no price; write US dollars an hour of one GPU, as in"
                " h100-80gb=2.49"
            )
    return {name: float(price) for name, price in stated.items() if isinstance(price, int | float)}
