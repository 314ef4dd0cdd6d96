"""Commands of engines whose port or settings are not in --port: what is run, with stand-ins for the programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.errors import EngineFailed
from kvlab.core.plan import Plan
from kvlab.launch import command, start

CONFIG = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B.json"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that print the file named by their last word, and fail."""
    for name in ("trtllm-serve", "lmdeploy"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('#!/bin/sh\nfor last; do :; done\necho "$@"\ncat "$last"\nexit 1\n')
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")


def plan(engine: str) -> Plan:
    return api.plan(CONFIG, engine=engine, pool_gib=8, context=8192)


@pytest.mark.usefixtures("programs")
def test_a_port_in_a_flag_of_another_name_is_replaced() -> None:
    what = command(plan("lmdeploy"), 18_998)
    at = what.argv.index("--server-port")
    assert what.argv[at + 1] == "18998"
    assert what.files == {}


@pytest.mark.usefixtures("programs")
def test_a_file_that_the_command_names_is_written_beside_the_log(tmp_path: Path) -> None:
    log = tmp_path / "lab" / "engine.log"
    with pytest.raises(EngineFailed, match="TensorRT-LLM did not start"):
        start(plan("tensorrt-llm"), log)
    written = tmp_path / "lab" / "engine.trtllm_config.yaml"
    assert "free_gpu_memory_fraction: 0.9" in written.read_text()
    assert log.read_text().endswith(written.read_text())
    assert str(written) in log.read_text().splitlines()[0]
