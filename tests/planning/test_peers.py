"""The comparison with other planners: its stand-in of the Hub, its references, and what it calls wrong."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GIB = 1 << 30
CONFIGS = {"org/model": b'{"model_type": "qwen3"}'}


def test_the_stand_in_answers_as_the_hub_does(benchmark: Callable[[str], ModuleType]) -> None:
    hub = benchmark("peers_hub")
    assert hub.reply(CONFIGS, "/org/model/resolve/main/config.json", None).body == CONFIGS["org/model"]
    about = json.loads(hub.reply(CONFIGS, "/api/models/org/model?blobs=true", None).body)
    assert [file["rfilename"] for file in about["siblings"]] == ["config.json", "model.safetensors"]
    tree = json.loads(hub.reply(CONFIGS, "/api/models/org/model/tree/main?recursive=true", None).body)
    assert {file["path"] for file in tree} == {"config.json", "model.safetensors"}
    assert hub.reply(CONFIGS, "/api/models/org/other", None).status == 404
    assert hub.reply(CONFIGS, "/org/model/resolve/main/model.safetensors.index.json", None).status == 404


def test_only_the_header_of_a_checkpoint_is_served(benchmark: Callable[[str], ModuleType]) -> None:
    hub = benchmark("peers_hub")
    path = "/org/model/resolve/main/model.safetensors"
    length = hub.reply(CONFIGS, path, "bytes=0-7")
    (size,) = struct.unpack("<Q", length.body)
    header = hub.reply(CONFIGS, path, f"bytes=8-{7 + size}")
    assert (length.status, header.status) == (206, 206)
    assert header.headers["Content-Range"] == f"bytes 8-{7 + size}/{hub.CHECKPOINT_BYTES}"
    assert list(json.loads(header.body)) == ["model.embed_tokens.weight"]
    assert hub.reply(CONFIGS, path, None).status == 416


def row(model: str, *specs: dict[str, Any]) -> dict[str, Any]:
    return {"model": model, "tp": 1, "pp": 1, "dcp": 1, "extra": None, "per_layer_specs": list(specs)}


FULL = {"type": "FullAttentionSpec", "block_size": 16, "dtype": "bfloat16"}
ROWS = [
    # As vLLM 0.32.0 states them: Qwen3-8B, Gemma-3-12B, Nemotron-H-8B.
    row("Qwen/Qwen3-8B", FULL | {"layers": 36, "page_size_bytes": 65536}),
    row(
        "google/gemma-3-12b-it",
        FULL | {"layers": 8, "page_size_bytes": 131072},
        FULL | {"type": "SlidingWindowSpec", "layers": 40, "page_size_bytes": 131072, "sliding_window": 1024},
    ),
    row(
        "nvidia/Nemotron-H-8B-Base-8K",
        FULL | {"layers": 4, "page_size_bytes": 65536},
        {
            "type": "MambaSpec",
            "layers": 24,
            "shapes": [[3, 10240], [128, 64, 128]],
            "dtypes": ["bfloat16", "float32"],
            "page_size_padded": 1,
        },
    ),
]


@pytest.mark.parametrize(
    # Published figures for 8,192 tokens in BF16: arithmetic from the configs, checked against engine logs.
    ("model", "gib"),
    [("qwen/qwen3-8b", 1.125), ("google/gemma-3-12b-it", 0.8125), ("nvidia/nemotron-h-8b-base-8k", 0.220)],
)
def test_references_are_what_is_known_of_a_sequence(
    tmp_path: Path, model: str, gib: float, benchmark: Callable[[str], ModuleType]
) -> None:
    table = tmp_path / "table.jsonl.gz"
    with gzip.open(table, "wt") as lines:
        lines.writelines(json.dumps(one) + "\n" for one in ROWS)
    formulas = tmp_path / "formulas.jsonl"
    formula = {"model": "qwen3-8b", "precision": "bf16_fp16", "tokens": 8192, "total_gib": 1.125}
    formulas.write_text(json.dumps(formula) + "\n")
    found = benchmark("peers_truth").references(table, formulas)
    assert found[model, 8192][0] / GIB == pytest.approx(gib, rel=0.005)
    assert found["qwen3-8b", 8192] == [1.125 * GIB]


def test_an_answer_is_judged_by_the_nearest_reference(benchmark: Callable[[str], ModuleType]) -> None:
    peers = benchmark("peers")
    answers = {name: peers.Answer(size, 0.1, "") for name, size in (("a", 100.0), ("b", 300.0), ("c", None))}
    assert peers.judge(answers, {"a": [50.0, 100.5], "b": [100.0], "c": [1.0], "d": []}) == {"a": 100 / 100.5, "b": 3.0}
    line = peers.Row("tool", "1.0", answers, {"a": 100 / 100.5, "b": 3.0}).line()
    assert line == "| tool 1.0 | 2 | 1 | 1 | 0 | 1 | 0 | 3.0x | 0.10 s |"
