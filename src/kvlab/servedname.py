"""How an engine is told which model to serve."""

from __future__ import annotations

import os

from msgspec.structs import replace

from kvlab.core.engine import Deployment, Launcher
from kvlab.core.model import Origin


def served_as(origin: Origin, source: str, deployment: Deployment, launcher: Launcher) -> tuple[str, Deployment]:
    """The word that names the model in the command, and the deployment with the flag that pins its revision.

    A config.json stands for its folder, and a config of another name for its model. No engine takes "org/name@commit":
    one that has a flag for the commit gets it.
    """
    if origin.kind == "config":
        folder, file = os.path.split(source)
        return (folder or ".") if file == "config.json" else deployment.model.name, deployment
    if origin.kind != "hub" or origin.revision is None or launcher.revision_flag is None:
        return source, deployment
    ask = deployment.ask
    if ask.arg(launcher.revision_flag) is None:
        ask = replace(ask, engine_args=(*ask.engine_args, (launcher.revision_flag, origin.revision)))
    return source.partition("@")[0], replace(deployment, ask=ask)
