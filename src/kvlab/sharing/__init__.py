"""The prefix experiment: a quick look at a shared system prompt, and the parts that ask further."""

from __future__ import annotations

from kvlab.sharing.quick import POLICY, QUESTION_TOKENS, judge_prefix, round_prompts, run_prefix
from kvlab.sharing.whole import QUICK, Asked, measure

__all__ = ["POLICY", "QUESTION_TOKENS", "QUICK", "Asked", "judge_prefix", "measure", "round_prompts", "run_prefix"]
