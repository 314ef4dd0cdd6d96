"""The model's terms were not accepted.

Symptom: "Cannot access gated repo", "GatedRepoError", "401 Client Error" or "403 Client Error" for huggingface.co.

Cause: the Hub gives these weights only to accounts that accepted the licence, and the process has no token of one.

Do:
- accept the terms on the model's page with the account whose token is used
- give the token to the process: HF_TOKEN in its environment (in the container, not only on the host), or hf auth
  login
- a fine-grained token needs "read access to public gated repositories"

Source: https://huggingface.co/docs/hub/models-gated
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(Sign(pattern=re.compile(r"40[13] Client Error.{0,200}huggingface\.co/")),),
)
