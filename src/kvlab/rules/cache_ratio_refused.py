"""The share for the cache is not a share.

Symptom: LMDeploy 0.16 and later: "object-cache path expects 0 < cache_max_block_count < 1" or "no longer accepts
cache_max_block_count".

Cause: --cache-max-entry-count was once a number of blocks as well; now it is only the share, between 0 and 1, of the
memory that is free after the weights.

Do:
- give a share: --cache-max-entry-count 0.8
- for an exact number of blocks use the PyTorch engine: --backend pytorch --num-gpu-blocks N

Source: https://lmdeploy.readthedocs.io/en/latest/
"""

from __future__ import annotations

from kvlab.core.rule import Rule

RULE = Rule(cost="setting")
