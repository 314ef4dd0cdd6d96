"""A container as a compose file and as Kubernetes objects, generic over engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kvlab.core.plan import Plan
from kvlab.core.units import GIB, ceil_div

FILES, CACHE = "/kvlab", "/huggingface"
"""Where the container sees the files that its command names, and what it downloads (HF_HOME, whoever runs in it)."""
LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"
RESOURCE = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
"""Names under which the device plugins of Kubernetes offer GPUs."""
_LOAD_SECONDS, _PROBE_SECONDS = 1800, 10
"""How long a container may take to load its model before it counts as failed: downloads and kernels take minutes."""


class Mounted(msgspec.Struct, frozen=True):
    """A model of this machine in a container."""

    word: str
    """As the command names it."""
    host: str
    root: str
    """The folder of this machine that is mounted."""
    inside: str
    """Where it is mounted."""
    path: str
    """The model in the container."""


class Disk(msgspec.Struct, frozen=True):
    """The folder of a tier of the cache on disk."""

    host: str
    """As the plan names it; a relative one lies beside the files."""
    inside: str
    bytes: int


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """The command of a plan as it runs inside the engine's image."""

    image: str
    argv: tuple[str, ...]
    env: dict[str, str]
    port: int
    ready_path: str
    vendor: str
    gpus: int
    model: Mounted | None
    """None: downloaded from the Hub."""
    files: tuple[str, ...]
    """Files that the command names."""
    cache_bytes: int | None
    """Room for a downloaded model; None when the size of the weights is not known."""
    host_bytes: int = 0
    """What tiers of the cache take of the machine's memory."""
    tier_bytes: int = 0
    """How much of that lies in /dev/shm."""
    disk: Disk | None = None

    @property
    def shared_memory(self) -> int:
        """Bytes of /dev/shm: ranks talk through it, and share a tier there; Docker's 64 MiB are too few."""
        return (self._talk_gib + ceil_div(self.tier_bytes, GIB)) * GIB

    @property
    def reserved_memory(self) -> int | None:
        """GiB of memory to ask the scheduler for, tiers and what ranks talk through; None without tiers.

        Asked for, not a limit: weights pass through the same memory while they are read.
        """
        return ceil_div(self.host_bytes, GIB) + self._talk_gib if self.host_bytes else None

    @property
    def _talk_gib(self) -> int:
        """GiB through which ranks talk: NCCL, vLLM's message queue."""
        return 2 * max(1, self.gpus)


def compose(plan: Plan, name: str, container: Container) -> dict[str, Any]:
    """https://github.com/compose-spec/compose-spec/blob/main/spec.md. The port is open on this machine alone."""
    volumes = [_bind(f"./{name}", f"{FILES}/{name}", read_only=True) for name in container.files]
    if container.model is not None:
        volumes.append(_bind(container.model.root, container.model.inside, read_only=True))
    else:
        downloads = _bind("", CACHE)
        volumes.append(downloads | {"source": "${HF_HOME:-${HOME}/.cache/huggingface}"})
    service: dict[str, Any] = {
        "image": container.image,
        "entrypoint": [container.argv[0]],
        "command": [_escaped(word) for word in container.argv[1:]],
        "environment": {"HF_TOKEN": "${HF_TOKEN:-}", **{key: _escaped(text) for key, text in container.env.items()}},
        "ports": [f"{LOOPBACK}:{container.port}:{container.port}"],
        "volumes": volumes,
        "shm_size": f"{container.shared_memory // GIB}gb",
        "restart": "unless-stopped",
    }
    if container.vendor == "amd":
        service |= {
            "devices": ["/dev/kfd", "/dev/dri"],
            "group_add": ["video", "render"],
            "security_opt": ["seccomp=unconfined"],
        }
    else:
        device = {"driver": "nvidia", "count": container.gpus, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    if container.reserved_memory is not None:
        resources = service.setdefault("deploy", {}).setdefault("resources", {})
        resources.setdefault("reservations", {})["memory"] = f"{container.reserved_memory}gb"
    if container.disk is not None:
        host = container.disk.host if container.disk.host.startswith("/") else f"./{container.disk.host}"
        volumes.append(_bind(host, container.disk.inside))
        service["working_dir"] = "/"  # a relative folder is meant from here
    return {"name": name, "services": {plan.engine.name: service}}


def _bind(source: str, target: str, *, read_only: bool = False) -> dict[str, Any]:
    """A folder or file of this machine in the container, in the long form: in the short one a colon would split it.

    What is not there is made, as the short form does.
    """
    found: dict[str, Any] = {"type": "bind", "source": _escaped(source), "target": _escaped(target)}
    return found | ({"read_only": True} if read_only else {"bind": {"create_host_path": True}})


def _escaped(text: str) -> str:
    """Compose reads $ as the start of a variable."""
    return text.replace("$", "$$")


def kubernetes(plan: Plan, name: str, container: Container) -> list[dict[str, Any]]:
    """A Deployment, its Service, the claim for downloads and the engine's files, as far as they are needed."""
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/component": plan.engine.name}
    volumes, mounts = _volumes(name, container)
    pod = {
        "containers": [_pod_container(plan, container, mounts)],
        "volumes": volumes,
        # Else a Service named like the engine would set its variables (VLLM_PORT).
        "enableServiceLinks": False,
    }
    found: list[dict[str, Any]] = []
    if container.files:
        texts = {file: plan.launch.files[file] for file in container.files}
        found.append(_object("v1", "ConfigMap", f"{name}-files", labels, {"data": texts}))
    if container.model is None and container.cache_bytes is not None:
        # A fifth more than the weights: the tokenizer, what else a repository holds, and the file system's own.
        room = f"{ceil_div(round(container.cache_bytes * 1.2), GIB)}Gi"
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": room}}}
        found.append(_object("v1", "PersistentVolumeClaim", f"{name}-cache", labels, {"spec": claim}))
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},  # two copies would need twice the GPUs
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    found.append(_object("apps/v1", "Deployment", name, labels, {"spec": spec}))
    ports = [{"name": "http", "port": container.port, "targetPort": "http"}]
    found.append(_object("v1", "Service", name, labels, {"spec": {"selector": labels, "ports": ports}}))
    return found


