"""The quality gate: its parts, the rule they are judged by, what each found, and the one verdict of them all.

A part collects evidence from a running server, three times: arm A, arm B, and arm A again after a restart, which is the
noise floor. Judging is pure, by a rule that was fixed before the run and is kept with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Literal, TypeVar

import msgspec

from kvlab.core.errors import KvlabError
from kvlab.core.interval import Interval
from kvlab.core.units import listed

E = TypeVar("E")

PartVerdict = Literal["pass", "fail", "inconclusive", "not run"]
Tag = Literal["a1", "b", "a2"]
"""Whose evidence: arm A, arm B, arm A after a restart."""
TAGS: tuple[Tag, ...] = ("a1", "b", "a2")
ARMS: dict[Tag, str] = {"a1": "arm A", "b": "arm B", "a2": "arm A again"}


class CannotRun(KvlabError):
    """A server cannot give what a part needs: the part is not run there, and the others are."""


class GateRule(msgspec.Struct, frozen=True, kw_only=True):
    """Every threshold of the gate. All intervals are at 95 %."""

    accuracy_loss: float = 0.01
    """Accuracy that B may lose against A, absolute (0.01: one point): more fails."""
    prefix_loss: float = 0.75
    """Shared prefix of the answers that B may lose against A's own, absolute: more fails; less is for a person to read
    once it is below the noise floor."""
    kl_same: float = 0.0014
    """Mean KL divergence in nats per token up to which two arms count as the same, where the noise floor is lower: what
    8-bit weights (Q8_0) of Llama 3 8B are from 16-bit ones, by llama.cpp's tools/perplexity/README.md."""
    kl_loss: float = 0.031
    """Mean KL divergence in nats per token above the noise floor: more fails. As above, 4-bit weights (Q4_K_M)."""
    flips_same: float = 0.023
    """Share of positions at which the likeliest token changes that counts as none. As above, 8-bit weights."""
    flips_loss: float = 0.081
    """Share of positions at which the likeliest token changes, above the noise floor: more fails. 4-bit weights."""
    seed: int = 0
    """Of the resampling behind the intervals."""


class GateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the parts send, the same to every server."""

    prompts: str | None = None
    """A file of prompts for the agreement part; None: those that kvlab ships."""
    max_tokens: int = 64
    """Longest answer of the agreement part."""
    concurrency: int = 1
    """Requests in flight: more share a batch, which adds noise."""
    longest: int | None = None
    """Tokens of the longest text or prompt of a part that goes through context lengths; None: the server's context, as
    far as the part goes on its own."""
    lm_eval: tuple[str, ...] = ()
    """Tasks of lm-evaluation-harness; none: that part is not run."""
    lm_eval_bin: str | None = None
    """The lm_eval program; None: the one on PATH."""
    lm_eval_include: str | None = None
    """A folder with task files of one's own; paths in them start there."""
    lm_eval_limit: int | None = None
    """Documents of each task; None: all."""
    lm_eval_chat: bool = False
    """Ask the chat endpoint."""
    lm_eval_tokenizer: str | None = None
    """A Hugging Face tokenizer for tasks that score given answers; lm_eval's environment then needs transformers."""
    task_items: int = 400
    """Tasks with exact answers. From 381 on arms that never part can pass a margin of one point."""
    lengths: tuple[int, ...] = ()
    """Tokens of the texts of the retrieval part; none: the usual ones that fit the context."""
    needle_items: int = 400
    """Questions of the retrieval part, over all lengths and depths."""
    item_seed: int = 0
    """Of tasks and texts."""
    unisolated_code: bool = False
    """Run the code that a model wrote also where the system cannot isolate it."""


