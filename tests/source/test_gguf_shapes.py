"""Every way in which llama.cpp keeps a cache, against the lines that its loader printed for the same metadata."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from gguf_writer import write
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import api, engines
from kvlab.core.check import compare
from kvlab.core.config import Config
from kvlab.core.engine import Deployment
from kvlab.core.errors import KvlabError
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.families import understand

SHAPES = Path(__file__).parents[1] / "golden" / "llamacpp" / "shapes"
ASKED = re.compile(r"-c (\d+) -np (\d+) (-kvu|--no-kv-unified) -ctk/-ctv (\w+)")


def sections(log: Path) -> list[tuple[dict[str, object], list[str]]]:
    """What was asked of the server, and what it printed."""
    found = []
    for text in log.read_text().split("# ")[1:]:
        title, *lines = text.splitlines()
        asked = ASKED.fullmatch(title)
        assert asked is not None
        context, slots, unified, dtype = asked.groups()
        options: dict[str, object] = {"context": int(context), "parallel": int(slots), "kv_dtype": dtype}
        found.append((options | {"kv_unified": unified == "-kvu"}, lines))
    return found


@pytest.mark.parametrize("file", sorted(SHAPES.glob("*.json")), ids=lambda file: file.stem)
def test_every_printed_size_is_the_plans(file: Path, tmp_path: Path) -> None:
    described = json.loads(file.read_text())
    model = write(tmp_path / "model.gguf", described["arch"], described["keys"])
    for options, lines in sections(file.with_suffix(".log")):
        plan = api.plan(model, engine="llamacpp", **options)  # type: ignore[arg-type]
        observation = engines.log_reader("llamacpp").read(lines)
        exact = [row for row in compare(plan, observation).rows if row.low == row.high]
        assert [(row.name, row.planned, row.seen) for row in exact if row.verdict != "agrees"] == [], options
        printed = {seen.name for seen in observation.seen if seen.name.endswith("_bytes") and seen.value}
        assert printed <= {row.name for row in exact}, options


PUBLISHED = {
    "deepseek-v2-lite": "deepseek-ai__DeepSeek-V2-Lite",
    "deepseek-v3.2": "deepseek-ai__DeepSeek-V3.2",
    "deepseek-v4-flash": "deepseek-ai__DeepSeek-V4-Flash",
    "gemma-2-9b": "google__gemma-2-9b",
    "gemma-3-27b": "google__gemma-3-27b-it",
    "gemma-4-26b-a4b": "google__gemma-4-26B-A4B",
    "glm-5.2": "zai-org__GLM-5.2",
    "gpt-oss-20b": "openai__gpt-oss-20b",
    "lfm2.5-1.6b": "LiquidAI__LFM2.5-VL-1.6B",
    "llama-3.1-8b": "meta-llama__Llama-3.1-8B",
    "llama-3.3-nemotron-49b": "nvidia__Llama-3_3-Nemotron-Super-49B-v1",
    "llama-4-scout": "meta-llama__Llama-4-Scout-17B-16E",
    "mimo-v2-flash": "XiaomiMiMo__MiMo-V2-Flash",
    "minimax-m2.7": "MiniMaxAI__MiniMax-M2.7",
    "minimax-m3": "MiniMaxAI__MiniMax-M3",
    "nemotron-3-nano-30b": "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "qwen3-8b": "Qwen__Qwen3-8B",
    "qwen3-next-80b-a3b": "Qwen__Qwen3-Next-80B-A3B-Instruct",
    "qwen3.5-35b-a3b": "Qwen__Qwen3.5-35B-A3B",
}
"""Recorded shapes, and the published config of the same model."""


@pytest.mark.parametrize(("shape", "config"), PUBLISHED.items(), ids=list(PUBLISHED))
def test_a_published_config_plans_the_caches_of_its_gguf(shape: str, config: str) -> None:
    for options, lines in sections(SHAPES / f"{shape}.log"):
        plan = api.plan(SHAPES.parents[1] / "configs" / f"{config}.json", engine="llamacpp", **options)  # type: ignore[arg-type]
        rows = compare(plan, engines.log_reader("llamacpp").read(lines)).rows
        caches = [row for row in rows if row.name.startswith("kv_") and row.name.endswith("_bytes")]
        assert [(row.name, row.planned, row.seen) for row in caches if row.verdict != "agrees"] == [], options
        assert len(caches) >= 3


DESCRIBED = [json.loads(file.read_text()) for file in sorted(SHAPES.glob("*.json"))]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 4096),
    st.just("x"),
    st.lists(st.integers(0, 8), max_size=100),
)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_changed_metadata_is_planned_or_refused_in_one_line(data: st.DataObject) -> None:
    described = data.draw(st.sampled_from(DESCRIBED))
    keys = {**described["keys"], "general.architecture": described["arch"]}
    for key in data.draw(st.lists(st.sampled_from(sorted(keys)), max_size=3)):
        keys[key] = data.draw(ODD)
    refused = "one line"
    try:
        layout = understand(Config(keys, "model.gguf")).layout
        assert layout.rows
        model = Model(name="model", model_type="any", context=4096, layers=1, weight_format="gguf")
        ask = Ask(engine="llamacpp", context=1024, parallel=2)
        deployment = Deployment(model=model, layout=layout, ask=ask, gpu=None, pool_bytes=None)
        carved = engines.planner("llamacpp").carve(deployment)
        assert carved.capacity is not None
        assert carved.capacity.pool_bytes > 0
    except KvlabError as error:
        refused = str(error)
    assert len(refused.splitlines()) == 1


def test_there_are_enough_shapes() -> None:
    architectures = {json.loads(file.read_text())["arch"] for file in SHAPES.glob("*.json")}
    assert len(architectures) >= 12