def _object(version: str, kind: str, name: str, labels: Mapping[str, str], body: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": dict(labels)}, **body}


def _pod_container(plan: Plan, container: Container, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    probe = {
        "httpGet": {"path": container.ready_path, "port": "http"},
        "periodSeconds": _PROBE_SECONDS,
    }
    token = {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}}
    resources: dict[str, Any] = {"limits": {RESOURCE[container.vendor]: container.gpus}}
    if container.reserved_memory is not None:
        resources["requests"] = {"memory": f"{container.reserved_memory}Gi"}
    place = {"workingDir": "/"} if container.disk is not None else {}
    return {
        "name": plan.engine.name,
        "image": container.image,
        "command": [_unexpanded(container.argv[0])],
        "args": [_unexpanded(word) for word in container.argv[1:]],
        "env": [
            {"name": "HF_TOKEN", "valueFrom": token},
            *({"name": key, "value": _unexpanded(value)} for key, value in container.env.items()),
        ],
        "ports": [{"name": "http", "containerPort": container.port}],
        **place,
        "resources": resources,
        "startupProbe": {**probe, "failureThreshold": _LOAD_SECONDS // _PROBE_SECONDS},
        "readinessProbe": probe,
        "volumeMounts": mounts,
    }


def _unexpanded(text: str) -> str:
    """Kubernetes replaces $(NAME) in commands; $$ is a plain $."""
    return text.replace("$(", "$$(")


def _volumes(name: str, container: Container) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    shared = {"medium": "Memory", "sizeLimit": f"{container.shared_memory // GIB}Gi"}
    volumes: list[dict[str, Any]] = [{"name": "shm", "emptyDir": shared}]
    mounts: list[dict[str, Any]] = [{"name": "shm", "mountPath": "/dev/shm"}]
    if container.files:
        volumes.append({"name": "files", "configMap": {"name": f"{name}-files"}})
        mounts.append({"name": "files", "mountPath": FILES, "readOnly": True})
    if container.model is not None:
        volumes.append({"name": "model", "hostPath": {"path": container.model.root}})
        mounts.append({"name": "model", "mountPath": container.model.inside, "readOnly": True})
    else:
        claim = {"persistentVolumeClaim": {"claimName": f"{name}-cache"}}
        volumes.append({"name": "cache", **(claim if container.cache_bytes is not None else {"emptyDir": {}})})
        mounts.append({"name": "cache", "mountPath": CACHE})
    if container.disk is not None:
        limited = {"emptyDir": {"sizeLimit": f"{ceil_div(container.disk.bytes, GIB)}Gi"}}
        named = {"hostPath": {"path": container.disk.host, "type": "DirectoryOrCreate"}}
        volumes.append({"name": "offload", **(named if container.disk.host.startswith("/") else limited)})
        mounts.append({"name": "offload", "mountPath": container.disk.inside})
    return volumes, mounts
