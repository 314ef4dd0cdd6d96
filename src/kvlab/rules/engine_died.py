"""The engine's process ended.

Symptom: vLLM: "Engine core initialization failed. See root cause above", "EngineDeadError"; SGLang: "Received sigquit
from a child process"; TensorRT-LLM: "Executor worker returned error".

Cause: another error ended the process that holds the GPU; this line only passes it on.

Do:
- look for the first ERROR or traceback above this line, in the log of the worker, not of the API server
- with none above: the process was killed (dmesg, exit code 137), or its log goes elsewhere
- give the whole log to kvlab explain

Source: https://github.com/vllm-project/vllm/issues/29265
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(Sign(pattern=re.compile(r"EngineDeadError|AsyncEngineDeadError"), engines=("vllm",)),),
    consequence=True,
)
