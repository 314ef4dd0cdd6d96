"""Workloads to report: Mooncake's conversation trace with all that can be asked of it, and a hostile one."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

from hostile import ATTACK, LONG
from msgspec.structs import replace

import kvlab
from kvlab.core.model import Doubt
from kvlab.core.traffic import Traffic

TRACE = Path(__file__).parents[1] / "golden" / "traces" / "mooncake_conversation_trace.jsonl.gz"
ASKED = (1_000, 5_000, 10_000, 30_000, 50_000)
KIB_144 = 147_456
"""Cache bytes of a token of Qwen3-8B in 16 bits: 2 x 36 layers x 8 heads x 128 x 2."""


@cache
def conversation() -> Traffic:
    """The whole trace, with policies at two capacities, two tiers and four replicas."""
    few = kvlab.traffic(TRACE, capacities=(1_000, 50_000), policies=("fifo", "lfu", "belady")).reuse
    whole = kvlab.traffic(
        TRACE,
        capacities=ASKED,
        tiers=("gpu:1000", "cpu:9000@50GB/s"),
        prefill_tokens_per_second=10_000.0,
        replicas=4,
        bytes_per_token=KIB_144,
    )
    assert few
    assert whole.reuse
    return replace(whole, reuse=replace(whole.reuse, policies=few.policies))


def loaded(folder: Path) -> Traffic:
    """Its first 60 requests on pools of three sizes."""
    with gzip.open(TRACE, "rt") as file:
        head = [next(file) for _ in range(60)]
    path = folder / "head.jsonl"
    path.write_text("".join(head))
    return kvlab.traffic(path, pools=(250, 500, 4_000), decode_step_ms=20.0, prefill_tokens_per_second=20_000.0)


def chat_log(folder: Path, role: str = "user") -> Path:
    """A log of eight chats whose first message begins with its own time, under a name with markup."""
    path = folder / "<img src=x onerror=alert(9)>.jsonl"
    rows = [
        {
            "messages": [
                {"role": role, "content": f"[2026-05-{at:02} 10:00:00] " + "Answer in one sentence. " * 40},
            ],
            "usage": {"prompt_tokens": 200, "completion_tokens": 9},
        }
        for at in range(1, 9)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def hostile_workload(folder: Path) -> Traffic:
    """A real answer, every free text of which then tries to leave its place."""
    broken = kvlab.traffic(chat_log(folder), estimate_tokens=True).breakers
    whole, load = conversation(), loaded(folder).load
    assert broken
    assert broken.found
    assert whole.reuse
    assert whole.reuse.tiers
    assert whole.reuse.replicas
    assert load
    tiers = replace(
        whole.reuse.tiers,
        definition=ATTACK,
        tiers=tuple(replace(one, name=ATTACK + one.name + LONG) for one in whole.reuse.tiers.tiers),
    )
    routing = tuple(replace(one, name=ATTACK + one.name) for one in whole.reuse.replicas.routing)
    policies = tuple(replace(one, policy=ATTACK + one.policy) for one in whole.reuse.policies)
    reuse = replace(
        whole.reuse,
        definition=ATTACK,
        tiers=tiers,
        policies=policies,
        replicas=replace(whole.reuse.replicas, definition=ATTACK, routing=routing),
    )
    found = tuple(
        replace(one, title=ATTACK, where=ATTACK + LONG, seen=ATTACK + LONG, fix=ATTACK) for one in broken.found
    )
    return replace(
        whole,
        files=(ATTACK, LONG, "a", "b"),
        format=ATTACK,
        reuse=reuse,
        breakers=replace(broken, found=found, written=ATTACK),
        load=replace(load, definition=ATTACK),
        paging=tuple(replace(line, scheme=ATTACK + line.scheme) for line in whole.paging),
        moves=tuple(replace(move, do=ATTACK, gain=ATTACK, because=ATTACK) for move in whole.moves),
        context=replace(whole.context, because=ATTACK),
        doubts=(Doubt(ATTACK, ATTACK),),
    )
