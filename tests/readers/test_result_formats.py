"""Every format against what its tool printed, and which of its numbers may stand under vLLM's names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kvlab.core.errors import BadInput
from kvlab.readers import read, readers

GOLDEN = Path(__file__).parent.parent / "golden" / "results"


def said(metrics: dict[str, float], **printed: float) -> None:
    """The numbers that a tool printed with two decimals."""
    assert {name: round(metrics[name], 2) for name in printed} == printed


def test_aiperf_says_what_it_printed() -> None:
    result = read(GOLDEN / "aiperf_0.13_aiperf.json")
    assert result.format == "aiperf"
    # The table on the console of that run.
    said(
        result.metrics,
        mean_ttft_ms=54.42,
        p99_ttft_ms=67.66,
        p90_ttft_ms=64.57,
        median_ttft_ms=52.10,
        mean_tpot_ms=9.95,
        median_tpot_ms=10.03,
        mean_e2el_ms=163.92,
        output_throughput=284.58,
        request_throughput=23.71,
        total_token_throughput=1324.07,
        duration=1.01,
    )
    assert (result.metrics["completed"], result.metrics["failed"]) == (24, 0)
    assert (result.metrics["total_input_tokens"], result.metrics["total_output_tokens"]) == (1052, 288)
    assert result.load == {"num_prompts": 24, "request_rate": "inf", "max_concurrency": 4}


def test_aiperfs_table_and_requests_agree_with_its_summary() -> None:
    import numpy as np

    result, table = read(GOLDEN / "aiperf_0.13_aiperf.json"), read(GOLDEN / "aiperf_0.13.csv")
    for name in table.metrics:
        assert table.metrics[name] == pytest.approx(result.metrics[name], abs=0.0051)
    for name in ("ttft_ms", "tpot_ms", "e2el_ms"):
        assert len(result.lists[name]) == 24
        assert np.mean(result.lists[name]) == pytest.approx(result.metrics[f"mean_{name}"])
        assert np.percentile(result.lists[name], 99) == pytest.approx(result.metrics[f"p99_{name}"])
        assert np.std(result.lists[name]) == pytest.approx(result.metrics[f"std_{name}"])
    span = max(result.lists["done_at"]) - min(result.lists["first_at"])
    assert span == pytest.approx(result.metrics["duration"] - result.lists["ttft_ms"][0] / 1000, abs=0.02)


def changed(tmp_path: Path, name: str, change: dict[str, Any]) -> Path:
    document = json.loads((GOLDEN / name).read_text())
    for dotted, value in change.items():
        *path, last = dotted.split(".")
        place = document
        for key in path:
            place = place.setdefault(key, {})
        place[last] = value
    file = tmp_path / "profile_export_aiperf.json"
    file.write_text(json.dumps(document))
    return file


def test_aiperfs_other_definitions_keep_their_names(tmp_path: Path) -> None:
    name = "aiperf_0.13_aiperf.json"
    parts = read(changed(tmp_path, name, {"input_config.endpoint.per_chunk_usage": True}))
    assert "mean_tpot_ms" not in parts.metrics
    assert parts.own["inter_token_latency_ms.mean"].value == pytest.approx(9.9538, abs=1e-4)
    assert "mean_ttft_ms" in parts.metrics
    network = read(changed(tmp_path, name, {"input_config.network_latency.enabled": True}))
    assert not {"mean_ttft_ms", "p99_e2el_ms"} & network.metrics.keys()
    assert "round trip" in network.own["time_to_first_token_ms.p99"].means


def test_a_goodput_of_zero_is_not_absent(tmp_path: Path) -> None:
    file = changed(tmp_path, "aiperf_0.13_aiperf.json", {"goodput": {"unit": "requests/sec", "avg": 0.0}})
    assert read(file).metrics["request_goodput"] == 0


def test_requests_of_another_run_are_not_taken(tmp_path: Path) -> None:
    file = changed(tmp_path, "aiperf_0.13_aiperf.json", {"request_count.avg": 23.0})
    shutil.copy(GOLDEN / "aiperf_0.13.jsonl", tmp_path / "profile_export.jsonl")
    assert not read(file).lists
    assert read(changed(tmp_path, "aiperf_0.13_aiperf.json", {})).lists


def test_genai_perf_says_what_it_printed() -> None:
    printed = {
        "mean_ttft_ms": 58.23,
        "p99_ttft_ms": 64.10,
        "mean_tpot_ms": 11.01,
        "p90_tpot_ms": 11.27,
        "mean_e2el_ms": 179.29,
        "output_throughput": 263.71,
        "request_throughput": 21.98,
        "completed": 24.0,
    }
    for suffix in ("json", "csv"):
        result = read(GOLDEN / f"genai-perf_0.0.16.{suffix}")
        assert result.format == "genai-perf"
        said(result.metrics, **printed)
        assert "failed" not in result.metrics  # the files do not say


def test_genai_perfs_table_of_a_run_on_gpus() -> None:
    result = read(GOLDEN / "genai-perf_recorded.csv")
    said(result.metrics, mean_ttft_ms=1146.31, p99_ttft_ms=3457.97, median_e2el_ms=5690.23, output_throughput=261.25)
    assert result.metrics["completed"] == 40


def test_units_of_a_table_are_read_from_its_names(tmp_path: Path) -> None:
    file = tmp_path / "old.csv"
    # As genai-perf's first versions wrote it: nanoseconds, and "N/A" where nothing was measured.
    file.write_text(
        "Metric,avg,min,max,p99,p95,p90,p75,p50,p25\r\n"
        'Time To First Token (ns),"2,000,000",2,2,2,2,2,2,2,2\r\n'
        "Inter Token Latency (ns),N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A\r\n"
        "\r\nMetric,Value\r\nRequest Throughput (per sec),200.00\r\n"
        "\r\nMetric,GPU,avg\r\nGPU Power (W),0,300\r\n"
    )
    metrics = read(file).metrics
    assert metrics["mean_ttft_ms"] == pytest.approx(2.0)
    assert metrics["request_throughput"] == 200
    assert not {name for name in metrics if "tpot" in name}
    file.write_text(file.read_text().replace("(ns)", "(fortnights)"))
    with pytest.raises(BadInput, match="is in 'fortnights', and must be in ms"):
        read(file)


def test_guidellm_says_what_it_printed() -> None:
    result = read(GOLDEN / "guidellm_0.8.1-concurrent_4.json")
    # Its console: request latency 0.2 s, TTFT 52.6 and 52.0, p95 57.2, ITL 9.9 and 10.0, TPOT 13.5, 23.8 requests/s.
    assert result.metrics["mean_ttft_ms"] == pytest.approx(52.6, abs=0.05)
    assert result.metrics["p95_ttft_ms"] == pytest.approx(57.2, abs=0.05)
    assert result.metrics["mean_e2el_ms"] == pytest.approx(162.5, abs=0.05)  # seconds in the file
    assert result.metrics["request_throughput"] == pytest.approx(23.8, abs=0.05)
    assert result.metrics["output_throughput"] == pytest.approx(285.3, abs=0.05)
    assert result.metrics["total_token_throughput"] == pytest.approx(1205.5, abs=0.05)
    assert result.own["inter_token_latency_ms.mean"].value == pytest.approx(9.9, abs=0.05)
    assert result.own["time_per_output_token_ms.mean"].value == pytest.approx(13.5, abs=0.05)


def test_guidellms_tpot_contains_ttft_and_is_not_vllms() -> None:
    result = read(GOLDEN / "guidellm_0.8.1-concurrent_4.json")
    # The server sent a token every 10 ms after the first: what vLLM calls TPOT.
    assert result.metrics["mean_tpot_ms"] == pytest.approx(10, abs=0.15)
    assert "TTFT is in it" in result.own["time_per_output_token_ms.mean"].means


def test_guidellms_requests_must_be_all_there(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "guidellm_0.8.1-concurrent_4.json").read_text())
    del document["benchmarks"][0]["requests"]["successful"][3:]
    file = tmp_path / "sampled.json"
    file.write_text(json.dumps(document))
    result = read(file)
    assert not result.lists
    assert "mean_tpot_ms" not in result.metrics
    assert "mean_ttft_ms" in result.metrics


def test_sglang_says_what_it_printed() -> None:
    result = read(Path(f"{GOLDEN / 'sglang_0.5.23.jsonl'}#1"))
    said(
        result.metrics,
        duration=1.03,
        request_throughput=23.30,
        output_throughput=279.55,
        total_token_throughput=1444.34,
        max_output_tokens_per_s=279.0,
        mean_e2el_ms=168.53,
        p90_e2el_ms=179.44,
        mean_ttft_ms=57.98,
        p99_ttft_ms=70.76,
        mean_tpot_ms=10.05,
        p95_tpot_ms=10.61,
        mean_itl_ms=10.05,
        p99_itl_ms=21.16,
    )
    assert result.load == {"request_rate": "inf", "max_concurrency": 4}
    import numpy as np

    # Its latency ends some microseconds after the last chunk; the lists hold chunks only.
    for name in ("ttft_ms", "tpot_ms", "e2el_ms"):
        assert np.mean(result.lists[name]) == pytest.approx(result.metrics[f"mean_{name}"], rel=1e-3)
    second = read(Path(f"{GOLDEN / 'sglang_0.5.23.jsonl'}#2"))
    said(second.metrics, mean_ttft_ms=54.36, p99_itl_ms=17.77, output_throughput=200.79)
    assert (second.load["request_rate"], second.lists) == (20.0, {})


def test_sglangs_own_backend_divides_gaps() -> None:
    result = read(GOLDEN / "sglang_0.5.5_recorded.jsonl")
    said(result.metrics, mean_ttft_ms=618.01, p99_tpot_ms=112.84, total_token_throughput=36913.79)
    assert "mean_itl_ms" not in result.metrics
    assert round(result.own["itl_ms.mean"].value, 2) == 13.43
    assert result.load["request_rate"] == "inf"  # Infinity in the file, which is no JSON


def test_zeros_of_what_was_not_measured_are_absent(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "sglang_0.5.5_recorded.jsonl").read_text())
    # np.mean([] or 0): a run without streaming.
    document |= {key: 0.0 for key in document if key.endswith(("_tpot_ms", "_itl_ms"))}
    file = tmp_path / "batch.jsonl"
    file.write_text(json.dumps(document))
    result = read(file)
    assert not [name for name in (*result.metrics, *result.own) if "tpot" in name or "itl" in name]


def test_lmdeploy_in_milliseconds() -> None:
    result = read(GOLDEN / "lmdeploy_recorded.csv")
    # The table that the script printed, in seconds: TTFT 0.474, TPOT 0.002, 12.507 requests/s, 400.227 tokens/s.
    assert result.metrics["mean_ttft_ms"] == pytest.approx(474, abs=0.5)
    assert result.metrics["mean_tpot_ms"] == pytest.approx(2, abs=0.5)
    assert (result.metrics["request_throughput"], result.metrics["output_throughput"]) == (12.507, 400.227)
    assert round(result.own["itl_ms.mean"].value) == 3


def test_trtllm_bench() -> None:
    result = read(GOLDEN / "trtllm-bench_1.1.0rc2_recorded.json")
    assert result.metrics["output_throughput"] == pytest.approx(3770.93, abs=0.005)
    # 1,000 requests of 512 tokens out in that time are the rate that the file states.
    assert result.metrics["total_output_tokens"] / result.metrics["duration"] == pytest.approx(3770.93, abs=0.005)
    assert result.metrics["p99_e2el_ms"] == pytest.approx(134567.9, abs=0.05)
    assert not [name for name in result.metrics if "ttft" in name or "tpot" in name]  # it did not stream


def test_trtllm_bench_with_streaming(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "trtllm-bench_1.1.0rc2_recorded.json").read_text())
    # The keys of TensorRT-LLM's report with --streaming, figures of a public self-test of such a report.
    places = {"p50": 14.03, "p90": 14.03, "p95": 14.03, "p99": 14.03}
    document["streaming_metrics"] = {
        "token_output_speed_tok_s": 71.29,
        "avg_ttft_ms": 4533.1,
        "avg_tpot_ms": 14.03,
        "tpot_percentiles": places,
        "ttft_percentiles": dict.fromkeys(places, 4533.1),
    }
    file = tmp_path / "report.json"
    file.write_text(json.dumps(document))
    metrics = read(file).metrics
    said(metrics, mean_ttft_ms=4533.1, p99_ttft_ms=4533.1, mean_tpot_ms=14.03, median_tpot_ms=14.03)


def test_llama_bench_has_rates_of_its_own() -> None:
    file = GOLDEN / "llama-bench_b11434.jsonl"
    # The table that it printed beside: pp128 36.21, tg32 7.17.
    first, second = (read(Path(f"{file}#{row}")) for row in (1, 2))
    assert round(first.own["pp_avg_ts"].value, 2) == 36.21
    assert round(second.own["tg_avg_ts"].value, 2) == 7.17
    assert not first.metrics
    whole = GOLDEN / "llama-bench_b11434.json"
    assert set(read(Path(f"{whole}#3")).own) == {"pp+tg_avg_ts"}
    assert read(Path(f"{whole}#4")).load == {"n_prompt": 128, "n_gen": 0, "n_depth": 256}


def test_llama_batched_bench() -> None:
    result = read(Path(f"{GOLDEN / 'llama-batched-bench_b11434.jsonl'}#4"))
    assert result.own["speed_tg"].value == pytest.approx(10.899, abs=0.001)
    assert result.own["t_pp"].value == pytest.approx(3110.4, abs=0.1)
    assert not result.metrics
    assert result.load == {"pp": 128, "tg": 16, "pl": 4}


def test_a_file_of_several_runs_names_the_choices() -> None:
    file = GOLDEN / "llama-batched-bench_b11434.jsonl"
    with pytest.raises(BadInput, match=r"holds 4 runs; choose one, as .*#1: #1 \(pp 64, tg 16, pl 1\), #2 \(pp 64"):
        read(file)
    with pytest.raises(BadInput, match=r"holds 4 runs, and none is #5: #1"):
        read(Path(f"{file}#5"))
    with pytest.raises(BadInput, match=r"holds 2 runs; .*#2 \(concurrent 3\)"):
        read(GOLDEN / "guidellm_0.8.1-two_runs.json")
    assert read(Path(f"{GOLDEN / 'guidellm_0.8.1-two_runs.json'}#2")).load["max_concurrency"] == 3
    assert read(Path(f"{GOLDEN / 'vllm_0.8.json'}#1")).format == "vllm"


def test_runs_that_vllm_appended(tmp_path: Path) -> None:
    file = tmp_path / "appended.json"
    lines = [json.dumps(json.loads((GOLDEN / name).read_text())) for name in ("vllm_0.8.json", "vllm_0.32.json")]
    file.write_text("\n".join(lines))
    assert read(Path(f"{file}#2")).load["max_concurrency"] == 4
    file.write_text(lines[0] + "\n" + (GOLDEN / "sglang_0.5.5_recorded.jsonl").read_text())
    with pytest.raises(BadInput, match="and others; give each a file of its own"):
        read(file)


def test_a_file_whose_name_holds_the_sign(tmp_path: Path) -> None:
    file = tmp_path / "run#2"
    shutil.copy(GOLDEN / "vllm_0.8.json", file)
    assert read(file).format == "vllm"


def test_files_are_known_by_what_is_in_them(tmp_path: Path) -> None:
    for file in GOLDEN.iterdir():
        if file.suffix == ".md" or file.name == "aiperf_0.13.jsonl":
            continue
        copy = tmp_path / "result.txt"
        shutil.copy(file, copy)
        expected = "vllm" if file.name.startswith("vllm") else file.name.partition("_")[0]
        assert read(Path(f"{copy}#1")).format == expected


def test_every_reader_has_a_real_file() -> None:
    seen = {
        read(Path(f"{file}#1")).format
        for file in GOLDEN.iterdir()
        if file.name not in ("SOURCE.md", "aiperf_0.13.jsonl")
    }
    assert {reader.name for reader in readers()} - seen == {"kvlab"}  # tests/load writes those
