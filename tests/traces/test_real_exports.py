"""Files that guidellm, AIPerf and LMCache themselves wrote, against what the server counted.

The expected numbers are those of llama.cpp's own log of the same run (task.n_tokens, cached n_tokens), and of LMCache's
own simulator.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import kvlab
from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.core.trace import Reading, Trace

GOLDEN = Path(__file__).parents[1] / "golden"
TRACES, RESULTS = GOLDEN / "traces", GOLDEN / "results"
BLOCK = 16
PROMPTS = [180, 259, 355, 416, 495, 597, 181, 279, 338, 417, 509, 570, 653, 199, 260, 339, 433, 492, 577]
CACHED = [0, 157, 157, 157, 157, 160, 157, 157, 157, 157, 157, 164, 163, 167, 157, 157, 157, 162, 163]


def leading_hits(trace: Trace) -> list[int]:
    """Tokens in leading blocks that an earlier request had, of every request."""
    assert trace.blocks is not None
    seen: set[int] = set()
    found = []
    for ids in np.split(trace.blocks.ids, trace.blocks.offsets[1:-1]):
        hits = next((at for at, block in enumerate(ids.tolist()) if block not in seen), len(ids))
        found.append(hits * trace.blocks.size)
        seen.update(ids.tolist())
    return found


def unpacked(name: str, folder: Path) -> Path:
    path = folder / name.removesuffix(".gz")
    path.write_bytes(gzip.decompress((TRACES / name).read_bytes()))
    return path


def test_guidellms_report_counts_as_the_server_did(tmp_path: Path) -> None:
    """On one line of 96 KB, as guidellm writes it."""
    path = unpacked("guidellm_0.8.1.json.gz", tmp_path)
    found = traces.read(path)
    assert (found.format, found.inputs.tolist(), found.counted) == ("guidellm", PROMPTS, "log")
    assert found.outputs is not None
    assert found.outputs.tolist() == [4 + at % 5 for at in range(20) if at != 6]  # as was asked for
    assert found.arrivals is not None
    assert found.clock_jumps == 0
    assert (np.diff(found.arrivals) > 0).all()  # one stream
    (failed,) = found.left_out.first
    assert (failed.where, failed.why) == ("benchmark 1, errored request 1", "it failed")  # 4,854 tokens for 2,048
    assert "--tokenizer" in next(doubt.text for doubt in found.doubts if doubt.key == "reuse")


def test_guidellms_prompts_share_what_the_server_took_from_its_cache(gemma: Path) -> None:
    path = TRACES / "guidellm_0.8.1.json.gz"
    found = traces.read(path, reading=Reading(str(gemma), block_size=BLOCK))
    assert (found.counted, found.inputs.tolist()) == ("tokenizer", PROMPTS)
    assert all(abs(said - cached) <= BLOCK for said, cached in zip(leading_hits(found), CACHED, strict=True))
    assert not {doubt.key for doubt in found.doubts} & {"reuse", "tokens"}


def test_guidellms_yaml_says_what_its_json_says() -> None:
    one, two = (traces.read(TRACES / f"guidellm_0.8.1.{form}.gz") for form in ("json", "yaml"))
    assert two.inputs.tolist() == one.inputs.tolist()[:5]
    assert one.arrivals is not None
    assert two.arrivals is not None
    assert two.arrivals.tolist() == one.arrivals.tolist()[:5]
    assert two.left_out == one.left_out
    assert "sample of 5 of 19" in next(doubt.text for doubt in two.doubts if doubt.key == "sample")  # it is cut


def test_requests_that_the_end_of_the_run_cut_off_are_named() -> None:
    found = traces.read(TRACES / "guidellm_0.8.1_cut_off.json.gz")
    assert found.inputs.tolist() == [355, 180]  # of three streams
    assert [row.where for row in found.left_out.first] == [f"benchmark 1, incomplete request {at}" for at in (1, 2, 3)]
    assert {row.why for row in found.left_out.first} == {"the run ended before its answer did"}


def test_older_reports_of_runs_with_several_benchmarks_are_read() -> None:
    """Their texts are taken out."""
    found = traces.read(RESULTS / "guidellm_0.8.1-two_runs.json")
    assert (found.format, len(found.inputs), found.clock_jumps) == ("guidellm", 16, 0)
    text = next(doubt.text for doubt in found.doubts if doubt.key == "reuse")
    assert text == "of 16 requests the prompt is not in the file, so reuse is not known"
    assert traces.read(RESULTS / "guidellm_0.8.1-two_runs.json", reading=Reading(estimate=True)).counted == "log"


def test_lmcaches_own_simulator_hits_as_much() -> None:
    """`lmcache tool cache-simulator simulate` of 0.5.6 on the same file, with room for all of it."""
    found = kvlab.traffic(TRACES / "lmcache_0.5.6_lookups.jsonl.gz")
    assert found.reuse is not None
    assert (found.requests, found.reuse.block_size, found.reuse.tokens) == (31, 64, 8_411)
    assert (found.reuse.ideal.hit_tokens, found.reuse.ideal.unique_blocks) == (5_824, 23)
    assert found.reuse.ideal.token_weighted == pytest.approx(0.6924265842349304)
    assert found.span_seconds is not None
    assert 31 * 0.05 < found.span_seconds < 3  # a lookup every 50 ms
    told = {doubt.key: doubt.text for doubt in found.doubts}
    assert "below one chunk (64 tokens)" in told["lengths"]  # one of 30 tokens was looked up, and is not in it
    assert told["lookups"].startswith("1 lookups are of a request that was looked up before")


def test_lmcaches_log_without_lengths_is_refused_with_the_one_to_give(tmp_path: Path) -> None:
    row = {"timestamp": 1796048706.9, "lookup_id": "cmpl-0", "chunk_hashes": ["0xab", "0xcd"]}
    (tmp_path / "chunk_hashes_1796048706_000000.jsonl").write_text(f"{json.dumps(row)}\n" * 3)
    with pytest.raises(BadInput, match="without lengths and the size of a chunk; give the lookup_hashes_"):
        traces.read(tmp_path / "chunk_hashes_1796048706_000000.jsonl")
