"""The rewritten log on a real server: what it takes from its cache is what the log was said to hit."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import chats
import numpy as np
import pytest

import kvlab
from kvlab import api, traces
from kvlab.core.trace import Reading
from kvlab.launch import start

pytestmark = pytest.mark.e2e
BLOCK = 16


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


def asked(url: str, messages: object) -> tuple[int, int]:
    body = json.dumps({"messages": messages, "max_tokens": 1, "temperature": 0, "cache_prompt": True}).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        usage = json.load(answer)["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def test_the_fixed_log_hits_on_a_real_server_what_was_said(gemma: Path, tmp_path: Path) -> None:
    path, fixed = tmp_path / "a.jsonl", tmp_path / "fixed.jsonl"
    rows = chats.planted("iso time", 6)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    breakers = kvlab.traffic(path, tokenizer=str(gemma), fix=str(fixed)).breakers
    assert breakers is not None
    assert [one.code for one in breakers.found] == ["timestamp"]
    plan = api.plan(gemma, engine="llamacpp", context=2048, parallel=1, swa_full=True, engine_args={"embedded": "true"})
    with start(plan, tmp_path / "engine.log") as server:
        for log in (path, fixed):
            said = said_to_hit(log, gemma)
            messages = [json.loads(line)["messages"] for line in log.read_text().splitlines()]
            live = [asked(server.url, made) for made in messages]
            assert [length for length, _ in said] == [length for length, _ in live]
            # the first request of a log meets what the server held before it
            for (_, hit), (_, cached) in list(zip(said, live, strict=True))[1:]:
                assert abs(cached - hit) <= BLOCK
    assert breakers.fixed_hit_rate > 0.5
