from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kvlab import engines, source
from kvlab.core.engine import Carved, Deployment, Gpu
from kvlab.core.plan import Ask

ROOT = Path(__file__).parents[2] / "golden"


def _gpu(capability: tuple[int, int] | None = (9, 0), gibibytes: float = 80, name: str = "some-gpu") -> Gpu:
    return Gpu(
        name=name,
        title=name,
        usable_bytes=round(gibibytes * 2**30),
        bandwidth=None,
        compute_capability=capability,
        source="test",
        vendor="nvidia",
    )


@cache
def _loaded(config: str, overrides: str) -> source.Loaded:
    path = ROOT / "configs" / config
    if not overrides:
        return source.load(str(path))
    whole = json.loads(path.read_text())
    whole.get("text_config", whole).update(json.loads(overrides))
    with TemporaryDirectory() as folder:
        changed = Path(folder) / config
        changed.write_text(json.dumps(whole))
        return source.load(str(changed))


def _deploy(
    config: str,
    ask: Ask,
    pool: int | None = None,
    gpu: Gpu | None = None,
    overrides: dict[str, object] | None = None,
) -> Deployment:
    loaded = _loaded(config, json.dumps(overrides) if overrides else "")
    return Deployment(model=loaded.model, layout=loaded.layout, ask=ask, gpu=gpu, pool_bytes=pool)


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of SGLang's golden files."""
    return ROOT / "sglang"


@pytest.fixture(scope="session")
def gpu() -> Callable[..., Gpu]:
    """A GPU of a compute capability and a memory size."""
    return _gpu


@pytest.fixture(scope="session")
def deploy() -> Callable[..., Deployment]:
    """A deployment of a published config: (config, ask, pool bytes, GPU, keys to change in it)."""
    return _deploy


@pytest.fixture(scope="session")
def carve() -> Callable[..., Carved]:
    """What SGLang makes of a deployment of a published config: (config, ask, pool bytes, GPU)."""
    planner = engines.planner("sglang")
    return lambda *words, **named: planner.carve(_deploy(*words, **named))


@pytest.fixture(scope="session")
def receipts() -> list[dict[str, Any]]:
    """What public start-up logs printed."""
    return [json.loads(line) for line in (ROOT / "sglang" / "receipts.jsonl").read_text().splitlines()]
