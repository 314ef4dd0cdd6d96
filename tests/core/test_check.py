"""Plans against the recorded logs of real servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kvlab.core.check import Check, CheckRow, compare, listing
from kvlab.core.model import Origin
from kvlab.core.observation import Observation
from kvlab.core.plan import Ask, EngineId, Expected, KvCost, Launch, LedgerLine, Plan, Verdict
from kvlab.core.units import GIB, MIB
from kvlab.observe import read_log

GOLDEN = Path(__file__).parents[1] / "golden"
SERVED = GOLDEN / "llamacpp" / "f16_8192_np4.log"  # llama-server -c 8192 -np 4, Gemma 3 270M
REFUSED = GOLDEN / "logs" / "context_larger_than_pool.vllm.log"
TENSORS = 246_587_904  # bytes of the 236 tensors in that GGUF file


def expected(name: str, value: float, unit: str = "tokens", tolerance: float = 0) -> Expected:
    return Expected(name=name, value=value, unit=unit, kind="computed", tolerance=tolerance, because="of -c")


def plan(*rows: Expected, engine: str = "llamacpp", weights: int | None = None) -> Plan:
    ledger = () if weights is None else (-weights,)
    return Plan(
        source=Origin("gemma.gguf", "gguf"),
        engine=EngineId(engine, "b11549"),
        layout=(),
        kv=KvCost("f16", 1, None, None),
        ledger=tuple(
            LedgerLine(name="weights", bytes=size, kind="computed", low=size, high=size, because="tensors")
            for size in ledger
        ),
        capacity=None,
        alternatives=(),
        contexts=(),
        verdict=Verdict("unknown", ""),
        launch=Launch(()),
        expects=rows,
        doubts=(),
        ask=Ask(engine=engine),
    )


def of(check: Check, name: str) -> CheckRow:
    return next(row for row in check.rows if row.name == name)


def log() -> Observation:
    return read_log(str(SERVED))


def test_an_estimate_that_holds_is_counted_apart_from_what_agrees_exactly() -> None:
    low, high = 10 * MIB, 522 * MIB  # the log says 21.28 MiB
    rows = (
        expected("n_ctx", 8192),
        replace(expected("compute_buffer_bytes", 75_759_162, "bytes", 450 * MIB), low=low, high=high),
    )
    found = compare(plan(*rows), log())
    assert [row.verdict for row in found.rows] == ["agrees", "agrees"]
    assert (found.exact, found.within) == (1, 1)


def test_the_weights_of_the_file_and_of_the_buffers_are_compared() -> None:
    found = compare(plan(weights=TENSORS), log())
    file, loaded = of(found, "weights_file_bytes"), of(found, "weights_loaded_bytes")
    assert (file.verdict, file.ranged, file.line_number) == ("agrees", False, 34)
    # 235.16 MiB are mapped and 12.66 MiB stand a second time, repacked for the processor
    assert (loaded.verdict, loaded.ranged) == ("agrees", True)
    assert loaded.seen == pytest.approx(247.82 * MIB)
    other = compare(plan(weights=TENSORS * 2), log())  # the plan of an f16 file
    assert of(other, "weights_file_bytes").verdict == of(other, "weights_loaded_bytes").verdict == "differs"
    assert not found.confirmed  # weights say nothing about the cache


def test_weights_that_cannot_be_compared_are_said_to_be_so() -> None:
    (remark,) = compare(plan(), log()).remarks
    assert remark.startswith("weights: not compared, since the plan has no budget")
    silent = replace(log(), seen=())
    (remark,) = compare(plan(weights=TENSORS), silent).remarks
    assert "does not state" in remark


def test_a_refusal_is_said_and_its_pool_is_read() -> None:
    seen = read_log(str(REFUSED))
    pool = seen.get("kv_pool_bytes")
    assert pool is not None
    assert pool.value == pytest.approx(3.18 * GIB)
    for found in (listing(seen), compare(plan(engine="vllm"), seen)):
        assert found.refused is not None
        assert "is larger than the available KV cache memory (3.18 GiB)" in found.refused


def test_a_start_after_a_refusal_counts(tmp_path: Path) -> None:
    both = tmp_path / "engine.log"
    served = GOLDEN / "vllm" / "logs" / "0.32.0_cpu_auto.log"
    both.write_bytes(REFUSED.read_bytes() + served.read_bytes())
    assert listing(read_log(str(both))).refused is None
    assert listing(read_log(str(served))).refused is None
    both.write_bytes(served.read_bytes() + REFUSED.read_bytes())
    assert listing(read_log(str(both))).refused is not None
