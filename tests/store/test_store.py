"""Files that are none, that never end, or that lie behind a link."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kvlab import store
from kvlab.core.errors import BadInput


def pipe(folder: Path) -> Path:
    path = folder / "pipe.json"
    os.mkfifo(path)
    return path


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path in (pipe(tmp_path), tmp_path / "socket", Path("/dev/zero")):
            with pytest.raises(BadInput, match="not a regular file"):
                store.read_bytes(path, "plan")
    with pytest.raises(BadInput, match="is a folder; name the plan in it"):
        store.read_bytes(tmp_path, "plan")
    with pytest.raises(BadInput, match="no plan at"):
        store.read_bytes(tmp_path / "absent", "plan")
    with pytest.raises(BadInput, match="cannot read"):
        store.read_bytes("a\0b", "plan")


def test_an_address_is_no_file() -> None:
    for path in ("http://me:s3cret@host/plan.json", Path("https://me:s3cret@host")):
        with pytest.raises(BadInput, match="an address was given where a plan belongs") as refused:
            store.read_bytes(path, "plan")
        assert "s3cret" not in str(refused.value)


def test_a_file_larger_than_its_kind_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(store.MOST_BYTES + 1)
    with pytest.raises(BadInput, match="larger than 536,870,912 bytes"):
        store.read_bytes(path, "plan")


def test_deep_json_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    with pytest.raises(BadInput, match="nested too deeply"):
        store.read(path, list, "plan")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    link = tmp_path / "latest.json"
    link.symlink_to(tmp_path / "runs" / "one.json")
    store.write_atomic(link, b"1")
    assert link.is_symlink()
    assert (tmp_path / "runs" / "one.json").read_bytes() == b"1"
    (tmp_path / "runs" / "one.json").chmod(0o600)
    store.write_atomic(link, b"2")
    assert (tmp_path / "runs" / "one.json").read_bytes() == b"2"
    assert (tmp_path / "runs" / "one.json").stat().st_mode & 0o777 == 0o600
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["latest.json", "one.json", "runs"]


@pytest.mark.parametrize("name", ["no/folder/plan.json", "full", "a\0b"])
def test_errors_name_the_users_path(tmp_path: Path, name: str) -> None:
    path = Path("/dev/full") if name == "full" else tmp_path / name
    with pytest.raises(BadInput) as caught:
        store.write_atomic(path, b"content")
    assert str(path) in str(caught.value) or repr(str(path)) in str(caught.value)
    assert ".kvlab-" not in str(caught.value)


def test_a_target_is_looked_at_before_the_work(tmp_path: Path) -> None:
    store.check_target(tmp_path / "result.json")
    store.check_target("/dev/null")
    for bad, words in (
        ("", "no name"),
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "x.json", "no folder"),
        ("a\0b", "no name"),
    ):
        with pytest.raises(BadInput, match=words):
            store.check_target(bad)


def test_a_document_through_the_pipe_of_a_shell() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as file:
        file.write(b'{"a": 1}')
    assert store.read(f"/dev/fd/{reader}", dict, "document") == {"a": 1}
    with pytest.raises(BadInput, match="not a regular file"):
        store.read_bytes(f"/dev/fd/{reader}", "model")  # where a file is needed twice, or from its middle
    os.close(reader)


def test_a_held_folder_is_waited_for_and_then_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_HELD_SECONDS", 0.1)
    name, refused = tmp_path / "a.json", pytest.raises(BadInput, match="another process holds a lock on")
    with store.held(name), refused, store.held(name):
        pass
    with store.held(tmp_path / "a.json"):
        pass
