"""Hub ids, against a Hub on loopback: weights without download, and one line for what goes wrong."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_stand_in import StandIn

QWEN = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B.json"
TOKEN = "hf_secretsecretsecretsecretsecretsecr"
CODE = """
import sys
from kvlab import source
from kvlab.core.errors import BadInput
try:
    loaded = source.load(sys.argv[1])
    print(loaded.origin, loaded.model.name, loaded.model.kv_cache_format, loaded.weights)
except BadInput as error:
    print("refused:", error)
"""


def header(size: int) -> bytes:
    encoded = json.dumps({"a": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(encoded)) + encoded + b"\0" * 100_000


@pytest.fixture
def hub() -> Iterator[StandIn]:
    index = {"metadata": {"total_size": 3_000}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    files = {
        "org/single/config.json": QWEN.read_bytes(),
        "org/single/model.safetensors": header(1 << 40),
        "org/single/hf_quant_config.json": b'{"quantization": {"kv_cache_quant_algo": "FP8"}}',
        "org/many/config.json": QWEN.read_bytes(),
        "org/many/model.safetensors.index.json": json.dumps(index).encode(),
        "org/many/model-1.safetensors": header(1_000),
        "org/many/model-2.safetensors": header(2_000),
        "org/only-gguf/model.gguf": b"GGUF",
        "org/bare/config.json": QWEN.read_bytes(),
        "org/broken/config.json": b"<html>",
        "org/huge/config.json": b" " * (17 << 20),
    }
    with StandIn(files) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def test_a_known_model_is_planned_without_the_hub(hub: StandIn, tmp_path: Path) -> None:
    ask(hub.url, "org/bare", tmp_path)
    assert ask("http://127.0.0.1:9", "org/bare", tmp_path).startswith("Origin(name='org/bare', kind='hub'")


def test_no_weights_are_downloaded(hub: StandIn, tmp_path: Path) -> None:
    ask(hub.url, "org/single", tmp_path)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in kept) < 10_000


def ask(url: str, source_text: str, home: Path) -> str:
    env = {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_TELEMETRY": "1", "PATH": ""}
    command = [sys.executable, "-c", CODE, source_text]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert TOKEN not in done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 1
    return done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("org/single", ["kind='hub'", "bytes=1099511627776", "1 safetensors header", " org/single fp8 "]),
        ("org/many@main", ["revision='main'", "bytes=3000", "2 safetensors headers"]),
        ("org/bare", ["None Weights(bytes=16381470720, kind='estimated'"]),
        ("org/gated", ["refused: org/gated is gated", "HF_TOKEN"]),
        ("org/nothing", ["refused: org/nothing is neither a file or folder here nor a model on the Hub"]),
        ("org/single@nope", ["refused: org/single has no revision 'nope'"]),
        ("org/only-gguf", ["refused: org/only-gguf has no config.json"]),
        ("org/huge", ["refused: org/huge has a config.json of 17,825,792 bytes"]),
        ("org/broken", ["refused: org/broken/config.json is HTML"]),
    ],
)
def test_hub_ids(hub: StandIn, tmp_path: Path, text: str, words: list[str]) -> None:
    said = ask(hub.url, text, tmp_path)
    for word in words:
        assert word in said


def test_an_unreachable_hub_is_one_line(tmp_path: Path) -> None:
    said = ask("http://127.0.0.1:9", "org/single", tmp_path)
    assert "refused: org/single is not here and the Hub cannot be reached" in said
