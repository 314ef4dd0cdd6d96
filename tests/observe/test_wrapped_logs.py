"""`check` on logs as they come: compressed, in other encodings, behind the prefixes and in the JSON of collectors."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvlab import engines
from kvlab.core.observation import Observation
from kvlab.logs import source
from kvlab.logs.text import texts_of
from kvlab.observe import read_log
from kvlab.symptoms import explain

GOLDEN = Path(__file__).parents[1] / "golden"
LOGS = [
    GOLDEN / "vllm" / "logs" / "0.32.0_cpu_auto.log",
    GOLDEN / "vllm" / "logs" / "0.32.0_cpu_pool_too_small.log",
    GOLDEN / "sglang" / "qwq_32b_tp4.log",
    GOLDEN / "sglang" / "qwen3.5_9b_tp2.log",
    GOLDEN / "llamacpp" / "f16_8192_np4.log",
    GOLDEN / "ollama" / "ministral_3b_f16_4096x2.log",
    GOLDEN / "logs" / "healthy" / "tensorrt_llm_start.log",
    GOLDEN / "logs" / "healthy" / "lmdeploy_start.log",
]
STAMP = "2026-09-03T06:08:58.123456789Z"
WRAPS: dict[str, Callable[[str], str]] = {
    "docker": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": STAMP}),
    "docker compose": lambda line: f"vllm-1  | {line}",
    "kubectl --prefix": lambda line: f"[pod/llm-0-abc/engine] {line}",
    "kubectl --prefix --timestamps": lambda line: f"[pod/llm-0-abc/engine] {STAMP} {line}",
    "kubectl --timestamps": lambda line: f"{STAMP} {line}",
    "CRI": lambda line: f"{STAMP} stdout F {line}",
    "CRI with JSON": lambda line: f"{STAMP} stdout F {json.dumps({'level': 'info', 'message': line})}",
    "compose with JSON": lambda line: f"engine-1  | {json.dumps({'msg': line})}",
    "vLLM's JSON": lambda line: json.dumps({"timestamp": STAMP, "logger": "vllm", "level": "INFO", "message": line}),
    "llama.cpp --log-jsonl": lambda line: json.dumps({"type": "log", "level": "info", "msg": line + "\n"}),
    "Loki": lambda line: json.dumps({"labels": {"app": "llm"}, "line": line, "timestamp": STAMP}),
    "Datadog": lambda line: json.dumps({"id": "A", "content": {"message": line, "tags": ["a:b"]}}),
    "Elasticsearch": lambda line: json.dumps({"_index": "logs", "_source": {"@timestamp": STAMP, "message": line}}),
    "a collector's JSON of Docker's": lambda line: json.dumps({"log": json.dumps({"log": line + "\n"})}),
    "journald in JSON": lambda line: json.dumps({"__CURSOR": "s=1", "MESSAGE": line, "PRIORITY": "6"}),
    "colour": lambda line: f"\x1b[1;36m{line[:9]}\x1b[0m{line[9:]}",
    "colour as cat -v shows it": lambda line: f"^[[36m{line[:9]}^[[0m{line[9:]}",
    "colour in JSON": lambda line: json.dumps({"message": f"\x1b[36m{line[:9]}\x1b[0m{line[9:]}"}),
    "hyperlink": lambda line: f"\x1b]8;;https://example.com\x07{line[:7]}\x1b]8;;\x1b\\{line[7:]}",
    "windows": lambda line: f"{line}\r",
    "progress bar": lambda line: f"Loading:  10%|█         |\rLoading:  90%|█████████ |\r{line}",
}
"""What stands around each line."""


def lines_of(log: Path) -> list[str]:
    """Lines without the carriage returns of progress bars."""
    return [line.rpartition("\r")[2] for line in log.read_text().rstrip("\n").split("\n")]


def told(seen: Observation) -> list[object]:
    """Everything that was read, but for the text around it."""
    numbers = sorted((item.name, str(item.value), item.unit, item.line_number) for item in seen.seen)
    settings = sorted((item.name, str(item.value), item.line_number) for item in seen.settings)
    return [seen.engine, seen.version, numbers, settings]


@pytest.fixture(params=LOGS, ids=lambda path: path.stem)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A golden log, its lines ended by newlines."""
    path = tmp_path / "plain.log"
    path.write_text("".join(line + "\n" for line in lines_of(request.param)))
    return path


@pytest.mark.parametrize("wrap", WRAPS)
def test_what_is_around_a_line_changes_nothing(wrap: str, log: Path, tmp_path: Path) -> None:
    wrapped = tmp_path / "wrapped.log"
    wrapped.write_text("".join(WRAPS[wrap](line) + "\n" for line in log.read_text().split("\n")[:-1]))
    assert told(read_log(str(wrapped))) == told(read_log(str(log)))
    assert explain(str(wrapped)).engine == explain(str(log)).engine


