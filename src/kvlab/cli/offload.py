"""The arguments of a tier below the GPU's cache."""

from __future__ import annotations

import argparse

from kvlab.cli.command import positive


def add_offload(parser: argparse.ArgumentParser) -> None:
    """`--offload` and its sizes, which are of the whole server: the plan says what each rank gets."""
    tier = parser.add_argument_group("tier below the GPU's cache")
    tier.add_argument(
        "--offload",
        metavar="KIND",
        help="keep what leaves the GPU: native, lmcache, mooncake (vllm); hicache, lmcache (sglang); host"
        " (tensorrt-llm); cache-ram (llamacpp) (default: none, and llama.cpp's own 8 GiB)",
    )
    tier.add_argument(
        "--offload-gib",
        type=positive,
        help="host memory of it, all ranks together, in GiB (default: HiCache's own, twice the pool; others need it)",
    )
    tier.add_argument("--offload-disk-gib", type=positive, help="disk below it, all ranks together (default: none)")
    tier.add_argument("--offload-dir", metavar="DIR", help="folder of that disk (default: kv-offload)")
    tier.add_argument(
        "--host-gib", type=positive, help="memory of the machine that the server may use (default: not checked)"
    )
