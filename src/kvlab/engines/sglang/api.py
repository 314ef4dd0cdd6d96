"""SGLang's tokenizer endpoints, /tokenize and /detokenize, which 0.5.4 and later have."""

from __future__ import annotations

from kvlab.core.engine import TokenApi
from kvlab.core.errors import ServerRefused


def _tokenize(model: str, text: str, special: bool) -> tuple[str, dict[str, object]]:
    return "/tokenize", {"model": model, "prompt": text, "add_special_tokens": special}


def _tokens(answer: object) -> list[int]:
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
        raise ServerRefused("/tokenize did not answer with a list of token ids; SGLang has it since 0.5.4")
    return tokens


def _detokenize(model: str, tokens: list[int]) -> tuple[str, dict[str, object]]:
    return "/detokenize", {"model": model, "tokens": tokens, "skip_special_tokens": False}


def _text(answer: object) -> str:
    text = answer.get("text") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise ServerRefused("/detokenize did not answer with a text; SGLang has it since 0.5.4")
    return text


TOKEN_API = TokenApi(tokenize=_tokenize, tokens=_tokens, detokenize=_detokenize, text=_text)
