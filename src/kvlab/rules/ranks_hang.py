"""A rank did not come to a common step.

Symptom: "Watchdog caught collective operation timeout: WorkNCCL(... OpType=ALLREDUCE ...)".

Cause: all ranks must reach each exchange. One died, hangs in a kernel, loads weights more slowly than the others by
minutes, or got another request order.

Do:
- find the rank that is missing: its last line in the log, py-spy dump of each process, dmesg for Xid errors
- slow disks: a copy of the weights on each machine's own disk, or a longer limit (SGLang --dist-timeout)
- upgrade the engine when it comes after days: several such bugs were closed
- try --disable-custom-all-reduce

Source: https://github.com/vllm-project/vllm/issues/2734 https://github.com/vllm-project/vllm/issues/3071
https://github.com/sgl-project/sglang/issues/3784
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign


def _advise(case: Case, advice: Advice) -> Advice:
    rank, milliseconds = case.first.groups.get("rank"), case.first.number_of("ms")
    if rank is None or milliseconds is None:
        return advice
    waited = f"rank {rank} waited {milliseconds / 60000:.0f} minutes in {case.first.groups.get('op', 'an exchange')}"
    return advice.replaced(f"{waited}: {advice.why}")


RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"\[(?:PG \w+ )?Rank (?P<rank>\d+)\] Watchdog caught collective operation timeout: WorkNCCL\("
                r"SeqNum=\d+, OpType=(?P<op>\w+).*?ran for (?P<ms>\d{1,12}) milliseconds"
            )
        ),
        Sign(pattern=re.compile(r"Watchdog caught collective operation timeout")),
    ),
    advise=_advise,
)