def test_journald_keeps_the_engine(log: Path, tmp_path: Path) -> None:
    """Its unit is named after the engine: "ollama[1391]:" is how Ollama's own llama-server is told from llama.cpp."""
    engine = read_log(str(log)).engine
    wrapped = tmp_path / "journal.log"
    wrapped.write_text(
        "".join(f"Nov 29 01:02:03 host {engine}[123]: {line}\n" for line in log.read_text().split("\n")[:-1])
    )
    assert told(read_log(str(wrapped))) == told(read_log(str(log)))


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "two gzip files in one": lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:]),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "UTF-16 without its mark": lambda data: data.decode().encode("utf-16-le"),
    "UTF-8 with a mark": lambda data: b"\xef\xbb\xbf" + data,
    "carriage returns and newlines": lambda data: data.replace(b"\n", b"\r\n"),
    "carriage returns": lambda data: data.replace(b"\n", b"\r"),
}


@pytest.mark.parametrize("packing", PACKINGS)
def test_packing_and_encoding_change_nothing(packing: str, log: Path, tmp_path: Path) -> None:
    packed = tmp_path / "engine.log.1"
    packed.write_bytes(PACKINGS[packing](log.read_bytes()))
    assert told(read_log(str(packed))) == told(read_log(str(log)))
    assert explain(str(packed)) == explain(str(log))


def test_zstd_is_read_where_its_library_is(log: Path, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    packed = tmp_path / "engine.log.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(log.read_bytes()))
    assert told(read_log(str(packed))) == told(read_log(str(log)))


def test_a_long_line_that_its_collector_cuts_states_no_half_number(tmp_path: Path) -> None:
    """CRI writes a long line in parts; "F" ends it."""
    log = tmp_path / "pod.log"
    log.write_text(
        f"{STAMP} stderr F INFO 11-30 02:00:00 [core.py:1] Available KV cache memory: 37.99 GiB\n"
        f"{STAMP} stderr P [TensorRT-LLM][INFO] tokens per block=32, primary blocks=1166\n"
        f"{STAMP} stderr F 17, secondary blocks=0\n"
    )
    assert read_log(str(log), "vllm").get("kv_pool_bytes") is not None
    assert {item.name for item in read_log(str(log), "tensorrt-llm").seen} == {"block_size", "host_blocks"}


def test_a_record_of_many_lines_in_one(tmp_path: Path) -> None:
    log = tmp_path / "cloud.log"
    lines = (GOLDEN / "sglang" / "qwq_32b_tp4.log").read_text()
    log.write_text(json.dumps({"message": "started"}) + "\n" + json.dumps({"message": lines}) + "\n")
    tokens = read_log(str(log)).get("kv_tokens")
    assert tokens is not None
    assert (tokens.value, tokens.line_number) == (46611, 2)


@pytest.mark.parametrize("size", [64, 1000, 4097])
def test_the_borders_of_blocks_do_not_matter(size: int, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = told(read_log(str(log)))
    monkeypatch.setattr(source, "BLOCK_BYTES", size)
    if size > 4000:  # below that, lines longer than a block come in pieces
        assert told(read_log(str(log), str(whole[0]))) == whole
        return
    reader = engines.log_reader(str(whole[0]))
    lines = log.read_text().splitlines(keepends=True)
    known = {(item.name, item.value) for line in lines for item in reader.read([line]).seen}
    for item in read_log(str(log), str(whole[0])).seen:
        if not item.name.startswith(reader.gathered):
            assert (item.name, item.value) in known


def test_docker_logs_through_a_pipe(tmp_path: Path) -> None:
    """docker logs NAME 2>&1 | kvlab check - --plan plan.json"""
    config = GOLDEN / "configs" / "Qwen__Qwen3-8B.json"
    plan = tmp_path / "plan.json"
    plan.write_text(
        subprocess.run(
            (sys.executable, "-m", "kvlab", "plan", str(config), "--engine", "vllm", "--pool-gib", "20", "--json"),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    text = "".join(f"{STAMP} {line}\n" for line in lines_of(LOGS[0]))
    argv = (sys.executable, "-m", "kvlab", "check", "-", "--plan", str(plan), "--json")
    for given in (text.encode(), gzip.compress(text.encode())):
        done = subprocess.run(argv, input=given, capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
        rows = {row["name"]: row["seen"] for row in json.loads(done.stdout)["rows"]}
        assert rows["kv_tokens"] == 55356


def test_standard_input_that_is_only_a_text_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LOGS[0].read_bytes())))
    assert read_log("-").engine == "vllm"


def test_a_number_that_docker_cuts_is_left_out() -> None:
    """Docker writes a line above 16 KiB as several records; 8192 must not be read as 8."""
    end = "llama_context: n_ctx = 8"
    record = {"log": "x" * ((16 << 10) - len(end)) + end, "stream": "stderr", "time": STAMP}
    assert not texts_of(json.dumps(record).encode())[-1].endswith("8")
