"""Whether `cache_salt` keeps prefixes of one tenant from another: one prompt, sent with salts and without.

vLLM and TensorRT-LLM hash the salt into the first block of the prompt
(https://docs.vllm.ai/en/latest/design/prefix_caching.html). Other engines ignore the key, or refuse the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from kvlab.core.errors import ServerRefused
from kvlab.core.prefix import PrefixSalts, SaltProbe
from kvlab.sharing.line import Line
from kvlab.sharing.quick import LEAST_HIT

TOKENS = 1280
"""Of the prompt: longer than the common sliding windows, within which some engines reuse nothing."""
Salt = Literal["none", "first", "second"]
_ORDER: tuple[Salt, ...] = ("none", "first", "first", "second", "none", "first")


def measure_salts(line: Line, tokens: int, tell: Callable[[int, int], None]) -> PrefixSalts:
    """Sends a fresh prompt of `tokens` tokens without a salt, with one, with another, and each again."""
    from secrets import token_urlsafe

    prompt = line.prompt("salted", line.writer.passage(tokens))
    salts = {"none": None, "first": token_urlsafe(16), "second": token_urlsafe(16)}
    probes: list[SaltProbe] = []
    prompt_tokens = None
    for at, salt in enumerate(_ORDER):
        repeat = any(probe.salt == salt for probe in probes)
        try:
            sent = line.send([prompt], salts[salt])[0]
        except ServerRefused as error:
            probes.append(SaltProbe(salt=salt, repeat=repeat, cached_tokens=None, error=str(error)))
        else:
            prompt_tokens = prompt_tokens or sent.row.prompt_tokens
            probes.append(SaltProbe(salt=salt, repeat=repeat, cached_tokens=sent.cached))
        tell(at + 1, len(_ORDER))
    return judge_salts(probes, prompt_tokens)


def judge_salts(probes: Sequence[SaltProbe], prompt_tokens: int | None) -> PrefixSalts:
    """Isolated: a salt new to the server finds nothing, one that it knows does, and so does the prompt without one."""

    def found(verdict: Literal["isolated", "not isolated", "not supported", "not seen"], because: str) -> PrefixSalts:
        return PrefixSalts(prompt_tokens=prompt_tokens, probes=tuple(probes), verdict=verdict, because=because)

    plain = [probe for probe in probes if probe.salt == "none"]
    salted = [probe for probe in probes if probe.salt != "none"]
    if any(probe.error for probe in plain):
        return found("not seen", next(probe.error for probe in plain if probe.error) or "")
    if salted and all(probe.error for probe in salted):
        return found("not supported", f"the server refuses requests with a cache_salt: {salted[0].error}")
    if prompt_tokens is None or any(probe.cached_tokens is None for probe in probes):
        return found("not seen", "neither usage nor the engine's metrics state the cached tokens of each request")
    hits = [(probe.cached_tokens or 0) >= LEAST_HIT * prompt_tokens for probe in probes]
    again = [hit for probe, hit in zip(probes, hits, strict=True) if probe.repeat]
    fresh = [hit for probe, hit in zip(probes, hits, strict=True) if not probe.repeat and probe.salt != "none"]
    if not hits or hits[0]:
        return found("not seen", "the fresh prompt was found in the cache before it was sent")
    if not any(hit for probe, hit in zip(probes, hits, strict=True) if probe.salt == "none"):
        return found("not seen", "the prompt sent again without a salt was not found in the cache: nothing is reused")
    if all(fresh):
        return found("not supported", "prompts with new salts were found in the cache: the engine ignores cache_salt")
    if any(fresh):
        return found(
            "not isolated", "a prompt with a new salt was found in the cache, as a tenant would find another's"
        )
    if not all(again):
        return found(
            "not seen", "the prompt with a salt that was sent before was not found: salted prompts are not kept"
        )
    return found("isolated", "the prompt was found again only with the salt that it was sent with")
