"""Caches whose entries stand for several tokens: DeepSeek-V4-Flash and GLM-5.3-Flash as vLLM 0.32.0 sees them.

Layers and sizes are those that vLLM's own model classes asked for (deepseek_v4, glm5next).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvlab import source
from kvlab.core.errors import BadInput, UnknownModel
from kvlab.core.layout import Layout

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"
V4, GLM = "deepseek-ai__DeepSeek-V4-Flash.json", "zai-org__GLM-5.3-Flash.json"


def changed(folder: Path, name: str, **keys: object) -> Path:
    config: dict[str, Any] = json.loads((CONFIGS / name).read_text())
    config.get("text_config", config).update(keys)
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def rows(layout: Layout) -> list[tuple[object, ...]]:
    return [
        (row.kind, len(row.layers), row.k_dim, row.window, row.pool, row.tail and (row.tail.name, row.tail.values))
        for row in layout.rows
        if row.kind != "state"
    ]


def test_deepseek_v4_compresses_most_layers() -> None:
    loaded = source.load(str(CONFIGS / V4))
    assert rows(loaded.layout) == [
        ("latent", 43, 512, 128, 1, None),
        ("latent", 21, 512, None, 4, ("window", 8 * 2048)),
        ("indexer", 21, 128, None, 4, ("window", 8 * 512)),
        ("latent", 20, 512, None, 128, ("window", 128 * 1024)),
    ]
    assert [(row.kind, row.layers, row.window) for row in loaded.layout.draft] == [("latent", (43,), 128)]
    assert loaded.doubts == ()


def test_glm_pools_the_keys_of_its_indexer() -> None:
    loaded = source.load(str(CONFIGS / GLM))
    assert rows(loaded.layout) == [
        ("latent", 11, 512, None, 1, None),
        ("indexer", 11, 128, None, 4, ("ring", 4 * 2 * 128)),
    ]
    (state,) = loaded.layout.only("state")
    assert (len(state.layers), [part.values for part in state.state]) == (34, [3 * 24576, 64 * 128 * 128])
    assert [row.layers for row in loaded.layout.draft] == [(45,), (45,)]
    assert loaded.doubts == ()


@pytest.mark.parametrize(
    ("name", "keys", "error", "says"),
    [
        (V4, {"compress_ratios": [4] * 42 + [16]}, UnknownModel, "16"),
        (V4, {"compress_ratios": [4] * 10}, BadInput, "one entry for each of 43 layers"),
        (GLM, {"index_kpool_compress": None}, UnknownModel, "index_kpool is 4"),
        (GLM, {"layer_types": ["linear_attention"] * 44 + ["sliding_attention"]}, BadInput, "layer_types"),
    ],
)
def test_what_is_not_known_is_refused(
    tmp_path: Path, name: str, keys: dict[str, object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        source.load(str(changed(tmp_path, name, **keys)))
