"""How vLLM is asked for a tier: flags, environment, and the files of LMCache and Mooncake.

Mooncake's file: vllm/distributed/mooncake_store.py of 0.32.0.
"""

from __future__ import annotations

import json

from msgspec.structs import replace

from kvlab.core.engine import Deployment
from kvlab.core.plan import Ask, Flag, Launch
from kvlab.core.tiers import number
from kvlab.core.units import GIB
from kvlab.engines._tiers import lmcache
from kvlab.engines._tiers.asked import folder, host_gib, ranks
from kvlab.engines.vllm.connectors import KINDS

MOONCAKE_FILE = "mooncake.json"
MASTER = "127.0.0.1:50051"
"""Where mooncake_master listens unless told otherwise."""
STAGING = 4 * GIB
"""local_buffer_size of each rank: vLLM's default, pinned."""


def latent(deployment: Deployment) -> bool:
    """Whether every rank keeps the same latents."""
    return any(deployment.layout.only("latent")) and not any(deployment.layout.only("full", "window", "chunked"))


def flag_gib(ask: Ask) -> str:
    """--kv-offloading-size: GiB of all ranks of one replica."""
    return number(host_gib(ask))


def segment(ask: Ask) -> int:
    """global_segment_size: bytes that each rank gives to the store."""
    return int(host_gib(ask) * GIB) // ranks(ask)


def flags(ask: Ask) -> list[Flag]:
    """The flags of `--offload`; none without it."""
    if ask.offload == "native" and ask.offload_disk_gib is None:
        because = "GiB of host memory for what leaves the GPU, all ranks together: it is read back, not computed again"
        return [
            Flag("--kv-offloading-backend", "native", "vLLM's own offloading; in older releases this flag starts it"),
            Flag("--kv-offloading-size", flag_gib(ask), because),
        ]
    if ask.offload is None:
        return []
    config: dict[str, object] = {"kv_connector": KINDS[ask.offload], "kv_role": "kv_both"}
    because = (
        f"the store that keeps what leaves the GPU; it needs a running mooncake_master at {MASTER}, and the package"
        " mooncake-transfer-engine"
    )
    if ask.offload == "native":
        config["kv_connector_extra_config"] = {
            "spec_name": "TieringOffloadingSpec",
            "cpu_bytes_to_use": int(float(flag_gib(ask)) * GIB),
            "secondary_tiers": [{"type": "fs", "root_dir": folder(ask)}],
        }
        because = "host memory in bytes, all ranks together, and below it files: slower than memory, kept over restarts"
    if ask.offload == "lmcache":
        return [lmcache.flag_of("--kv-transfer-config", json.dumps(config))]
    return [Flag("--kv-transfer-config", json.dumps(config), because)]


def completed(launch: Launch, deployment: Deployment) -> Launch:
    """The command with the environment and the files that its tier reads."""
    ask = deployment.ask
    if ask.offload == "lmcache":
        text = lmcache.text(ask, latent=latent(deployment))
        return replace(launch, env={**launch.env, **lmcache.ENVIRONMENT}, files={**launch.files, lmcache.FILE: text})
    if ask.offload == "mooncake":
        config = {
            "mode": "embedded",
            "metadata_server": "P2PHANDSHAKE",
            "master_server_address": MASTER,
            "protocol": "tcp",
            "device_name": "",
            "global_segment_size": segment(ask),
            "local_buffer_size": STAGING,
        }
        env = {**launch.env, "MOONCAKE_CONFIG_PATH": MOONCAKE_FILE, "PYTHONHASHSEED": "0"}
        return replace(launch, env=env, files={**launch.files, MOONCAKE_FILE: json.dumps(config, indent=2) + "\n"})
    return launch