class GateAsk(GateOptions, frozen=True, kw_only=True):
    """What `kvlab quality` is asked, beside its two arms."""

    parts: tuple[str, ...] = ()
    """Parts by name; none: all that can run."""
    rule: GateRule = GateRule()
    b_temperature: float = 0.0
    """The temperature of arm B's requests: above 0 only to check that the gate sees an arm that is wrong."""
    lab: str | None = None
    """A folder that keeps evidence and logs, and from which an interrupted gate goes on; None: a temporary one."""

    @property
    def options(self) -> GateOptions:
        """What the parts send."""
        return GateOptions(**{name: getattr(self, name) for name in GateOptions.__struct_fields__})


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One running server, as a part sees it."""

    url: str
    """Base URL, without /v1."""
    engine: str | None
    """As `kvlab engines` lists it; None when the server does not say which it is."""
    context: int | None = None
    """Tokens that one request may have, input and output; None when not known."""
    temperature: float = 0.0
    """At which answers are sampled; above 0 only to check that the gate sees it."""
    options: GateOptions = GateOptions()
    progress: Callable[[int, int], None] = lambda done, total: None
    """Told (done, total) of the part's requests."""
    folder: Path | None = None
    """Where a part may keep files of its own (logs of a tool that it runs); None: nowhere."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number of a part. Where the number compares two servers, `a` is arm A against itself, the noise floor."""

    name: str
    unit: Literal["share", "points", "nats", "ratio", "tokens", "count"]
    """points: a difference of shares, 0..1, shown times 100."""
    a: Interval | None
    b: Interval | None
    difference: Interval | None = None
    """b less a, paired where the evidence is."""
    allowed: float | None = None
    """What the rule allows of `difference` before the part fails; None: this number decides nothing."""


class LengthRow(msgspec.Struct, frozen=True, kw_only=True):
    """A part's numbers at one span of context lengths, in tokens of the engine."""

    low: int
    high: int
    """`low` <= tokens before the position, or in the prompt, < `high`."""
    count: int
    """Positions, tasks or needles."""
    figures: tuple[Figure, ...]


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One thing on which the arms part, for a person to read."""

    id: str
    asked: str
    a: str
    b: str
    note: str = ""
    """What was expected, or where they part."""


class PartFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What one part says of B against A."""

    name: str
    title: str
    verdict: PartVerdict
    because: str
    """One sentence with its figures; for "not run", why."""
    numbers: tuple[Figure, ...] = ()
    by_length: tuple[LengthRow, ...] = ()
    examples: tuple[Example, ...] = ()


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """The one verdict, with the rule that was fixed before the run."""

    verdict: Literal["pass", "fail", "inconclusive"]
    because: str
    rule: GateRule
    asked: tuple[str, ...]
    """Parts that were named; of those, one that is not run leaves the gate inconclusive."""


class Part(msgspec.Struct, Generic[E], frozen=True, kw_only=True):
    """One part of the gate: a file in gates/, whose name is the part's."""

    name: str
    title: str
    needs: str
    """What it needs of a server, in a few words."""
    evidence: type[E]
    """What `collect` returns: a value that can be written as JSON and read back."""
    collect: Callable[[Side], E]
    """Raises CannotRun when this server lacks what the part needs, and KvlabError when it fails."""
    judge: Callable[[E, E, E, GateRule], PartFinding]
    """(A, A again after a restart, B, rule) -> finding. Pure."""
    lacks: Callable[[str | None, GateOptions], str | None] = lambda engine, options: None
    """(engine, options) -> why the part cannot run there, told before anything starts; None: it can, or not known."""


class PartInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A part, as `kvlab quality --list` shows it."""

    name: str
    title: str
    needs: str
    engines: tuple[str, ...]
    """Engines on which it can run with the options at their defaults."""
    lacks: dict[str, str]
    """Engine -> why it cannot run there."""


class PartList(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab quality --list`."""

    schema: Literal["kvlab/quality-parts@1"] = "kvlab/quality-parts@1"
    parts: tuple[PartInfo, ...]
    rule: GateRule


def whole(findings: Sequence[PartFinding], rule: GateRule, asked: Sequence[str]) -> Gate:
    """One verdict: fail if any part fails, else inconclusive if any part is, or if one that was named was not run."""
    words = {verdict: [f.name for f in findings if f.verdict == verdict] for verdict in _ORDER}
    missing = [name for name in words["not run"] if name in asked]
    verdict: Literal["pass", "fail", "inconclusive"]
    if words["fail"]:
        verdict, because = "fail", f"{listed(words['fail'])} failed"
    elif words["inconclusive"] or missing:
        verdict, because = "inconclusive", f"{listed([*words['inconclusive'], *missing])} could not be settled"
    elif words["pass"]:
        verdict, because = "pass", f"{listed(words['pass'])} passed"
    else:
        verdict, because = "inconclusive", "no part was run"
    left_out = [name for name in words["not run"] if verdict == "fail" or name not in asked]
    because += f"; not run: {', '.join(left_out)}" if left_out else ""
    return Gate(verdict=verdict, because=because, rule=rule, asked=tuple(asked))


_ORDER: tuple[PartVerdict, ...] = ("pass", "fail", "inconclusive", "not run")
