from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
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


def _deploy(config: str, ask: Ask, pool: int | None = None, gpu: Gpu | None = None) -> Deployment:
    loaded = source.load(str(ROOT / "configs" / config))
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
    """A deployment of a published config: (config, ask, pool bytes, GPU)."""
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
