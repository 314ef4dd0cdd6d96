"""This release does not know the model.

Symptom: "Model architectures [...] are not supported", "does not recognize this architecture", llama.cpp "unknown
model architecture", LMDeploy "turbomind does not support", TensorRT-LLM "Unknown architecture".

Cause: the config names an architecture that is newer (or much older) than this engine and its Transformers.

Do:
- LMDeploy: --backend pytorch; TensorRT-LLM: --backend pytorch or autodeploy
- upgrade the engine; the model's page says from which release on
- for "does not recognize this architecture": pip install -U transformers, if the engine allows that version
- Ollama: it lags behind llama.cpp, so llama-server itself may know the model

Source: https://docs.vllm.ai/en/latest/models/supported_models/ https://github.com/ollama/ollama/issues/15508
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule

_NAME = re.compile(
    r"architectures \[['\"]?(\w+)|model type `(\w+)`|unknown model architecture: '([^']+)'"
    r"|turbomind does not support ([\w-]+)|for AutoModelForCausalLM: ([\w-]+)"
)


def _advise(case: Case, advice: Advice) -> Advice:
    found = _NAME.search(case.first.line)
    name = next((group for group in found.groups() if group), None) if found else None
    return advice.replaced(f"the model is a {name}; {advice.why}") if name else advice


RULE = Rule(cost="machine", advise=_advise)
