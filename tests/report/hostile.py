"""A record in which every free text tries to leave its place."""

from __future__ import annotations

from msgspec.structs import replace
from sample import record

from kvlab.core.model import Doubt
from kvlab.core.plan import Flag, Launch, Move, Verdict
from kvlab.core.record import Record

ATTACK = (
    "</title></style></script><script>alert(1)</script><img src=x onerror=alert(2)>"
    "<a href=\"javascript:alert(3)\" onclick='alert(4)'>&amp;{{ 7 * 7 }}{% raw %}\x00\x1b[2J\u202e"
    "<svg onload=alert(5)><style>@import url(//evil.example/x)</style>]]>-->\"'`"
)
ARABIC = "مرحبا بالعالم"
LONG = "x" * 3000


def hostile() -> Record:
    """The sample record with hostile titles, labels, names, lines, errors, prompts and answers."""
    calm = record()
    assert calm.ab
    assert calm.ab.quality
    arms = {}
    for name, arm in calm.ab.arms.items():
        assert arm.check
        plan = replace(
            arm.plan,
            source=replace(arm.plan.source, name=ATTACK, revision=ATTACK),
            kv=replace(arm.plan.kv, dtype=ATTACK),
            ledger=tuple(replace(line, because=ATTACK + LONG) for line in arm.plan.ledger),
            alternatives=tuple(replace(line, kv_dtype=ATTACK + line.kv_dtype) for line in arm.plan.alternatives),
            verdict=Verdict("fits", ATTACK, (Move(ATTACK, 1),)),
            launch=Launch((ATTACK, "--a", ATTACK), {"E": ATTACK}, {ATTACK: ATTACK}, (Flag(ATTACK, ATTACK, ATTACK),)),
            doubts=(Doubt(ATTACK, ATTACK),),
        )
        rows = tuple(replace(row, name=ATTACK, line=ATTACK, likely_because=ATTACK) for row in arm.check.rows)
        arms[name] = replace(arm, label=ATTACK + ARABIC, plan=plan, check=replace(arm.check, rows=rows))
    parts = [
        replace(
            item, prompt_id=ATTACK, kind=ATTACK, prompt=ATTACK + ARABIC + LONG, a=f"{ARABIC} {ATTACK} " * 60, b=LONG * 4
        )
        for item in calm.ab.quality.divergences
    ]
    quality = replace(calm.ab.quality, divergences=tuple(parts), because=ATTACK, by_kind={ATTACK: (1.0, 0.0)})
    verdict = replace(calm.ab.verdict, text=ATTACK, because=(ATTACK, LONG))
    metrics = tuple(replace(row, metric=ATTACK + row.metric, because=ATTACK) for row in calm.ab.performance)
    runs = tuple(
        replace(run, folder=ATTACK, rows=tuple(replace(row, error=row.error and ATTACK) for row in run.rows))
        for run in calm.runs
    )
    ab = replace(calm.ab, arms=arms, quality=quality, verdict=verdict, performance=metrics)
    machine = replace(calm.machine, processor=ATTACK, accelerators=(ATTACK,))
    return replace(calm, title=ATTACK + ARABIC, command=("kvlab", ATTACK), machine=machine, runs=runs, ab=ab)
