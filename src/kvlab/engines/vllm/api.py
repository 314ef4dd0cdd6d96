"""vLLM's tokenizer endpoints, https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#tokenizer-api."""

from __future__ import annotations

from kvlab.core.engine import TokenApi
from kvlab.core.errors import ServerRefused


def _tokenize(model: str, text: str, special: bool) -> tuple[str, dict[str, object]]:
    return "/tokenize", {"model": model, "prompt": text, "add_special_tokens": special}


def _tokens(answer: object) -> list[int]:
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
        raise ServerRefused("/tokenize did not answer with a list of token ids; is this a vLLM server?")
    return tokens


def _detokenize(model: str, tokens: list[int]) -> tuple[str, dict[str, object]]:
    return "/detokenize", {"model": model, "tokens": tokens}


def _text(answer: object) -> str:
    text = answer.get("prompt") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise ServerRefused("/detokenize did not answer with a text; is this a vLLM server?")
    return text


TOKEN_API = TokenApi(tokenize=_tokenize, tokens=_tokens, detokenize=_detokenize, text=_text)
