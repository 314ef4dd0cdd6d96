"""What SGLang says of a tier, 0.4.6 to 0.5.23."""

from __future__ import annotations

import re

from kvlab.core.observation import Said
from kvlab.core.tiers import GB
from kvlab.engines._tiers import lmcache_lines

_GB = r"(\d+\.\d+) GB"

SAID = (
    # "Allocating kv hierarchical KV host pool: 762944 tokens, 100.00 GB host memory." (0.5.15 or so on)
    Said("offload_tokens", "tokens", re.compile(r"Allocating kv hierarchical KV host pool: (\d+) tokens")),
    Said("offload_rank_bytes", "bytes", re.compile(rf"Allocating kv hierarchical KV host pool: \d+ tokens, {_GB}"), GB),
    # "Allocating 100.00 GB host memory for hierarchical KV cache." (before)
    Said("offload_rank_bytes", "bytes", re.compile(rf"Allocating {_GB} host memory for hierarchical KV cache"), GB),
    # "Allocating 35.25 GB host memory for DSA indexer (layout=page_first)."
    Said("offload_index_bytes", "bytes", re.compile(rf"Allocating {_GB} host memory for \w+ indexer"), GB),
    # "HiCache auto-sizing: ratio 2.000 -> 1.312; 64.0 GiB host memory per rank (fraction 0.80, 8 ranks ..."
    Said("offload_ratio", "share", re.compile(r"HiCache auto-sizing: ratio [\d.]+ -> (\d+\.\d+)")),
    *lmcache_lines.SAID,
)
WORDS = ("host memory", "HiCache", "LMCache", "CPU memory size")
"""Of these every such line holds one."""
