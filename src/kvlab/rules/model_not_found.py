"""There is no such model.

Symptom: "is not a local folder and is not a valid model identifier", "RepositoryNotFoundError", llama.cpp "failed to
open GGUF file", Ollama "model ... not found".

Cause: the name is neither a folder with a config.json (a .gguf file for llama.cpp) nor a repository that this account
can see. In a container the path must be the one inside it.

Do:
- check the spelling: org/name on the Hub, an absolute path on disk
- in a container: is the folder mounted, and where?
- a private repository needs HF_TOKEN
- Ollama: ollama pull NAME first; ollama list shows what is there

Source: https://huggingface.co/docs/huggingface_hub/package_reference/utilities
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(r"model '[^']+' not found, try pulling it first|model \S+ not found, try"),
            engines=("ollama",),
        ),
    ),
    yields_to=("model_gated",),
)
