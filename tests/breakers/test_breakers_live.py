"""The rewritten logs on a real server: what it takes from its cache is what the logs were said to hit."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import chats
import numpy as np
import pytest

import kvlab
from kvlab import api, traces
from kvlab.core.trace import Reading
from kvlab.launch import Server, start
from kvlab.traces import _tokens

pytestmark = pytest.mark.e2e
BLOCK = 16
COUNT = 3
WITH_TOOLS = ("tool keys", "tool order")
"""Gemma's own template leaves tools out."""
TOOLS_FIRST = (
    "{{ bos_token }}{% if tools %}{{ tools | tojson }}\n{% endif %}"
    "{% for message in messages %}<start_of_turn>{{ message.role }}\n{{ message.content }}<end_of_turn>\n{% endfor %}"
    "<start_of_turn>model\n"
)


@pytest.fixture(scope="module")
def server(gemma: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One slot, and no other place where a prompt is kept."""
    args = {"embedded": "true", "cache-ram": "0", "threads": "1"}
    plan = api.plan(gemma, engine="llamacpp", context=2048, parallel=1, swa_full=True, engine_args=args)
    with start(plan, tmp_path_factory.mktemp("server") / "engine.log") as found:
        yield found


@pytest.fixture(scope="module")
def with_tools(gemma: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gemma's tokenizer with a template that begins with the tools, as those of many models do."""
    folder = tmp_path_factory.mktemp("tokenizer")
    source = _tokens.load(str(gemma))
    source.tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**source.special, "chat_template": TOOLS_FIRST}))
    return folder


@pytest.fixture(scope="module", autouse=True)
def tokenizers_are_loaded_once() -> Iterator[None]:
    """A vocabulary of 262,144 pieces takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tokens, "load", cache(_tokens.load))
        yield


def said_to_hit(path: Path, tokenizer: Path) -> list[tuple[int, int]]:
    """(prompt tokens, tokens in leading blocks that an earlier request had) of every request."""
    trace = traces.read(path, reading=Reading(str(tokenizer), block_size=BLOCK))
    assert trace.blocks is not None
    seen: set[int] = set()
    found = []
    for length, ids in zip(trace.inputs, np.split(trace.blocks.ids, trace.blocks.offsets[1:-1]), strict=True):
        hits = next((at for at, block in enumerate(ids.tolist()) if block not in seen), len(ids))
        found.append((int(length), hits * BLOCK))
        seen.update(ids.tolist())
    return found


def asked(url: str, path: str, **body: object) -> tuple[int, int]:
    """(prompt tokens, tokens from the cache), as the server counts them."""
    stated = json.dumps({**body, "max_tokens": 1, "temperature": 0}).encode()
    request = urllib.request.Request(f"{url}/v1/{path}", stated, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        usage = json.load(answer)["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def live(url: str, log: Path, ids_by: Path | None = None) -> list[tuple[int, int]]:
    """What the server says of every request of the log. The first one meets what the server held before it.

    Messages go through the server's own template, unless `ids_by` names the tokenizer whose ids are sent.
    """
    bodies: list[tuple[str, dict[str, object]]]
    if ids_by is None:
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        bodies = [("chat/completions", {"messages": row["messages"]}) for row in rows]
    else:
        counting = traces.encoder(Reading(str(ids_by)))
        assert counting is not None
        bodies = [("completions", {"prompt": list(counting.encode(one))}) for one in traces.logged(log)]
    return [asked(url, path, **body, cache_prompt=True) for path, body in bodies]


def agree(said: list[tuple[int, int]], found: list[tuple[int, int]]) -> None:
    assert [length for length, _ in said] == [length for length, _ in found]
    for (_, hit), (_, cached) in list(zip(said, found, strict=True))[1:]:
        assert abs(cached - hit) <= BLOCK


@pytest.mark.parametrize("name", chats.PLANTED)
def test_a_fixed_log_hits_on_a_real_server_what_was_said(
    name: str, server: Server, gemma: Path, with_tools: Path, tmp_path: Path
) -> None:
    path, fixed = tmp_path / "a.jsonl", tmp_path / "fixed.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in chats.planted(name, COUNT)))
    tools = name in WITH_TOOLS
    tokenizer = with_tools if tools else gemma
    breakers = kvlab.traffic(path, tokenizer=str(tokenizer), fix=str(fixed)).breakers
    assert breakers is not None
    assert [one.code for one in breakers.found] == [chats.PLANTED[name][0]]
    found = live(server.url, fixed, with_tools if tools else None)
    agree(said_to_hit(fixed, tokenizer), found)
    assert sum(length for length, _ in found) == breakers.fixed_tokens
    assert abs(sum(cached for _, cached in found[1:]) - breakers.fixed_hit_tokens) <= BLOCK * COUNT
    assert breakers.fixed_hit_rate > breakers.hit_rate + 0.1


def test_a_broken_log_misses_on_a_real_server_what_was_said(server: Server, gemma: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in chats.planted("iso time", COUNT)))
    found = live(server.url, path)
    agree(said_to_hit(path, gemma), found)
    assert sum(cached for _, cached in found[1:]) < 0.2 * sum(length for length, _ in found[1:])


def test_a_clean_log_has_no_cause_and_hits_what_was_said(server: Server, gemma: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in chats.clean(COUNT)))
    breakers = kvlab.traffic(path, tokenizer=str(gemma)).breakers
    assert breakers is not None
    assert breakers.found == ()
    found = live(server.url, path)
    agree(said_to_hit(path, gemma), found)
    assert sum(cached for _, cached in found[1:]) > 0.7 * sum(length for length, _ in found[1:])
