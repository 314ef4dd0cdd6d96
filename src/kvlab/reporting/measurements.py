"""MEASUREMENTS.md: a lock as a page to commit beside the deployment, the verdict first."""

from __future__ import annotations

from collections.abc import Iterable

from kvlab.core.level import Level
from kvlab.core.performance import share
from kvlab.lockfile import NAME, Lock
from kvlab.reporting import sections, words

_SHOWN = (
    "output_throughput",
    "request_throughput",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "mean_e2el_ms",
    "p99_e2el_ms",
)
_LINES = ("pool_bytes", "num_blocks", "block_size", "tokens", "max_concurrency")


def page(lock: Lock, files: Iterable[str]) -> str:
    """The page as Markdown; `files` are those written with it."""
    parts = [f"# {_cell(lock.model.name)} on {lock.engine.name} {_version(lock)}", _verdict(lock)]
    parts += [_table(("", ""), _what(lock))]
    if lock.results:
        parts += ["## Measured", _load(lock), _measured(lock.results), _how(lock)]
    if lock.quality is not None:
        parts += ["## Answers", f"Arm B against arm A: {lock.quality.verdict}: {words.plain(lock.quality.because)}."]
    parts += ["## Verify", _verify(lock, files)]
    return "\n\n".join(parts) + "\n"


def _verdict(lock: Lock) -> str:
    if lock.verdict is None:
        return "**Not measured**: a plan was frozen; the numbers below are computed or estimated."
    other = "b" if lock.arm == "a" else "a"
    head = words.VERDICTS[lock.verdict.code]
    return (
        f"**{head}** (arm B against arm A; this is arm {(lock.arm or '').upper()}, the other one,"
        f" {other.upper()}, is not frozen here): {words.plain(lock.verdict.text)}"
    )


def _what(lock: Lock) -> list[tuple[str, str]]:
    lines = lock.plan.lines
    rows = [
        ("model", words.plain(lock.model.name) + (f", revision {lock.model.revision}" if lock.model.revision else "")),
        ("weights", "; ".join(f"{file.name} {file.bytes:,} bytes" for file in lock.model.files) or words.ABSENT),
        (
            "cache",
            f"{lines.get('cache dtype')}, {words.number(_float(lines.get('cache bytes_per_token')))} bytes a token",
        ),
    ]
    for name in _LINES:
        if (value := lines.get(f"capacity {name}")) is not None:
            unit = "bytes" if name == "pool_bytes" else ""
            rows.append((f"planned {name.replace('_', ' ')}", words.amount(value, unit)))
    if lock.log is not None:
        differed = f"; {', '.join(lock.log.differed)} differ" if lock.log.differed else ""
        rows.append(("log against plan", f"{words.counted(lock.log.agreed, 'row')} agree{differed}"))
    rows.append(("machine", f"{lock.machine.processor}, {lock.machine.cores} cores, {lock.machine.system}"))
    rows += [("GPU", f"{gpu.name}, driver {gpu.driver or words.ABSENT}") for gpu in lock.gpus]
    flags = " ".join(name if value is None else f"{name} {value}" for name, value in lock.flags.items())
    return [*rows, ("flags", f"`{flags}`"), ("plan digest", f"`{lock.plan.digest[:16]}`")]


def _load(lock: Lock) -> str:
    assert lock.load is not None  # results come from a load
    load = lock.load.load
    answers = "answers as recorded" if load.output_tokens is None else f"up to {load.output_tokens:,} tokens each"
    length = "" if load.input_tokens is None else f" of {load.input_tokens:,} tokens"
    return (
        f"{sections.sent(load, 'request')}{length}, {answers},"
        f" {sections.arrivals(load)}, seed"
        f" {load.seed}; {words.counted(len(lock.runs), 'run')} of this arm in the order {lock.load.order.upper()},"
        f" a restart before each. Measured {lock.measured}."
    )


def _measured(results: tuple[Level, ...]) -> str:
    rows = []
    for level in (row for name in _SHOWN for row in results if row.metric == name):
        ends = "none" if level.low is None or level.high is None else words.span(level.low, level.high, "")
        noise = "one run" if level.noise is None else share(level.noise)
        rows.append((words.metric_with_unit(level.metric, level.unit), words.number(level.value), ends, noise))
    return _table(("metric", "value", "95 % interval", "between runs"), rows)


def _how(lock: Lock) -> str:
    return (
        "Intervals cover the prompts and the noise between runs, pooled over both arms. Between runs: the largest"
        f" change between two runs of this arm. kvlab {lock.kvlab_version}."
    )


def _verify(lock: Lock, files: Iterable[str]) -> str:
    local = "" if lock.model.kind == "hub" else f" --source PATH/{lock.model.name}"
    script = "\n".join(("```console", f"$ kvlab verify {NAME}{local}", "```"))
    after = (
        "after an upgrade: it plans again, starts this configuration with the same load, and exits 1 when something is"
        " worse by more than the noise."
        if lock.load is not None
        else "after an upgrade: it plans again, starts this configuration and checks the log."
    )
    return f"{script}\n\n{after[0].upper()}{after[1:]} Files: {', '.join(f'`{name}`' for name in files)}."


def _version(lock: Lock) -> str:
    return lock.engine.version or f"(version not stated; rules of {lock.engine.planned})"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return words.plain(" ".join(text.split())).replace("|", "\\|").replace("<", "&lt;")


def _float(value: float | str | None) -> float | None:
    return None if isinstance(value, str) else value
