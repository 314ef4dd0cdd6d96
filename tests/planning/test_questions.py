"""Questions beside a plan that cannot be answered as they are asked: one line, not a table of something else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvlab import api, prices
from kvlab.core.errors import BadInput

QWEN = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen2.5-0.5B.json"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"pareto": True, "pool_gib": 10.0}, "--pareto compares kinds of GPU by their own memory, so --pool-gib"),
        ({"pareto": True, "gpu_gib": 80.0}, "so --gpu-gib has no place"),
        ({"gpu": "h100*,a100*", "users": 4, "gpu_gib": 20.0}, "--gpu 'h100.*' compares kinds of GPU"),
        ({"users": 4, "limit": 0}, "--limit 0"),
        ({"users": 4, "prices": {"h100-80gb": -1.0}}, "is no price"),
        ({"users": 4, "prices": {"h100-80gb": float("nan")}}, "is no price"),
        ({"users": 4, "prices": {"h100-80gb": 1e308}}, "is no price"),
    ],
)
def test_what_would_be_left_out_is_refused(options: dict[str, object], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        api.plan(QWEN, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "content",
    [b'"h100-80gb" = ' + b"9" * 5000, b'"h100-80gb" = ' + b"9" * 400, b"a = " + b"[" * 5000, b"\xff\xfe", b"a = nan"],
)
def test_files_that_hold_no_prices(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p.toml").write_bytes(content)
    with pytest.raises(BadInput, match=r"p\.toml"):
        prices.read(str(tmp_path / "p.toml"))


def test_prices_are_read_from_regular_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path), ""):
        with pytest.raises(BadInput):
            prices.read(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv(prices.VARIABLE, "")
    assert prices.read() == {}
