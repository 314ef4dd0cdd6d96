"""The engine configuration that LMDeploy's log states."""

from __future__ import annotations

import re

from kvlab.core.observation import Value
from kvlab.core.stated import Arguments, Named, StatedArgs, count, share, truth, word

_POLICIES = {"0": "auto", "4": "int4", "8": "int8"}


def _policy(text: str) -> Value:
    """`quant_policy` as --kv-dtype says it; the name after the colon of "<QuantPolicy.INT8: 8>"."""
    number = re.search(r"(\d+)>?$", text)
    return _POLICIES.get(number[1]) if number is not None else None


_NAMES = {
    "session_len": Named("context", count),
    "tp": Named("tp", count),
    "dp": Named("dp", count),
    "max_batch_size": Named("max_num_seqs", count),
    "cache_max_entry_count": Named("util", share),
    "cache_block_seq_len": Named("block_size", count),
    "block_size": Named("block_size", count),
    "enable_prefix_caching": Named("prefix_caching", truth),
    "quant_policy": Named("kv_dtype", _policy),
    "max_prefill_token_num": Named("max_num_batched_tokens", count),
    "dtype": Named("dtype", word),
}

STATED = StatedArgs(
    # "input backend=turbomind, backend_config=TurbomindEngineConfig(dtype='float16', tp=2, session_len=None, ...)"
    lists=(Arguments(pattern=re.compile(r"backend_config=\w+EngineConfig\("), names=_NAMES, whole=True),),
    where='"input backend=..., backend_config=...", which needs --log-level INFO',
)
