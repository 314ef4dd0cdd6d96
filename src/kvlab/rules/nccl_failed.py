"""The GPUs cannot talk to each other.

Symptom: "NCCL error: unhandled system error", "ncclSystemError", "ncclInternalError", "NCCL error ... unhandled cuda
error".

Cause: NCCL found no way between the ranks: no shared memory, the wrong network interface, a blocked port, a firewall
between machines, or GPUs without peer access.

Do:
- NCCL_DEBUG=INFO and start again: the first "NCCL WARN" names the cause
- in a container: --ipc=host or a larger --shm-size, --network=host between machines
- name the interface: NCCL_SOCKET_IFNAME=eth0, GLOO_SOCKET_IFNAME the same
- try without peer access or InfiniBand: NCCL_P2P_DISABLE=1, NCCL_IB_DISABLE=1

Source: https://github.com/vllm-project/vllm/issues/10626 https://github.com/vllm-project/vllm/issues/6574
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"NCCL error:? (?:in: .{0,200})?(?:unhandled|internal|invalid|remote)|NCCL error in: "
                r"|ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclRemoteError|NCCL_ERROR_SYSTEM_ERROR"
            )
        ),
    ),
    yields_to=("shared_memory_small",),
)
