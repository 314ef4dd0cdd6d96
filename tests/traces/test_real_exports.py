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


ANSWERED = [167, 246, 482, 168, 266, 325, 496, 640, 186, 247, 420, 479]
"""What the server counted, in the order in which the requests began."""


@pytest.mark.parametrize("name", ["aiperf_0.13.0_cancelled.jsonl.gz", "aiperf_0.13.0_cancelled_raw.jsonl.gz"])
def test_aiperfs_cancelled_and_failed_requests_are_counted_and_named(name: str) -> None:
    found = traces.read(TRACES / name)
    assert (found.format, found.inputs.tolist()) == ("aiperf", ANSWERED)
    assert found.outputs is not None
    assert set(found.outputs.tolist()) == {6}  # max_tokens
    assert found.arrivals is not None
    assert (np.diff(found.arrivals) > 0).all()  # the file lists them as they ended
    assert found.clock_jumps == 0
    assert found.left_out.count == 8
    why = [(row.where, row.why) for row in found.left_out.first]
    cancelled = [(f"line {at}", "the request was cancelled") for at in (2, 3, 5)]
    assert why == [*cancelled, ("line 7", "the request failed"), ("line 10", "the request was cancelled")]


SERVED = [342, 403, 482, 584, 168, 266, 325, 404, 496, 557, 640, 186, 247]
FROM_CACHE = [144, 149, 144, 147, 144, 144, 144, 144, 144, 151, 150, 154, 144]
"""The usage of the answers. The first request met what the warm-up had left there."""


@pytest.mark.parametrize("name", ["aiperf_0.13.0.jsonl.gz", "aiperf_0.13.0_raw.jsonl.gz"])
def test_aiperfs_requests_are_as_long_as_the_server_counted(name: str) -> None:
    """AIPerf's own count, which the records state too, leaves out the chat template: 23 tokens fewer in each."""
    found = traces.read(TRACES / name)
    assert found.inputs.tolist() == SERVED
    assert [(row.where, row.why) for row in found.left_out.first] == [
        ("line 1", "a request of the warm-up"),
        ("line 2", "a request of the warm-up"),
        ("line 7", "the request failed"),
    ]
    assert not any(doubt.key == "tokens" for doubt in found.doubts)


def test_aiperfs_prompts_share_what_the_server_took_from_its_cache(gemma: Path) -> None:
    found = traces.read(TRACES / "aiperf_0.13.0_raw.jsonl.gz", reading=Reading(str(gemma), block_size=BLOCK))
    assert (found.counted, found.inputs.tolist()) == ("tokenizer", SERVED)
    said = leading_hits(found)
    assert said[0] == 0
    assert all(abs(hit - cached) <= BLOCK for hit, cached in zip(said[1:], FROM_CACHE[1:], strict=True))


def test_aiperfs_records_say_what_is_not_in_them() -> None:
    for path, tokens in ((TRACES / "aiperf_0.13.0.jsonl.gz", False), (RESULTS / "aiperf_0.13.jsonl", True)):
        told = {doubt.key: doubt.text for doubt in traces.read(path).doubts}
        assert "--export-level raw" in told["reuse"]
        assert ("tokens" in told) == tokens  # of 24 requests only AIPerf's own count is kept in that one
        assert "without the chat template" in told.get("tokens", "without the chat template")


def test_summaries_are_refused_with_the_file_that_holds_the_requests(tmp_path: Path) -> None:
    page = tmp_path / "guidellm.html"  # as guidellm 0.8.1 begins it
    page.write_text('<!DOCTYPE html>\n<html lang="en">\n<head>\n  <title>GuideLLM Benchmark Report</title>\n')
    said = {
        RESULTS / "aiperf_0.13_aiperf.json": "AIPerf's summary, which holds no requests; give aiperf_0.13.jsonl",
        RESULTS / "aiperf_0.13.csv": "AIPerf's summary, which holds no requests; give aiperf_0.13.jsonl",
        TRACES / "guidellm_0.8.1.csv": "guidellm's summary, which holds no requests; give its benchmarks.json",
        page: "guidellm's summary, which holds no requests; give its benchmarks.json",
        TRACES / "aiperf_0.13.0_inputs.json.gz": "without their times and answers; give profile_export_raw.jsonl",
    }
    for path, text in said.items():
        with pytest.raises(BadInput, match=text) as caught:
            kvlab.traffic(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "held"),
    [("guidellm_0.8.1.json.gz", 19), ("aiperf_0.13.0_raw.jsonl.gz", 13), ("aiperf_0.13.0.jsonl.gz", 0)],
)
def test_requests_are_handed_on_where_the_file_holds_them(name: str, held: int) -> None:
    assert traces.holds_requests(TRACES / name) == bool(held)
    found = list(traces.logged(TRACES / name))
    assert len(found) == held
    assert all(one.messages and one.messages[-1]["role"] == "user" for one in found)
    assert not traces.holds_requests(RESULTS / "guidellm_0.8.1-two_runs.json")  # its texts are taken out
