"""A lock made a plan again: its model found, its settings completed, its prompts there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask, Plan
from kvlab.freezing import OF_A_FILE, sent_hash
from kvlab.load.datasets import Dataset, PromptsFile, read_prompts
from kvlab.lockfile import Lock
from kvlab.planning import make_plan
from kvlab.request import checked, suited
from kvlab.source import load


class Refit(NamedTuple):
    """What a lock says, on this machine: its plan made again, where its model is, and what to send."""

    plan: Plan
    place: str | None
    """A local model's file or folder; None for one of the Hub."""
    dataset: Dataset | None
    """None: nothing had been measured."""


def refit(
    lock: Lock, base: Path, *, source: str | None, prompts: str | None, engine_args: tuple[tuple[str, str], ...]
) -> Refit:
    """Plans the lock's request again; `base` is the lock's folder.

    Raises BadInput for a model, a file of prompts or a setting that is not found here, naming what to give, and for
    prompts that are not those that were frozen.
    """
    place = source or _found(lock, base)
    loaded = load(place)
    ask = suited(checked(_completed(lock, base, engine_args)), loaded.origin.kind)
    plan = make_plan(loaded, ask, place)
    local = None if loaded.origin.kind == "hub" else place
    return Refit(plan, local, None if lock.load is None else _dataset(lock, base, prompts))


def _found(lock: Lock, base: Path) -> str:
    model = lock.model
    if model.kind == "hub":
        return f"{model.name}@{model.revision}" if model.revision else model.name
    for place in (Path(model.name), base / model.name):
        if place.exists():
            return str(place)
    raise BadInput(
        f"{model.name} is neither in this folder nor beside the lock, which keeps no path; give --source"
        f" PATH/{model.name}"
    )


def _completed(lock: Lock, base: Path, given: tuple[tuple[str, str], ...]) -> Ask:
    """The request with the settings that lost their path: as given, or files of that name here or beside the lock."""
    again = {name.replace("_", "-"): value for name, value in given}
    lost = {name.replace("_", "-") for name in lock.left_out}
    arguments = []
    for name, kept in lock.ask.engine_args:
        plain, value = name.replace("_", "-"), kept
        if plain in again:
            value = again.pop(plain)
        elif plain in lost:
            value = _beside(plain, kept, base)
        arguments.append((name, value))
    return msgspec.structs.replace(lock.ask, engine_args=(*arguments, *again.items()))


def _beside(name: str, kept: str, base: Path) -> str:
    for place in (Path(kept), base / kept):
        if place.exists():
            return str(place)
    raise BadInput(
        f"--{name} held a path or an address, of which the lock keeps {kept!r}; give --engine-arg {name}=VALUE"
    )


def _dataset(lock: Lock, base: Path, prompts: str | None) -> Dataset:
    assert lock.load is not None  # asked only for what was measured
    data, load = lock.load.dataset, lock.load.load
    if not isinstance(data, OF_A_FILE):
        return data
    places = [prompts] if prompts is not None else [data.path, os.path.join(base, data.path)]
    path = next((place for place in places if os.path.isfile(place)), None)
    if path is None:
        raise BadInput(f"the prompts are in a file {data.path}, which is not here; give --prompts PATH/{data.path}")
    if isinstance(data, PromptsFile):  # the others are made with the server's tokenizer, and compared after that
        sent = read_prompts(Path(path), data.output_tokens, load.endpoint)[: load.prompts]
        if sent_hash(sent) != lock.load.prompts_sha256:
            raise BadInput(f"{path} does not hold the prompts that were frozen; give that file: --prompts")
    return msgspec.structs.replace(data, path=path)
