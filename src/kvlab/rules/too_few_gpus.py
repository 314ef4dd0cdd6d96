"""More GPUs are asked for than there are.

Symptom: "World size (8) is larger than the number of available GPUs (4)", "Tensor parallel size (2) exceeds available
GPUs (1)", "local_world_size (16) must be less than or equal to the number of visible devices (8)", "The number of
required GPUs exceeds the total number of available GPUs".

Cause: tensor times pipeline (times data) parallel is more than the GPUs that this process sees on this machine.

Do:
- lower --tensor-parallel-size (--tp) to the GPUs that nvidia-smi shows in the container
- give the container more GPUs, or unset CUDA_VISIBLE_DEVICES
- over several machines: --pipeline-parallel-size N with --distributed-executor-backend ray

Source: https://github.com/vllm-project/vllm/pull/28873 https://github.com/NVIDIA/dgx-spark-playbooks/issues/63
https://github.com/vllm-project/vllm/issues/7107
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign

_COUNTS = re.compile(r"\((?P<asked>\d+)\)\D{1,80}\((?P<there>\d+)\)")


def _advise(case: Case, advice: Advice) -> Advice:
    found = _COUNTS.search(case.first.line)
    if found is None:
        return advice
    return advice.replaced(f"{found['asked']} GPUs are asked for and {found['there']} are seen: {advice.why}")


RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"World size \(\d+\) is larger than the number of available GPUs"
                r"|parallel size \(\d+\) exceeds available GPUs"
                r"|local_world_size \(\d+\) must be less than or equal to the number of visible devices"
                r"|number of required GPUs exceeds the total number of available GPUs"
                r"|world_size \(\d+\) is less than than max local gpu count"
            )
        ),
    ),
    advise=_advise,
)
