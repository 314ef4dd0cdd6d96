"""One small file of every other format, in the words of the program that writes it, told from its content alone."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest

import kvlab
from kvlab import traces
from kvlab.core.errors import BadInput

# the two shapes of vLLM's RequestLogger: to 0.10 at INFO, later at DEBUG
VLLM_OLD = (
    "INFO 11-29 21:56:{at:02} [logger.py:43] Received request cmpl-{at}: prompt: {prompt!r}, params: SamplingParams("
    "n=1, stop=[], max_tokens=16), prompt_token_ids: {ids}, prompt_embeds shape: None, lora_request: None."
)
VLLM_NEW = (
    "(APIServer pid=955) DEBUG 11-29 21:56:{at:02} [request_logger.py:54] Request cmpl-{at} details: prompt: "
    "{prompt!r}, prompt_token_ids: {ids}, prompt_embeds shape: None."
)
NOISE = [
    "INFO 11-29 21:56:00 [api_server.py:100] vLLM API server version 0.10.1",
    "(APIServer pid=955) INFO 11-29 21:56:10 [request_logger.py:63] Received request cmpl-1: params: SamplingParams()"
    ", lora_request: None.",
]


@pytest.mark.parametrize("form", [VLLM_OLD, VLLM_NEW])
def test_vllms_log(tmp_path: Path, form: str) -> None:
    prompts = ['it\'s "one"\n', "two, params: prompt_token_ids: [7]", "three"]
    lines = [form.format(at=at, prompt=prompt, ids=[*range(32), at]) for at, prompt in enumerate(prompts)]
    (tmp_path / "vllm.log").write_text("\n".join([*NOISE, *lines, lines[0][: len(lines[0]) // 2]]))
    found = traces.read(tmp_path / "vllm.log")
    assert (found.format, found.inputs.tolist()) == ("vllm-log", [33, 33, 33])
    assert found.blocks is not None
    assert len(set(found.blocks.ids.tolist())) == 2
    assert found.arrivals is not None
    assert (found.arrivals - found.arrivals[0]).tolist() == [0, 1, 2]
    assert found.outputs is None
    assert found.left_out.count == 1


def test_vllms_log_without_ids_is_tokenised(tmp_path: Path, tokenizer: Path) -> None:
    line = VLLM_OLD.format(at=1, prompt="You are a helpful assistant", ids=None)
    (tmp_path / "vllm.log").write_text(line)
    assert kvlab.traffic(tmp_path / "vllm.log", tokenizer=str(tokenizer)).input_tokens.max > 3
    with pytest.raises(BadInput, match="--tokenizer"):
        kvlab.traffic(tmp_path / "vllm.log")


def test_a_gateways_csv(tmp_path: Path, tokenizer: Path) -> None:
    request = {"model": "m", "messages": [{"role": "user", "content": 'a "quoted"\nquestion, with commas'}]}
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["id", "startTime", "request_json", "prompt_tokens", "completion_tokens"])
    table.writerow(["1", "2026-05-01T10:00:00Z", json.dumps(request), "", "12"])
    table.writerow(["2", "2026-05-01T10:00:05Z", json.dumps(request), "", "13"])
    table.writerow(["3", "2026-05-01T10:00:06Z", '{"messages": [', "", "1"])
    table.writerow(["4", "2026-05-01T10:00:06Z"])
    (tmp_path / "a.csv").write_text(out.getvalue())
    found = traces.read(tmp_path / "a.csv", reading=traces.reading(str(tokenizer), False, 4))
    assert found.format == "gateway-csv"
    assert found.outputs is not None
    assert found.outputs.tolist() == [12, 13]
    assert found.arrivals is not None
    assert found.arrivals.tolist() == [1777629600.0, 1777629605.0]
    assert [row.where for row in found.left_out.first] == ["line 4", "line 5"]
    assert found.blocks is not None
    half = len(found.blocks.ids) // 2
    assert found.blocks.ids[:half].tolist() == found.blocks.ids[half:].tolist()


def test_a_line_of_100_megabytes_costs_its_own_row(tmp_path: Path) -> None:
    row = '{},"{{""prompt"": [1, 2, 3]}}"\n'
    with (tmp_path / "a.csv").open("w") as file:
        file.write("time,body\n" + row.format(1) + '2,"{""prompt"": ""')
        for _ in range(100):
            file.write("x" * (1 << 20))
        file.write('""}"\n' + row.format(3))
    found = traces.read(tmp_path / "a.csv")
    assert (len(found.inputs), found.left_out.count) == (2, 1)
    assert found.left_out.first[0].where == "line 3"
    assert found.left_out.first[0].why == "longer than 16 MiB"


def test_lmcaches_lookups(tmp_path: Path) -> None:
    def line(at: int, hashes: list[str], length: int, model: str = "m") -> str:
        return json.dumps(
            {
                "timestamp": 1711929600.123 + at,
                "request_id": f"req-{at}",
                "model_name": model,
                "chunk_size": 256,
                "seq_len": length,
                "dtypes": ["float8_e4m3fn"],
                "shapes": [[32, 256, 128]],
                "chunk_hashes": hashes,
            }
        )

    rows = [line(0, ["0xab", "0xcd"], 600), line(1, ["0xab", "0xef"], 512), line(2, ["0xab"], 300, "other")]
    (tmp_path / "lookup_hashes_1.jsonl").write_text("\n".join([*rows, line(3, ["0xab", "0xcd"], 511)]))
    found = kvlab.traffic(tmp_path / "lookup_hashes_1.jsonl")
    assert found.format == "lmcache"
    assert found.reuse is not None
    # LMCache counts whole chunks as hits and all tokens below: 256 of 600 + 512 + 300
    assert (found.reuse.block_size, found.reuse.ideal.hit_tokens, found.reuse.tokens) == (256, 256, 1412)
    assert found.left_out.count == 1
    assert found.output_tokens is None


def test_aiperfs_records(tmp_path: Path) -> None:
    def line(at: int, metrics: object, phase: str = "profiling", error: object = None) -> str:
        metadata = {"session_num": at, "request_start_ns": 1_790_000_000 * 10**9 + at * 10**9, "benchmark_phase": phase}
        return json.dumps({"metadata": metadata, "metrics": metrics, "error": error})

    lengths = {
        "input_sequence_length": {"value": 550, "unit": "tokens"},
        "output_sequence_length": {"value": 100, "unit": "tokens"},
    }
    rows = [line(0, lengths), line(1, lengths), line(2, lengths, "warmup"), line(3, {}, error={"code": 500})]
    odd = {**lengths, "input_sequence_length": {"value": -1}}
    (tmp_path / "profile_export.jsonl").write_text("\n".join([*rows, line(4, odd)]))
    found = kvlab.traffic(tmp_path / "profile_export.jsonl")
    assert (found.format, found.requests, found.left_out.count) == ("aiperf", 2, 3)
    assert (found.input_tokens.max, found.span_seconds) == (550, 1.0)


@pytest.mark.parametrize("indent", [None, 2])
def test_guidellms_report(tmp_path: Path, indent: int | None) -> None:
    def request(start: float, inputs: int | None) -> dict[str, object]:
        return {"request_start_time": start, "prompt_tokens": inputs, "output_tokens": 128, "request_latency": 1.0}

    requests = {"successful": [request(5.0, 300), request(4.0, 200), request(6.0, None)], "errored": [request(7.0, 1)]}
    report = {
        "metadata": {"version": 1, "guidellm_version": "0.8.1"},
        "benchmarks": [{"type_": "generative_benchmark", "requests": requests}],
    }
    (tmp_path / "benchmarks.json").write_text(json.dumps(report, indent=indent))
    found = traces.read(tmp_path / "benchmarks.json")
    assert (found.format, found.inputs.tolist(), found.left_out.count) == ("guidellm", [200, 300], 2)
    (tmp_path / "cut.json").write_text(json.dumps(report, indent=indent)[:-9])
    with pytest.raises(BadInput, match="no report of guidellm"):
        traces.read(tmp_path / "cut.json")


def test_parquet_of_three_kinds(tmp_path: Path, tokenizer: Path) -> None:
    rows = [{"timestamp": at, "input_length": 512 * at, "output_length": 1, "hash_ids": [*range(at)]} for at in (1, 2)]
    pl.DataFrame(rows).write_parquet(tmp_path / "mooncake.parquet")
    found = kvlab.traffic(tmp_path / "mooncake.parquet")
    assert found.reuse is not None
    assert (found.reuse.block_size, found.reuse.ideal.hit_blocks) == (512, 1)

    messages = [{"role": "user", "content": "What does a ticket from Rome to Milan cost?"}]
    pl.DataFrame([{"messages": messages}] * 2).write_parquet(tmp_path / "chats.parquet")
    text = kvlab.traffic(tmp_path / "chats.parquet", tokenizer=str(tokenizer), block_size=4)
    assert text.reuse is not None
    assert text.reuse.ideal.hit_blocks > 2

    lengths = pl.DataFrame(
        {"created_at": ["2026-05-01 10:00:00"] * 3, "prompt_tokens": [5, -1, 7], "output_tokens": [1] * 3}
    )
    lengths.with_columns(pl.col("created_at").str.to_datetime()).write_parquet(tmp_path / "lengths.parquet")
    counted = kvlab.traffic(tmp_path / "lengths.parquet")
    assert (counted.requests, counted.left_out.count, counted.reuse) == (2, 1, None)

    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "lengths.parquet").read_bytes()[:-30])
    for name, why in (("other", "no column of prompts"), ("cut", "cannot be read as Parquet")):
        with pytest.raises(BadInput, match=why):
            traces.read(tmp_path / f"{name}.parquet")


def test_a_line_longer_than_any_look_is_told_by_its_keys(tmp_path: Path) -> None:
    row = {
        "timestamp": 0,
        "input_length": 512 * 30_000,
        "output_length": 1,
        "hash_ids": [*range(10**6, 10**6 + 30_000)],
    }
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    assert traces.read(tmp_path / "a.jsonl").format == "mooncake"
    (tmp_path / "b.jsonl").write_text(json.dumps({"model": "m", "prompt": "word " * 40_000}) + "\n")
    assert traces.read(tmp_path / "b.jsonl", reading=traces.reading(None, True, 16)).inputs.tolist() == [50_000]
