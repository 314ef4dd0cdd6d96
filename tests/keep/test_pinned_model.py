"""The model that was frozen is the model that is served again: commits, and hashes of weights."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import kvlab
from kvlab import weightfiles
from kvlab.core.model import Origin
from kvlab.source import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Hub's cache with one model of one commit, as huggingface_hub lays it out; no network."""
    import huggingface_hub.constants

    content = b"weights"
    root = tmp_path / "hub" / "models--org--name"
    blob = root / "blobs" / hashlib.sha256(content).hexdigest()
    snapshot = root / "snapshots" / COMMIT
    for folder in (blob.parent, snapshot, root / "refs"):
        folder.mkdir(parents=True)
    blob.write_bytes(content)
    (snapshot / "model.safetensors").symlink_to(blob)
    config = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B.json"
    (snapshot / "config.json").write_bytes(config.read_bytes())
    (root / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub, "_fetch", lambda name, file, revision: snapshot / file)
    monkeypatch.setattr(hub, "_fetch_if_there", lambda name, file, revision: None)
    monkeypatch.setattr(hub, "_weights", lambda name, revision: (None, None))
    return snapshot


def test_what_the_hub_gave_is_named_by_commit_and_hash(cached: Path) -> None:
    found = weightfiles.model(Origin("org/name", "hub"), None)
    assert found.revision == COMMIT
    assert [(file.name, file.bytes, file.sha256) for file in found.files] == [
        ("model.safetensors", 7, hashlib.sha256(b"weights").hexdigest())
    ]


def test_a_file_is_hashed_and_its_shards_with_it(tmp_path: Path) -> None:
    for at in (1, 2):
        (tmp_path / f"m-0000{at}-of-00002.gguf").write_bytes(b"%d" % at)
    (tmp_path / "other-00001-of-00002.gguf").write_bytes(b"3")
    counted: list[tuple[int, int]] = []
    first = tmp_path / "m-00001-of-00002.gguf"
    found = weightfiles.model(Origin(first.name, "gguf"), str(first), lambda *at: counted.append(at))
    # printf 1 | sha256sum
    assert found.files[0].sha256 == "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    assert [file.name for file in found.files] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    assert counted[-1] == (2, 2)
    assert weightfiles.model(Origin("gone.gguf", "gguf"), str(tmp_path / "gone.gguf")).files == ()


@pytest.mark.parametrize("engine", ["vllm", "sglang", "lmdeploy"])
def test_a_commit_is_a_flag_of_its_own(cached: Path, engine: str) -> None:
    plan = kvlab.plan(f"org/name@{COMMIT}", engine=engine, gpu="h100-80gb", context=4096)
    words = plan.launch.argv
    assert "org/name" in words
    assert words[words.index("--revision") + 1] == COMMIT
    assert not any("@" in word for word in words)


def test_a_plan_of_the_hub_is_frozen_with_its_commit(cached: Path, tmp_path: Path) -> None:
    plan = kvlab.plan("org/name", gpu="h100-80gb", context=4096)
    lock = kvlab.freeze(output=tmp_path / "deploy", plan=plan).lock
    assert (lock.model.name, lock.model.revision) == ("org/name", COMMIT)
    assert 'model: "org/name"' in (tmp_path / "deploy" / "vllm_config.yaml").read_text()
