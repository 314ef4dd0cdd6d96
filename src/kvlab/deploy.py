"""A plan as files to deploy: the command, the engine's own files, a compose file, a Kubernetes manifest.

Generic over engines: what an engine adds is its container image, its health path and its port. Tokens are named, never
written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kvlab import engines, manifests, store
from kvlab.core.engine import Gpu, Launcher
from kvlab.core.errors import BadInput
from kvlab.core.plan import Launch, Plan
from kvlab.core.tiers import FOLDER
from kvlab.logs.text import plain
from kvlab.manifests import CACHE, EVERYWHERE, FILES, LOOPBACK, RESOURCE, Container, Disk, Mounted

SCRIPT, COMPOSE, KUBERNETES = "launch.sh", "docker-compose.yaml", "kubernetes.yaml"
_NODE = 8
"""GPUs of one machine."""
_REACHED = (
    "# In the container the server listens to its whole network; outside, only this machine (the cluster) reaches it.\n"
)
_MODELS = "/models"
PLACEHOLDER = "NAME-THE-MODEL-HERE"
"""Stands where a config alone was planned: no engine starts from it, and its refusal names it."""


def artefacts(plan: Plan) -> dict[str, str]:
    """Names and contents of everything that a deployment of `plan` can start from.

    Compose and Kubernetes are left out where they cannot be right: no public image is known, or one machine is not
    enough; the launch script says so.
    """
    plan = _unnamed(plan)
    launch = plan.launch
    missing, container = _container(plan)
    found = {SCRIPT: _script(plan, missing), **launch.files}
    if container is not None:
        found[COMPOSE] = (
            _comments(plan, inside=True) + _REACHED + _dump([manifests.compose(plan, _name(plan), container)])
        )
        found[KUBERNETES] = (
            _comments(plan, inside=True) + _REACHED + _dump(manifests.kubernetes(plan, _name(plan), container))
        )
    return found


def _unnamed(plan: Plan) -> Plan:
    """The plan of a config alone with a placeholder for the model, whose name is that of a file and of no model."""
    word, launch = plan.source.name.removesuffix(".json"), plan.launch
    if plan.source.kind != "config" or word not in launch.argv[1:] or os.path.isdir(word):
        return plan
    argv = (launch.argv[0], *(PLACEHOLDER if text == word else text for text in launch.argv[1:]))
    files = {name: text.replace(f'"{word}"', f'"{PLACEHOLDER}"') for name, text in launch.files.items()}
    lacks = (
        f"{PLACEHOLDER}: a config alone was planned; put the Hub id, or the folder that has the weights, in its place"
    )
    return replace(plan, launch=replace(launch, argv=argv, files=files, lacks=lacks))


def write(plan: Plan, folder: Path) -> tuple[Path, ...]:
    """Writes `artefacts` into a folder, which is made.

    Raises BadInput, before a file is written, when the plan has no command or the folder cannot be written.
    """
    if not plan.launch.argv:
        raise BadInput(f"--write has no command to write: {plan.verdict.text}")
    found = artefacts(plan)
    for name in found:
        _refuse_place(folder / name, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make {folder}: {error.strerror or error}; choose another folder for --write") from None
    paths = []
    for name, text in found.items():
        store.write_atomic(folder / name, text.encode())
        paths.append(folder / name)
    (folder / SCRIPT).chmod(0o755)
    return tuple(paths)


def _refuse_place(path: Path, name: str) -> None:
    """Raises BadInput for a file that would not lie in the folder, or where something else than a file is in its place.

    A pipe would block.
    """
    if os.path.basename(name) != name or name in ("", ".", ".."):
        raise BadInput(f"the plan's file {name!r} would lie outside the folder for --write; plan again")
    if os.path.exists(path) and not os.path.isfile(path):
        raise BadInput(f"{path} is no regular file; remove it, or choose another folder for --write")


def _script(plan: Plan, missing: str | None) -> str:
    import shlex

    model = _model(plan)
    lines = ["#!/bin/sh", *_comments(plan).rstrip().split("\n")]
    lines += [f"# no {COMPOSE} and {KUBERNETES}: {missing}"] if missing else []
    lines.append("set -eu")
    # Files that the command names lie beside the script.
    lines += ['cd "$(dirname "$0")"'] if _named_files(plan.launch) or plan.ask.offload_disk_gib is not None else []
    lines += [f"export {name}={shlex.quote(value)}" for name, value in plan.launch.env.items()]
    command = ""
    for word in plan.launch.argv:
        whole = model.host if model is not None and word == model.word else word
        command += (" \\\n  " if word.startswith("-") else " ") + shlex.quote(whole)
    return "\n".join([*lines, f"exec{command}"]) + "\n"


def _comments(plan: Plan, *, inside: bool = False) -> str:
    """What the plan says, what its command lacks, and why each flag is there; `inside` a container, as it is there."""
    lines = [f"{plan.source.name}, {plan.engine.name} {plan.engine.version}: {plan.verdict.text}"]
    lines += [plan.launch.lacks] if plan.launch.lacks else []
    for flag in plan.launch.flags:
        value, because = flag.value or "", flag.because
        if inside and LOOPBACK in value:
            value, because = value.replace(LOOPBACK, EVERYWHERE), "the network of the container, which is its own"
        lines.append(f"{flag.flag} {value}".rstrip() + f": {because}")
    return "".join(f"# {plain(' '.join(line.split()))}\n" for line in lines)


def _container(plan: Plan) -> tuple[str | None, Container | None]:
    """The plan inside the engine's image, or why there is none."""
    launcher, gpu = engines.launcher(plan.engine.name), _gpu(plan)
    vendor = (gpu.vendor if gpu is not None else None) or "nvidia"
    image = launcher.images.get(vendor)
    gpus = (plan.ask.tp or 1) * plan.ask.pp * plan.ask.dp
    if image is None or vendor not in RESOURCE:
        return f"no public image of {plan.engine.name} for {vendor} GPUs is known here", None
    if gpus > _NODE:
        return f"{gpus} GPUs are more than one machine: use the engine's own multi-node launcher", None
    if not plan.launch.argv:
        return "the plan has no command", None
    model = _model(plan)
    if model is None and not launcher.takes_hub_ids:
        return f"{plan.engine.name} takes no Hub id: download the model and plan its folder", None
    env = {name: _value(value, plan.launch) for name, value in plan.launch.env.items()}
    return None, Container(
        image=image.replace("{version}", plan.engine.version),
        argv=_inside(plan.launch, launcher, model),
        env=env if model is not None else {"HF_HOME": CACHE, **env},
        port=launcher.default_port,
        ready_path=launcher.ready_path,
        vendor=vendor,
        gpus=gpus,
        model=model,
        files=_named_files(plan.launch),
        cache_bytes=_weights(plan),
        host_bytes=sum(line.bytes for line in plan.host if line.name == "host_needed"),
        tier_bytes=sum(tier.bytes for tier in plan.tiers if tier.shared),
        disk=_disk(plan),
    )


