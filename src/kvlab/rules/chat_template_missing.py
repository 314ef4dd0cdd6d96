"""The model has no chat template.

Symptom: "default chat template is no longer allowed, so you must provide a chat template", "Cannot use chat template
functions because tokenizer.chat_template is not set".

Cause: a base model, or a copy without its tokenizer's template: chat requests are refused, completions work.

Do:
- use the instruct version of the model
- give a template: --chat-template FILE; llama.cpp --chat-template-file FILE
- use the completions endpoint

Source: https://github.com/vllm-project/vllm/issues/29849
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"default chat template is no longer allowed|tokenizer\.chat_template is not set and no template"
            )
        ),
    ),
)
