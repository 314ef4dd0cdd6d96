"""A log that still grows, and several ranks in one: what is stated so far, and never half a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import engines
from kvlab.core.errors import BadInput
from kvlab.observe import read_log

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(
    "path", ["vllm/logs/0.32.0_cpu_auto.log", "sglang/qwq_32b_tp4.log", "llamacpp/f16_8192_np4.log"]
)
def test_a_log_read_while_it_grows(path: str, tmp_path: Path) -> None:
    """What serve reads once the server is ready: the same as later, or not yet."""
    text = (GOLDEN / path).read_bytes()
    engine = read_log(str(GOLDEN / path)).engine
    reader = engines.log_reader(engine)
    lines = text.decode().splitlines(keepends=True)
    known = {(item.name, item.value) for line in lines for item in reader.read([line]).seen}
    known |= {(item.name, item.value) for item in read_log(str(GOLDEN / path)).seen}
    log = tmp_path / "engine.log"
    for end in range(1, len(text), len(text) // 60):
        log.write_bytes(text[:end])
        seen = [item for item in read_log(str(log), engine).seen if not item.name.startswith(reader.gathered)]
        assert {(item.name, item.value) for item in seen} <= known


def test_the_readers_are_given_every_line_that_they_use() -> None:
    """A reader gets the lines in which its patterns may match: it must read the same of these as of all."""
    for path in sorted(GOLDEN.rglob("*.log")):
        if path.parent.name == "shapes" or GOLDEN / "logs" in path.parents:
            continue
        try:
            seen = read_log(str(path))
        except BadInput:  # a store's own lines
            continue
        reader = engines.log_reader(seen.engine)
        every = reader.read(path.read_text().splitlines(keepends=True))
        assert seen.version == every.version
        plain = {(item.name, str(item.value)) for item in every.seen}
        assert {(item.name, str(item.value)) for item in seen.seen} == plain, path.name


@pytest.mark.parametrize(
    ("engine", "lines", "tokens"),
    [
        (  # data-parallel engines of vLLM have a pool each
            "vllm",
            [
                "(EngineCore_DP0 pid=11) INFO 11-30 02:00:00 [kv_cache_utils.py:1] GPU KV cache size: 55,360 tokens",
                "(EngineCore_DP1 pid=12) INFO 11-30 02:00:00 [kv_cache_utils.py:1] GPU KV cache size: 55,344 tokens",
            ],
            55344,
        ),
        (
            "sglang",
            [
                "[2026-01-05 10:00:00 DP0 TP0] max_total_num_tokens=46611, chunked_prefill_size=2048, x=1",
                "[2026-01-05 10:00:00 DP1 TP0] max_total_num_tokens=46599, chunked_prefill_size=2048, x=1",
            ],
            46599,
        ),
    ],
)
def test_of_ranks_that_differ_the_smallest_pool_counts(
    engine: str, lines: list[str], tokens: int, tmp_path: Path
) -> None:
    log = tmp_path / "ranks.log"
    for order in (lines, lines[::-1]):
        for between in ("\n", ""):  # in one line when both write at once
            log.write_text(between.join(order) + "\n")
            seen = read_log(str(log), engine).get("kv_tokens")
            assert seen is not None
            assert seen.value == tokens
