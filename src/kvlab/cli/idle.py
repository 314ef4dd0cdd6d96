"""Options of a load that would change nothing beside the others."""

from __future__ import annotations

import argparse

from kvlab.core.errors import BadInput


def refuse(options: argparse.Namespace, name: str, shared: tuple[str, int]) -> None:
    """Raises BadInput for an option that is of another data set than `name`, or of times that are not followed.

    `shared`: the option that sets the length of a shared prefix, and its default.
    """
    timed, prefixed, talks = ("log", "trace"), ("shared-prefix",), ("sharegpt",)
    of_some = (
        ("--format", None, timed),
        ("--scale-time", 1.0, timed),
        ("--scale-tokens", 1.0, ("trace",)),
        (*shared, prefixed),
        ("--prefixes", 1, prefixed),
        ("--turns", "first", talks),
        ("--history", "server", talks),
    )
    for option, default, sets in of_some:
        value = _value(options, option)
        if value != default and name not in sets:
            raise BadInput(
                f"{option} {value} is of --dataset {' and '.join(sets)}, not of {name}; give that data set, or leave"
                f" {option} out"
            )
    if options.history == "recorded" and options.turns == "first":
        raise BadInput("--history recorded is of later turns; give --turns all too")
    paced = next((way for way in ("--rate", "--ramp", "--concurrency") if _value(options, way) is not None), None)
    if options.scale_time != 1 and paced is not None:
        raise BadInput(f"--scale-time {options.scale_time:g} is of the times of the file, which {paced} replaces")


def _value(options: argparse.Namespace, option: str) -> object:
    return getattr(options, option.strip("-").replace("-", "_"), None)
