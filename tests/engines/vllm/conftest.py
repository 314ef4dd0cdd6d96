from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvlab import source
from kvlab.core.engine import Deployment, Gpu
from kvlab.core.layout import Layout
from kvlab.core.model import Model
from kvlab.core.plan import Ask

GOLDEN = Path(__file__).parents[2] / "golden" / "vllm"
CAPABILITY = {"sm80": (8, 0), "sm90": (9, 0), "sm100": (10, 0), "sm120": (12, 0), "sm121": (12, 1)}


def _rows(name: str) -> list[dict[str, Any]]:
    path = GOLDEN / name
    text = gzip.decompress(path.read_bytes()).decode() if name.endswith(".gz") else path.read_text()
    return [json.loads(line) for line in text.splitlines()]


def _gpu(capability: tuple[int, int] | None, gibibytes: int = 80, name: str = "some-gpu") -> Gpu:
    return Gpu(
        name=name,
        title=name,
        usable_bytes=gibibytes << 30,
        bandwidth=None,
        compute_capability=capability,
        source="test",
    )


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of vLLM's golden files."""
    return GOLDEN


@pytest.fixture(scope="session")
def rows() -> Callable[[str], list[dict[str, Any]]]:
    """Lines of a golden file."""
    return _rows


@pytest.fixture(scope="session")
def gpu() -> Callable[..., Gpu]:
    """A GPU of a compute capability and a memory size."""
    return _gpu


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Model, Layout]]:
    """Models of the truth table by name, read from their published config.json."""
    folder = tmp_path_factory.mktemp("configs")
    found = {}
    for row in _rows("configs.jsonl.gz"):
        path = folder / f"{row['name']}.json"
        path.write_text(json.dumps(row["config"]))
        loaded = source.load(str(path))
        found[row["name"]] = (loaded.model, loaded.layout)
    return found


@pytest.fixture(scope="session")
def deploy(known: dict[str, tuple[Model, Layout]]) -> Callable[[dict[str, Any]], Deployment]:
    """The deployment that a row of the truth table describes."""

    def build(row: dict[str, Any]) -> Deployment:
        model, layout = known[row["config"]]
        ask = Ask(
            tp=row["tp"],
            pp=row["pp"],
            dcp=row["dcp"],
            kv_dtype=row["dtype"],
            context=row["context"],
            block_size=row["block"],
            max_num_batched_tokens=row["batched"],
            pool_gib=row["pool"] / (1 << 30),
            prefix_caching=row.get("prefix_caching"),
            engine_args=tuple(row.get("args", {}).items()),
        )
        return Deployment(model=model, layout=layout, ask=ask, gpu=_gpu(CAPABILITY[row["cc"]]), pool_bytes=row["pool"])

    return build
