"""LMDeploy's start-up lines: the PyTorch engine, and TurboMind from its block manager to its object cache."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvlab.core.engine import LogReader
from kvlab.core.observation import Observation, Said, Seen, patterns_in, read_line
from kvlab.core.units import MIB

_X = r"(\d+(?:\.\d+)?)"

_SAID = (
    # "[TM][INFO] [BlockManager] block_size = 8.000 MB" (to 0.14; whole MB before 0.5), MB of 2^20 bytes
    Said("kv_block_bytes", "bytes", re.compile(rf"\[BlockManager\] block_size = {_X} MB"), MIB),
    Said("num_gpu_blocks", "blocks", re.compile(r"\[BlockManager\] max_block_count = (\d+)")),
    # "Object cache budget: 55634.70 MB from free 63488.19 MB and ratio 0.876" (0.16 on; later "from cacheable")
    Said("kv_pool_bytes", "bytes", re.compile(rf"Object cache budget: {_X} MB"), MIB),
    Said("free_bytes", "bytes", re.compile(rf"Object cache budget: [\d.]+ MB from (?:free|cacheable) {_X} MB"), MIB),
    Said("fraction", "share", re.compile(rf"Object cache budget: .* and ratio {_X}")),
    # "input backend=turbomind, backend_config=TurbomindEngineConfig(dtype='auto', session_len=32768, ...)"
    Said("backend", "word", re.compile(r"input backend=(\w+), backend_config=")),
    Said("context", "tokens", re.compile(r"backend_config=.*\bsession_len=(\d+)")),
    Said("block_size", "tokens", re.compile(r"backend_config=.*(?:\bcache_block_seq_len|[ (]block_size)=(\d+)")),
    Said("quant_policy", "word", re.compile(r"backend_config=.*\bquant_policy=(?:<QuantPolicy\.\w+: )?(\d+)")),
    # "Fallback to pytorch engine because '...' not supported by turbomind engine."
    Said("backend", "word", re.compile(r"Fallback to (pytorch) engine because")),
    # "Using int8 KV cache."
    Said("kv_dtype", "word", re.compile(r"Using (\w+) KV cache")),
    # "No enough memory. Update max_prefill_token_num=4096"
    Said("max_prefill_token_num", "tokens", re.compile(r"Update max_prefill_token_num=(\d+)")),
)
# "Building CacheEngine with config: " and on the next line
# "CacheConfig(max_batches=256, block_size=64, ..., num_gpu_blocks=1234, ..., quant_policy=<QuantPolicy.INT8: 8>, ...)"
_BUILDING = re.compile(r"Building (Spec )?CacheEngine with config:")
_CONFIG = re.compile(r"CacheConfig\((.*)\)")
_OF_CONFIG = (
    Said("max_batch_size", "requests", re.compile(r"\bmax_batches=(\d+)")),
    Said("block_size", "tokens", re.compile(r"(?<!_)\bblock_size=(\d+)")),
    Said("num_gpu_blocks", "blocks", re.compile(r"\bnum_gpu_blocks=(\d+)")),
    Said("fraction", "share", re.compile(rf"\bcache_max_entry_count={_X}")),
    Said("max_prefill_token_num", "tokens", re.compile(r"\bmax_prefill_token_num=(\d+)")),
    Said("quant_policy", "word", re.compile(r"\bquant_policy=(?:<QuantPolicy\.\w+: )?(\d+)")),
)
_OURS = re.compile(r" - lmdeploy - |\[TM\]\[(?:DEBUG|INFO|WARNING|ERROR|FATAL)\]|\blmdeploy serve\b")


def _read(lines: Iterable[str]) -> Observation:
    seen, draft = list[Seen](), False
    block: float | None = None
    for number, line in enumerate(lines, 1):
        if building := _BUILDING.search(line):
            draft = building.group(1) is not None
        found = read_line(line, number, _SAID)
        block = next((float(item.value) for item in found if item.name == "block_size"), block)
        found += _tokens(found, block)
        config = _CONFIG.search(line)
        if config is not None and not draft:  # a draft's cache has a config of its own
            found += _of_config(line, number)
        seen += found
    return Observation(engine="lmdeploy", seen=tuple(seen))


def _of_config(line: str, number: int) -> list[Seen]:
    """The PyTorch engine's cache; its tokens are the blocks times their size, both on this line."""
    found = read_line(line, number, _OF_CONFIG)
    block = next((float(item.value) for item in found if item.name == "block_size"), None)
    return found + _tokens(found, block)


def _tokens(found: list[Seen], block: float | None) -> list[Seen]:
    """The pool's tokens: stated blocks times the stated tokens of one (on TurboMind's line of arguments)."""
    blocks = next((item for item in found if item.name == "num_gpu_blocks" and item.value), None)
    if block is None or blocks is None:
        return []
    tokens = float(blocks.value) * block
    return [Seen(name="kv_tokens", value=tokens, unit="tokens", line=blocks.line, line_number=blocks.line_number)]


LOG = LogReader(
    said=_SAID + _OF_CONFIG,
    recognises=lambda line: _OURS.search(line) is not None,
    read=_read,
    also=patterns_in(globals(), _OURS),
)
