"""Starting Ollama with a plan's model: made, loaded, named, and taken out of the store again."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.errors import EngineFailed
from kvlab.core.plan import Plan
from kvlab.launch import command, start
from kvlab.ports import free_port

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of models, and an `ollama` on PATH that keeps them there."""
    folder, program = tmp_path / "store", tmp_path / "bin" / "ollama"
    folder.mkdir()
    program.parent.mkdir()
    script = shlex.quote(str(Path(__file__).with_name("scripted_ollama.py")))
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {script} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OLLAMA_MODELS", str(folder))
    return folder


def plan(tmp_path: Path, name: str = "model") -> Plan:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    return api.plan(folder / "config.json", engine="ollama", context=4096)


def test_the_models_name_appears_once_it_is_loaded(store: Path, tmp_path: Path) -> None:
    (store / "kvlab").write_text("of an earlier start")
    with start(plan(tmp_path), tmp_path / "engine.log") as server:
        with urllib.request.urlopen(f"{server.url}/v1/models/kvlab") as answer:
            assert answer.status == 200
        assert "PARAMETER num_ctx 4096" in (store / "kvlab").read_text()
        assert "n_ctx                 = 4096" in server.log.read_text()
        assert (tmp_path / "engine.Modelfile").read_text().splitlines()[1].startswith("FROM ")
    assert list(store.iterdir()) == []


def test_a_model_that_does_not_load_is_a_start_that_failed(store: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="Ollama did not start: the model does not load"):
        start(plan(tmp_path, "does not load"), tmp_path / "engine.log")
    assert list(store.iterdir()) == []


def test_the_port_is_in_a_variable(store: Path, tmp_path: Path) -> None:
    what = command(plan(tmp_path), 18_999)
    assert what.env["OLLAMA_HOST"] == "127.0.0.1:18999"
    assert what.argv[-3:-1] == ("serve.sh", "Modelfile")
    assert list(what.files) == ["serve.sh", "Modelfile"]


def test_the_written_script_makes_and_loads_the_model_and_stops_its_server(store: Path, tmp_path: Path) -> None:
    api.artefacts(plan(tmp_path), tmp_path)
    port = free_port()
    env = {**os.environ, "OLLAMA_HOST": f"127.0.0.1:{port}", "OLLAMA_CONTEXT_LENGTH": "4096"}
    words = ("sh", tmp_path / "serve.sh", tmp_path / "Modelfile", "/models/a model-00001-of-00002.gguf")
    with subprocess.Popen(words, env=env, cwd="/", stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = iter(process.stderr.readline, b"")
        assert any(line.startswith(b"llama_context: n_ctx") for line in said)  # the model is loaded
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
    made = (store / "kvlab").read_text().splitlines()
    assert made[0] == "FROM /models/a model-*-of-00002.gguf"
    assert "PARAMETER num_ctx 4096" in made
    assert not any(line.startswith("FROM ") for line in made[1:])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_without_ollama_the_plan_still_prints_and_a_start_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineFailed, match="no ollama on PATH"):
        command(plan(tmp_path))
