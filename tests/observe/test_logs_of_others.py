"""Logs that are not what they are taken for: another engine's, no file at all, or numbers that no engine prints."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import api, engines
from kvlab.core.errors import BadInput
from kvlab.core.plan import Plan
from kvlab.observe import read_log

GOLDEN = Path(__file__).parents[1] / "golden"
LLAMA = GOLDEN / "llamacpp" / "q8_0_8192_auto4_unified.log"
VLLM = sorted((GOLDEN / "vllm" / "logs").iterdir())[0]
QWEN = GOLDEN / "configs" / "Qwen__Qwen3-8B.json"


def planned(engine: str) -> Plan:
    return api.plan(QWEN, engine=engine, pool_gib=20.0)


@pytest.mark.parametrize(("log", "engine", "named"), [(LLAMA, "vllm", "llamacpp"), (VLLM, "llamacpp", "vllm")])
def test_a_log_of_another_engine_than_the_plans(tmp_path: Path, log: Path, engine: str, named: str) -> None:
    with pytest.raises(BadInput, match=f"is a log of .*{named}.*, not of {engine}"):
        api.check(log, plan=planned(engine))
    file = tmp_path / "plan.json"
    file.write_bytes(msgspec.json.encode(planned(engine)))
    with pytest.raises(BadInput, match=f"not of {engine}"):
        api.check(log, plan=file)
    with pytest.raises(BadInput, match=f"the plan is for {engine}, the log or server is {named}'s"):
        api.check(log, plan=planned(engine), engine=named)


def test_the_log_of_the_planned_engine_is_compared() -> None:
    assert api.check(LLAMA, plan=planned("llamacpp")).engine.name == "llamacpp"
    assert api.check(VLLM, plan=planned("vllm")).engine.name == "vllm"


def test_what_is_no_log_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    for path in (tmp_path / "pipe.log", "/dev/zero", tmp_path, tmp_path / "absent.log"):
        with pytest.raises(BadInput) as refused:
            read_log(str(path))
        assert str(path) in str(refused.value)


def test_standard_input_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.TextIOWrapper(io.BytesIO(b"\xff\xfe\n" + VLLM.read_bytes()), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", raw)
    assert read_log("-").engine == "vllm"
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BadInput, match="standard input is closed"):
        read_log("-")


@pytest.mark.parametrize("number", ["1.2.3", "9" * 400, "1e9", "..", "12,5", "-3"])
def test_numbers_that_llamacpp_does_not_print_are_not_seen(tmp_path: Path, number: str) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        f"llama_kv_cache: size = {number} MiB (  2048 cells,   3 layers,  4/4 seqs), K (f16): {number} MiB, V (f16):"
        f" {number} MiB\nllama_memory_recurrent: size = {number} MiB (     1 cells,  48 layers\n"
        f"load_tensors:   CPU model buffer size = {number} MiB\nprint_info: file size   = {number} MiB\n"
    )
    assert read_log(str(log)).seen == ()


def test_a_number_of_tokens_beyond_any_machine_is_not_seen(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"INFO 11-30 02:00:00 [kv_cache_utils.py:1] GPU KV cache size: {'9' * 400} tokens\n")
    assert read_log(str(log)).seen == ()


PIECES = st.sampled_from(
    [
        *(
            "llama_kv_cache: ",
            "size = ",
            " MiB (",
            " cells, ",
            " layers, ",
            " seqs), ",
            "K (f16): ",
            "V (f16): ",
            " MiB",
        ),
        *("GPU KV cache size: ", " tokens", "Maximum concurrency for ", " tokens per request: ", "x", " GiB", "1.2.3"),
        *(
            "Available KV cache memory: ",
            "9" * 400,
            "-",
            ",",
            "1,024",
            "0.00",
            "\x1b[0m",
            "load_tensors: ",
            "n_slots = ",
        ),
    ]
)


@given(st.lists(st.one_of(PIECES, st.text(max_size=5), st.integers().map(str)), max_size=20).map("".join))
def test_any_line_is_read_or_left(line: str) -> None:
    for name in engines.names():
        try:
            reader = engines.log_reader(name)
        except ModuleNotFoundError:
            continue  # an engine without a log
        for seen in reader.read([line]).seen:
            assert isinstance(seen.value, str) or abs(seen.value) <= 1 << 61
