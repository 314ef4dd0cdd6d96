"""Lines of LMDeploy that mean the server will not serve."""

from __future__ import annotations

import re

from kvlab.core.engine import Failures
from kvlab.core.observation import Failure

_SMALLER = ("use smaller weights or more GPUs (--tp)", "stop what else holds the GPU (nvidia-smi names it)")

FAILURES = Failures(
    (
        Failure(
            code="no_memory_for_blocks",
            title="No memory is left for the cache",
            pattern=re.compile(r"No enough gpu memory for kv cache"),
            why="what is free after weights and runtime buffers, times --util, holds no more than two blocks",
            do=("raise --util", "lower --max-num-batched-tokens: it sizes the runtime buffers", *_SMALLER),
        ),
        Failure(
            code="no_memory_for_blocks",
            title="No memory is left for the runtime buffers",
            pattern=re.compile(r"No enough gpu memory for runtime"),
            why="logits of the prefill and of the batch do not fit beside the weights, however few prefill tokens",
            do=("lower --max-num-seqs", *_SMALLER),
        ),
        Failure(
            code="no_memory_for_blocks",
            title="No memory is left for the recurrent state",
            pattern=re.compile(r"No enough gpu memory for state cache"),
            why="a hybrid model keeps a state for every request of max_batch_size, before anything else is cached",
            do=("lower --max-num-seqs", *_SMALLER),
        ),
        Failure(
            code="architecture_unknown",
            title="TurboMind does not know the model",
            pattern=re.compile(r"turbomind does not support \S+"),
            why="the architecture is not one of those that TurboMind's kernels are written for",
            do=("add --engine-arg backend=pytorch",),
        ),
        Failure(
            code="cache_dtype_refused",
            title="The quant policy is not one of LMDeploy's",
            pattern=re.compile(r"argument --quant-policy: invalid"),
            why="this release takes 0, 4 and 8, and newer ones 16, 17 and 42",
            do=("name another with --kv-dtype", "take a newer LMDeploy"),
        ),
        Failure(
            code="cache_ratio_refused",
            title="The share of the free memory is out of range",
            pattern=re.compile(
                r"object-cache path (?:expects 0 < cache_max_block_count < 1|no longer accepts cache_max_block_count)"
            ),
            why="TurboMind of 0.16 on takes a share above 0 and below 1, and no longer a number of blocks",
            do=("give --util between 0 and 1, as 0.8",),
        ),
        Failure(
            code="port_in_use",
            title="The port is taken",
            pattern=re.compile(r"error while attempting to bind on address .*[Aa]ddress already in use"),
            why="another process listens on this address",
            do=("choose another --port", "stop the process that holds it"),
        ),
        Failure(
            code="out_of_memory",
            title="Memory ran out",
            pattern=re.compile(r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|\[TM\].*out of memory at"),
            why="weights or runtime buffers took more than was free",
            do=("lower --util: it leaves more to activations", *_SMALLER),
        ),
    )
)
