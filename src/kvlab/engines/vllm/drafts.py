"""Speculative decoding in vLLM: the layers that draft, and the room that drafted tokens take.

Rules: vllm/config/speculative.py and the MTP models of 0.32.0. A draft model of its own (EAGLE, another checkpoint)
keeps layers that this plan does not see.
"""

from __future__ import annotations

import json

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.layout import Layout, Row
from kvlab.core.model import Model
from kvlab.core.plan import Ask

FLAG = "speculative-config"
# Model types of the language model whose MTP layers vLLM 0.32 runs.
_TAKEN = (
    *("deepseek_v3", "deepseek_v32", "glm_moe_dsa", "glm4_moe", "glm4_moe_lite", "ernie4_5_moe", "exaone_moe", "hy_v3"),
    *("longcat_flash", "mimo", "mimo_v2", "mimo_v2_flash", "nemotron_h", "step3p5", "step3p7"),
    *("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"),
    *("deepseek_v4", "glm5_next_text"),
)
# Those that it runs as well, whose draft layers are not computed here.
_NOT_COMPUTED = (
    *("bailing_hybrid", "bailing_moe_v3", "dots3_note", "exaone4_5", "exaone4_5_text", "gemma4_text", "glm_ocr_text"),
    *("hy_v4", "inkling_model", "intern_s2_preview", "kimi_linear", "minimax_m3", "pangu_ultra_moe", "qwen4_exp_text"),
)
_ONE_MODULE = ("mimo_v2", "mimo_v2_flash")  # vLLM runs the first of their MTP layers only
_WHOLE = ("nemotron_h",)  # all layers of the pattern make one module
_UNDERSTOOD = {"method", "num_speculative_tokens"}
_DEEPER = (0, 28, 0)  # windows keep the tokens that later MTP modules read again


class Drafting(msgspec.Struct, frozen=True):
    """Tokens drafted at a time, and the rows of the layers that draft them."""

    tokens: int = 0
    rows: tuple[Row, ...] = ()
    modules: int = 0
    """MTP modules, each of which reads one token further ahead than the one before."""

    def retained(self, version: tuple[int, int, int]) -> int:
        """Tokens that windows keep beyond their size, because a chain of MTP modules prefills them once more."""
        return self.tokens - 1 if min(self.modules, self.tokens) > 1 and version >= _DEEPER else 0


NONE = Drafting()


def drafting(model: Model, layout: Layout, ask: Ask) -> Drafting | None:
    """What `--speculative-config` adds to the cache; None when kvlab does not know.

    Raises BadInput on what vLLM refuses: text that is no JSON object, a model without MTP layers, a number of tokens
    that its layers do not divide.
    """
    given = [(name.replace("_", "-"), value) for name, value in ask.engine_args]
    if any(name.startswith((f"{FLAG}.", f"{FLAG}+")) for name, _ in given):
        return None
    text = next((value for name, value in reversed(given) if name == FLAG), None)
    if text is None:
        return NONE
    asked = _parsed(text)
    if asked.get("method") != "mtp" or set(asked) - _UNDERSTOOD or model.model_type in _NOT_COMPUTED:
        return None
    if model.model_type not in _TAKEN:
        raise BadInput(f"--engine-arg {FLAG}: vLLM runs no MTP layers of model_type {model.model_type!r}; leave it out")
    if not layout.draft:
        return None
    rows = tuple(_kept(model, row) for row in layout.draft)
    modules = 1 if model.model_type in _WHOLE else max(len(row.layers) for row in rows)
    tokens = asked.get("num_speculative_tokens", modules)
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise BadInput(f"--engine-arg {FLAG}: num_speculative_tokens {tokens!r} must be a whole number from 1")
    if tokens > modules and tokens % modules:
        raise BadInput(
            f"--engine-arg {FLAG}: num_speculative_tokens {tokens} must be a multiple of {modules} MTP layers"
        )
    return Drafting(tokens, rows, modules)


def _kept(model: Model, row: Row) -> Row:
    return msgspec.structs.replace(row, layers=row.layers[:1]) if model.model_type in _ONE_MODULE else row


def _parsed(text: str) -> dict[str, object]:
    try:
        asked = json.loads(text)
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise BadInput(f'--engine-arg {FLAG} must be a JSON object, such as {FLAG}={{"method": "mtp"}}')
    return asked
