from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvlab.core.errors import BadInput
from kvlab.readers import read, readers

GOLDEN = Path(__file__).parent.parent / "golden" / "results"


def test_vllm_files_of_both_ages() -> None:
    old = read(GOLDEN / "vllm_0.8.json")
    assert old.format == "vllm"
    # Figures of the report that vLLM printed beside the file.
    assert old.metrics["mean_ttft_ms"] == pytest.approx(54.58, abs=0.005)
    assert old.metrics["total_token_throughput"] == pytest.approx(10566.33, abs=0.005)
    assert old.load == {"num_prompts": 300, "request_rate": 10.0, "burstiness": 1.0, "max_concurrency": None}
    assert "failed" not in old.metrics
    assert "request_goodput" not in old.metrics
    assert not old.lists
    new = read(GOLDEN / "vllm_0.32.json")
    assert (new.format, new.load["max_concurrency"], new.metrics["failed"]) == ("vllm", 4, 0)
    assert not new.lists


def test_the_lists_of_a_detailed_file_are_those_that_vllm_summed_up() -> None:
    import numpy as np

    result = read(GOLDEN / "vllm_0.32-detailed.json")
    assert len(result.lists["ttft_ms"]) == 24
    for name in ("ttft_ms", "tpot_ms", "e2el_ms"):
        values = result.lists[name]
        assert np.mean(values) == pytest.approx(result.metrics[f"mean_{name}"])
        assert np.percentile(values, 99) == pytest.approx(result.metrics[f"p99_{name}"])
    assert sum(result.lists["output_tokens"]) == result.metrics["total_output_tokens"]


def test_the_old_key_of_goodput(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "vllm_0.8.json").read_text()) | {"request_goodput:": 3.5}
    file = tmp_path / "old.json"
    file.write_text(json.dumps(document))
    assert read(file).metrics["request_goodput"] == 3.5


def test_failed_requests_of_a_detailed_file_are_left_out(tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads((GOLDEN / "vllm_0.32-detailed.json").read_text())
    # How vLLM writes a request that failed.
    document["output_lens"][3] = 0
    document["ttfts"][3] = 0.0
    document["itls"][3] = []
    document["errors"][3] = "Traceback"
    file = tmp_path / "failed.json"
    file.write_text(json.dumps(document))
    lists = read(file).lists
    assert {len(values) for values in lists.values()} == {23}
    assert min(lists["ttft_ms"]) > 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; was the run interrupted"),
        ("  \n", "is empty"),
        ("<!doctype html><title>x</title>", "is HTML or XML, not a result file"),
        ('{"date": "2025', "is cut short after 14 bytes"),
        ("[1, 2]", "holds a JSON list, a result file holds an object"),
        ("[]", "holds an empty list"),
        ("nothing", "is not JSON: "),
        ('{"a": 1}\n{"a": 2}\n', "is no result file that kvlab reads .*its keys: a$"),
        ("{}", r"is no result file that kvlab reads \(AIPerf, .*, vllm bench serve\); its keys: none"),
        ('{"tag": 1, "backend": "sglang", "total_throughput": 2}', "its keys: tag, backend, total_throughput"),
        ("time,requests\n1,2\n", "its keys: time, requests"),
        ('{"benchmarks": [{"metrics": {}}]}', "its keys: benchmarks"),
        ('{"kvlab": {"schema": "kvlab/bench@2"}}', "was written as kvlab/bench@2, this kvlab reads kvlab/bench@1"),
    ],
)
def test_what_is_no_result_file_is_one_line(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(content)
    with pytest.raises(BadInput, match=message) as caught:
        read(file)
    assert "\n" not in str(caught.value)
    assert "result.json" in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no result file"):
        read(tmp_path / "absent.json")
    with pytest.raises(BadInput, match="is a folder"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mean_ttft_ms", -3.0),
        ("output_throughput", -1),
        ("completed", int("9" * 400)),
        ("p99_e2el_ms", 1e300),
        ("request_rate", -2.0),
        ("median_tpot_ms", "fast"),
        ("failed", True),
    ],
)
def test_numbers_that_cannot_have_been_measured(tmp_path: Path, key: str, value: object) -> None:
    document = json.loads((GOLDEN / "vllm_0.32.json").read_text()) | {key: value}
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(document))
    with pytest.raises(BadInput, match=rf"odd.json: {key} is ") as caught:
        read(file)
    assert len(str(caught.value)) < 300


def test_a_negative_time_of_one_request(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "vllm_0.32-detailed.json").read_text())
    document["ttfts"][5] = -1.0
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(document))
    with pytest.raises(BadInput, match="ttft_ms of request 5"):
        read(file)


def test_deep_json_and_endless_files(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text('{"kvlab": ' + "[" * 100_000)
    with pytest.raises(BadInput, match="nested too deeply"):
        read(file)
    with pytest.raises(BadInput, match="not a regular file"):
        read(Path("/dev/zero"))


def test_vllm_keys_with_other_contents(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "vllm_0.32-detailed.json").read_text()) | {"ttfts": "none"}
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(document))
    with pytest.raises(BadInput, match="has vLLM's keys with other contents: Expected"):
        read(file)


def test_every_reader_has_a_name_of_its_own() -> None:
    names = [reader.name for reader in readers()]
    assert names == sorted(set(names))
    assert {"kvlab", "vllm"} <= set(names)
