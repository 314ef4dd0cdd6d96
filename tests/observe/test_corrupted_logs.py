"""A log that is cut, out of order or damaged states nothing wrong: each number that is read stands in the whole log.

What no reader can tell from the truth is left out: a digit that another replaced, and two halves of numbers that a
missing piece brings together.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import engines
from kvlab.core.errors import BadInput
from kvlab.core.observation import Observation, Seen
from kvlab.observe import read_log
from kvlab.symptoms import explain

GOLDEN = Path(__file__).parents[1] / "golden"
COUNTED = ("retracted_requests_in_log",)
"""Counts of what the lines of a log show: a part of a log shows fewer, never more."""
LARGEST = 300_000

Damage = Callable[[random.Random, bytes], bytes]


@cache
def logs() -> dict[str, tuple[bytes, Observation]]:
    """Every golden log of an engine that states something. (shapes/ holds many starts of one program in one file.)"""
    found = {}
    for path in sorted(GOLDEN.rglob("*.log")):
        if path.parent.name != "shapes" and path.stat().st_size <= LARGEST:
            try:
                seen = read_log(str(path))
            except BadInput:  # a few lines that several engines write
                continue
            if seen.seen:
                found[str(path.relative_to(GOLDEN))] = (path.read_bytes(), seen)
    return found


@cache
def stated(name: str) -> set[tuple[str, object]]:
    """(name, value) of everything that the whole log states, and each line of it alone, but for parts of sums."""
    text, seen = logs()[name]
    names = (seen.engine, *engines.log_reader(seen.engine).holds)
    lines = text.decode("utf-8", "replace").splitlines(keepends=True)
    alone = [item for engine in names for line in lines for item in engines.log_reader(engine).read([line]).seen]
    sums = tuple(sum_of for engine in names for sum_of in engines.log_reader(engine).gathered)
    parts = [item for item in alone if not item.name.startswith(sums)]
    end = engines.log_reader(seen.engine).read([*lines, "\n"]).seen  # sums at the very end, which more may follow
    return {(item.name, item.value) for item in (*seen.seen, *end, *parts)}


def cut_end(chance: random.Random, log: bytes) -> bytes:
    return log[: chance.randrange(len(log))]


def cut_start(chance: random.Random, log: bytes) -> bytes:
    return log[chance.randrange(len(log)) :]


def cut_both(chance: random.Random, log: bytes) -> bytes:
    start, end = sorted(chance.randrange(len(log)) for _ in range(2))
    return log[start:end]


def shuffled(chance: random.Random, log: bytes) -> bytes:
    lines = log.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def swapped(chance: random.Random, log: bytes) -> bytes:
    """Two neighbouring parts of the log in the other order."""
    lines = log.splitlines(keepends=True)
    one, two, three = sorted(chance.randrange(len(lines) + 1) for _ in range(3))
    return b"".join(lines[:one] + lines[two:three] + lines[one:two] + lines[three:])


def binary_inserted(chance: random.Random, log: bytes) -> bytes:
    for _ in range(chance.randrange(1, 30)):
        at = chance.randrange(len(log) + 1)
        log = log[:at] + chance.randbytes(chance.randrange(4, 40)) + log[at:]
    return log


def nulls_inserted(chance: random.Random, log: bytes) -> bytes:
    """As a disk leaves them that was full, or a rotation that copies and truncates."""
    for _ in range(chance.randrange(1, 30)):
        at = chance.randrange(len(log) + 1)
        log = log[:at] + bytes(chance.randrange(1, 40)) + log[at:]
    return log


def glued(chance: random.Random, log: bytes) -> bytes:
    """Records of two ranks without a newline between them."""
    lines = log.splitlines(keepends=True)
    for _ in range(max(3, len(lines) // 10)):
        at = chance.randrange(len(lines))
        lines[at] = lines[at].rstrip(b"\r\n")
    return b"".join(lines)


def twice(_: random.Random, log: bytes) -> bytes:
    """Collected again from its beginning: the sizes are those of one start, not their sum."""
    return log + b"\n" * (not log.endswith(b"\n")) + log


def written_into(chance: random.Random, log: bytes) -> bytes:
    """Another thread wrote its record while a number was being written."""
    inside = [number.end() for number in re.finditer(rb"[=:] *\d[\d.,]*(?=\d)", log)] or [0]
    for at in sorted(set(chance.choices(inside, k=chance.randrange(1, 10))), reverse=True):
        log = log[:at] + b"done request: GET /health 127.0.0.1 200\n" + log[at:]
    return log


DAMAGES: tuple[Damage, ...] = (
    *(cut_end, cut_start, cut_both, shuffled, swapped, binary_inserted, nulls_inserted, twice, written_into, glued),
)

CUTS, REORDERINGS = (cut_end, cut_start, cut_both), (shuffled, swapped)


def wrong(name: str, log: bytes, at: Path) -> tuple[int, list[str]]:
    """How many numbers are read of a damaged log, and those that the whole one does not state. Nothing raises."""
    at.write_bytes(log)
    try:
        explain(str(at))
        seen = read_log(str(at))
    except BadInput:  # nothing is left that an engine writes
        return 0, []
    whole = logs()[name][1]
    if seen.engine != whole.engine:  # of Ollama's log, lines of its llama-server may be all that is left
        assert seen.engine in engines.log_reader(whole.engine).holds
    read = [item for item in seen.seen if not isinstance(item.value, str)]
    known = stated(name)
    return len(read), [
        f"{item.name} = {item.value}: {item.line}"
        for item in read
        if (item.name, item.value) not in known and not fewer(item, whole)
    ]


def fewer(item: Seen, whole: Observation) -> bool:
    """Whether it is a count of what a log shows, and the whole log shows more, or stands there twice."""
    more = whole.get(item.name) if item.name in COUNTED else None
    return more is not None and 0 < float(item.value) <= 2 * float(more.value)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_no_number_of_a_damaged_log_is_wrong(
    damage: Damage, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    damaged = read = 0
    of_engines: Counter[str] = Counter()
    for name, (log, seen) in logs().items():
        chance = random.Random(f"{name} {damage.__name__}")
        for _ in range(3):
            count, false = wrong(name, damage(chance, log), tmp_path / "damaged.log")
            assert not false, name
            damaged, read = damaged + 1, read + count
            of_engines[seen.engine] += count
    record_property("damaged_logs", damaged)
    record_property("numbers_read", dict(of_engines))
    assert damaged > 100
    assert read > 300
    assert len(of_engines) == len(engines.names())


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_several_damages_at_once(tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(logs())))
    log = logs()[name][0]
    # Gluing, and other orders, of a log that is cut already may bring halves of numbers together.
    chosen = data.draw(st.lists(st.sampled_from(DAMAGES[:-1]), min_size=1, max_size=3, unique=True))
    chosen.sort(key=CUTS.__contains__)
    chance = random.Random(data.draw(st.integers(0, 1 << 32)))
    for damage in chosen:
        if log:
            log = damage(chance, log)
    _, false = wrong(name, log or b"\n", tmp_path / "damaged.log")
    # Lines that were moved within the same moment, or without clocks, and may then be cut off, are missed by nothing in
    # the log: a server with fewer devices writes the same. In about one such log of 2,000 a sum is wrong.
    if not {*REORDERINGS}.isdisjoint(chosen):
        sums = engines.log_reader(logs()[name][1].engine).gathered
        false = [number for number in false if not number.startswith(sums)]
    assert not false


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_bits_that_flipped_raise_nothing(tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(logs())))
    log = bytearray(logs()[name][0])
    chance = random.Random(data.draw(st.integers(0, 1 << 32)))
    for _ in range(data.draw(st.integers(1, 2000))):
        log[chance.randrange(len(log))] ^= 1 << chance.randrange(8)
    wrong_or_not = wrong(name, bytes(log), tmp_path / "damaged.log")
    assert wrong_or_not[0] >= 0


LINES = {
    "vllm": "INFO 11-30 02:00:00 [kv_cache_utils.py:1] GPU KV cache size: 55,356 tokens",
    "tensorrt-llm": "[TensorRT-LLM][INFO] tokens per block=32, primary blocks=116617, secondary blocks=0",
    "sglang": "[2025-03-08 12:29:29 TP0] max_total_num_tokens=46611, chunked_prefill_size=2048, context_len=131072",
    "llamacpp": "0.01.010.032 I llama_context: n_ctx                 = 8192",
    "lmdeploy": "2026-11-02 09:14:07,224 - lmdeploy - INFO - [TM][INFO] [BlockManager] max_block_count = 1274",
    "ollama": 'time=2026-02-21T12:07:55Z level=INFO source=routes.go:1 msg="x" default_num_ctx=32768',
}


@pytest.mark.parametrize("engine", LINES)
def test_a_number_cut_at_the_end_of_the_file_is_not_seen(engine: str, tmp_path: Path) -> None:
    """ "GPU KV cache size: 55,3" is neither 553 nor 55; with the newline after it a line is whole."""
    log, line = tmp_path / "cut.log", LINES[engine]
    log.write_text(line + "\n")
    whole = {item.value for item in read_log(str(log), engine).seen}
    assert whole
    for end in range(1, len(line) + 1):
        log.write_text(line[:end])
        assert {item.value for item in read_log(str(log), engine).seen} <= whole, line[:end]


@pytest.mark.parametrize("engine", LINES)
@pytest.mark.parametrize("inserted", [b"\x00", b"\xff\xfe\xfd", b"\x80 7\x80", b"\n\x00\x00", b",\x9b", b"\x1b[31m"])
def test_a_number_with_bytes_inserted_in_it_is_not_read_in_part(engine: str, inserted: bytes, tmp_path: Path) -> None:
    log, line = tmp_path / "damaged.log", LINES[engine].encode()
    log.write_bytes(line + b"\n")
    whole = {item.value for item in read_log(str(log), engine).seen}
    for at in range(1, len(line)):
        log.write_bytes(line[:at] + inserted + line[at:] + b"\n")
        assert {item.value for item in read_log(str(log), engine).seen} <= whole, line[:at]


def test_two_ranks_at_once(tmp_path: Path) -> None:
    """Glued, or one record inside the other: the smallest pool of those that are whole, or none."""
    log = tmp_path / "ranks.log"
    ranks = [
        f"(Worker_TP{rank} pid={rank}) INFO 11-30 02:00:0{rank} [gpu_worker.py:1] Available KV cache memory: {pool} GiB"
        for rank, pool in enumerate(("37.99", "36.50"))
    ]
    log.write_text(ranks[0] + ranks[1] + "\n")
    pool = read_log(str(log), "vllm").get("kv_pool_bytes")
    assert pool is not None
    assert pool.value == 36.5 * 2**30
    for at in range(len(ranks[0])):
        log.write_text(ranks[0][:at] + ranks[1] + ranks[0][at:] + "\n")
        values = {item.value for item in read_log(str(log), "vllm").seen if item.name == "kv_pool_bytes"}
        assert values <= {36.5 * 2**30, 37.99 * 2**30}


def test_the_last_start_of_a_log_counts(tmp_path: Path) -> None:
    """Appended by each start: llama.cpp's caches are those of the last one, not the sum of both."""
    log = tmp_path / "twice.log"
    first = (GOLDEN / "llamacpp" / "f16_8192_np4.log").read_bytes()
    last = GOLDEN / "llamacpp" / "q4_0_8192_np2.log"
    log.write_bytes(first + last.read_bytes())
    alone = {(item.name, item.value) for item in read_log(str(last)).seen}
    assert {(item.name, item.value) for item in read_log(str(log)).seen} == alone
    lines = first.count(b"\n")
    numbers = {item.line_number for item in read_log(str(last)).seen}
    assert {item.line_number for item in read_log(str(log)).seen} == {lines + (number or 0) for number in numbers}
