"""An interrupted experiment: which of its runs are done, which are left, and its settings to go on with."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvlab import gates, judging
from kvlab.core.errors import BadInput
from kvlab.core.gate import ARMS, TAGS
from kvlab.lab import RECORD, SPEC, Lab
from kvlab.settings import Settings, order


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of an experiment as people call them, in their order: "run 1 (A)", "quality gate of arm B"."""

    done: tuple[str, ...]
    left: tuple[str, ...]
    finished: bool
    """Whether it is judged. One that may stop by itself may leave runs undone."""


def settings_of(folder: Path) -> Settings:
    """The settings of the experiment in `folder`. Raises BadInput when there is none."""
    lab = Lab(folder)
    if not lab.has(SPEC):
        raise BadInput(f"there is no experiment to take up in {folder} (no {SPEC}); give the folder of kvlab ab")
    _refuse_other(lab)
    return lab.load(SPEC, Settings)


def _refuse_other(lab: Lab) -> None:
    """Raises BadInput for the folder of a verify, or of a quality gate; damaged settings are for who reads them."""
    if lab.kind() not in ("kvlab/lab", "unknown"):
        raise BadInput(f"{lab.folder} holds no experiment of kvlab ab ({lab.kind()}); give the folder of one")


def standing(folder: Path) -> Standing:
    """What is done in the lab at `folder`, and what is left. Raises BadInput when there is no experiment."""
    settings, lab = settings_of(folder), Lab(folder)
    steps = [
        (judging.run_file(run, arm), f"run {run + 1} ({arm.upper()})") for run, arm in enumerate(order(settings.blocks))
    ]
    if settings.quality_tokens is not None:
        several = len(settings.parts) > 1
        steps += [
            (gates.file_of(part, tag), f"quality gate of {ARMS[tag]}" + (f" ({part})" if several else ""))
            for tag in TAGS
            for part in settings.parts
        ]
    if settings.prefix_rounds is not None:
        steps.append((judging.PREFIX, "shared prefixes"))
    return Standing(
        done=tuple(text for name, text in steps if lab.has(name)),
        left=tuple(text for name, text in steps if not lab.has(name)),
        finished=lab.has(RECORD),
    )


def told(folder: Path) -> str | None:
    """One line on an experiment that is not finished, before it is gone on with; None where there is none."""
    lab = Lab(folder)
    if not lab.has(SPEC) or lab.kind() != "kvlab/lab":
        return None
    found = standing(folder)
    if found.finished and not found.left:
        return None
    done = ", ".join(found.done) or "nothing"
    left = ", ".join(found.left) or "the verdict"
    return f"{folder} holds an experiment that is not finished; done: {done}; left: {left}"


def refuse_unfinished(folder: Path) -> None:
    """Raises BadInput, saying what is left, for the folder of an experiment that has no record yet."""
    lab = Lab(folder)
    if lab.has(SPEC) and not lab.has(RECORD):
        found = standing(folder)
        steps = len(found.done) + len(found.left)
        raise BadInput(
            f"{folder} is not finished: {len(found.done)} of {steps} steps are done; kvlab ab --resume {folder}"
            " completes it"
        )