def _named_files(launch: Launch) -> tuple[str, ...]:
    """Files that the command or its environment names; the others only say the same in another form."""
    return tuple(name for name in launch.files if name in (*launch.argv, *launch.env.values()))


def _value(text: str, launch: Launch) -> str:
    """A value of the environment as the container has it."""
    return f"{FILES}/{text}" if text in launch.files else text.replace(LOOPBACK, EVERYWHERE)


def _disk(plan: Plan) -> Disk | None:
    """The folder of a disk tier, at the same place in the container; a relative one below its root."""
    tier = next((tier for tier in plan.tiers if tier.kind == "disk"), None)
    if tier is None:
        return None
    folder = plan.ask.offload_dir or FOLDER
    inside = os.path.normpath(f"/{folder.lstrip('/')}")
    if inside == "/":
        raise BadInput(f"--offload-dir {folder} would be the root of the container; name a folder in it")
    if ":" in inside:
        raise BadInput(f"--offload-dir {folder}: no container mounts a folder with a colon in its name; choose another")
    return Disk(folder, inside, tier.bytes)


def _gpu(plan: Plan) -> Gpu | None:
    from kvlab.facts import gpus

    return gpus.find(plan.ask.gpu) if plan.ask.gpu is not None else None


def _model(plan: Plan) -> Mounted | None:
    """The model on this machine; None for a Hub id, or a config whose weights are elsewhere."""
    words = plan.launch.argv[1:] if plan.source.kind != "hub" else ()
    word = next((word for word in words if not word.startswith("-") and os.path.exists(word)), None)
    if word is None:
        return None
    host = os.path.abspath(word)
    root = os.path.dirname(host) if os.path.isfile(host) else host  # the other shards lie beside the first
    above, found, _ = host.partition("/snapshots/")
    root = above if found else root  # a snapshot of the Hub's cache links to files outside it
    inside = f"{_MODELS}/{os.path.basename(root).replace(':', '-')}"  # Kubernetes takes no colon there
    return Mounted(word=word, host=host, root=root, inside=inside, path=inside + host.removeprefix(root))


def _inside(launch: Launch, launcher: Launcher, model: Mounted | None) -> tuple[str, ...]:
    """The command with the container's paths, listening to the container's network."""

    def word(text: str) -> str:
        if model is not None and text == model.word:
            return model.path
        return f"{FILES}/{text}" if text in launch.files else EVERYWHERE if text == LOOPBACK else text

    return (launcher.image_program or launch.argv[0], *(word(text) for text in launch.argv[1:]))


def _weights(plan: Plan) -> int | None:
    """Bytes of the whole model, from the ledger's line for one rank; an even share is what most of it is."""
    line = next((line for line in plan.ledger if line.name == "weights"), None)
    return None if line is None else -line.bytes * (plan.ask.tp or 1) * plan.ask.pp


def _name(plan: Plan) -> str:
    """A DNS label from the model's name."""
    plain = "".join(
        letter if letter.isascii() and letter.isalnum() else "-"
        for letter in plan.source.name.split(".json")[0].lower()
    )
    joined = "-".join(part for part in plain.split("-") if part)[:50].strip("-") or "model"
    return joined if joined[0].isalpha() else f"model-{joined}"


def _dump(documents: list[dict[str, Any]]) -> str:
    import yaml

    class Plain(yaml.SafeDumper):
        """Without anchors: a person reads these files."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    return str(yaml.dump_all(documents, Dumper=Plain, sort_keys=False, width=1000, allow_unicode=True))
