"""The model brings its own code.

Symptom: "contains custom code which must be executed", "Please pass the argument `trust_remote_code=True`".

Cause: the repository holds Python code for its model or tokenizer, and the engine runs it only when told to.

Do:
- see whether a newer release of the engine or of Transformers knows the model without that code
- read the code, then allow it: --trust-remote-code (LMDeploy, SGLang and TensorRT-LLM have the same flag)
- fix the revision that you read: --code-revision

Source: https://docs.vllm.ai/en/latest/models/supported_models/
"""

from __future__ import annotations

from kvlab.core.rule import Rule

RULE = Rule(cost="setting")
