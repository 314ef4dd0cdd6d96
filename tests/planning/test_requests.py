"""Requests of the wrong type or size, as Python callers make them: one line that names the option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import api
from kvlab.cli import asking
from kvlab.core.errors import BadInput, KvlabError
from kvlab.core.plan import Ask

QWEN = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B.json"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"context": 2.5}, "context=2.5: Expected int"),
        ({"context": "32k"}, "context='32k': Expected int"),
        ({"tp": True}, "tp=True: Expected int"),
        ({"gpu_gib": "80"}, "gpu_gib='80': Expected float"),
        ({"engine": 5}, "engine=5: Expected str"),
        ({"pool_gib": float("nan")}, "--pool-gib nan"),
        ({"users": -3}, "--users -3 must be at least 1"),
        ({"context": 10**30}, "must be at most 2,147,483,648"),
        ({"tp": 10**9}, "--tp 1000000000 must be at most 65,536"),
        ({"max_num_seqs": 0}, "--max-num-seqs 0"),
        ({"max_num_batched_tokens": -1}, "--max-num-batched-tokens -1"),
        ({"contxt": 4096}, "no option 'contxt'; did you mean context"),
        ({"engine_args": ["a"]}, "must be a mapping"),
        ({"engine_args": {"a": object()}}, "must be a flag and its value"),
        ({"engine_args": {5: "a"}}, "must be a flag and its value"),
        ({"engine_version": "99"}, "not a vLLM release"),
        ({"engine": "llamacpp", "engine_version": "99.9"}, "is no build of llama"),
    ],
)
def test_wrong_types_and_sizes(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        api.plan(QWEN, **options)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("source", [5, None, b"config.json"])
def test_sources_of_the_wrong_type(source: Any) -> None:
    with pytest.raises(BadInput, match="not a Hub id or a path"):
        api.plan(source)


def test_flags_of_python_are_flags_of_the_engine() -> None:
    off = {"disable_hybrid_kv_cache_manager": True}
    gemma = QWEN.with_name("google__gemma-3-27b-it.json")
    said = api.plan(gemma, pool_gib=20, engine_args=off).capacity  # type: ignore[arg-type]
    assert said == api.plan(gemma, pool_gib=20, engine_args={"disable-hybrid-kv-cache-manager": "true"}).capacity
    assert said != api.plan(gemma, pool_gib=20).capacity


def test_an_engine_to_come_is_planned_with_a_doubt() -> None:
    for engine, version, known in (("vllm", "99.9", "0.32.0"), ("llamacpp", "b999999", "b11549")):
        plan = api.plan(QWEN, engine=engine, engine_version=version, pool_gib=20)
        assert [known in doubt.text for doubt in plan.doubts if doubt.key == "engine-version"] == [True]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-2, 64),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(Ask.__struct_fields__), VALUES, max_size=3), st.sampled_from(["vllm", "llamacpp"])
)
def test_any_request_is_answered_or_refused(options: dict[str, Any], engine: str) -> None:
    refused = ""
    asked: dict[str, Any] = {"engine": engine, "pool_gib": 8.0, **options}
    try:
        api.plan(QWEN, **asked)
    except KvlabError as error:
        refused = str(error)
    assert len(refused.splitlines()) <= 1


def test_a_gguf_file_without_a_named_engine_goes_to_llamacpp(gemma: Path, qwen: Path) -> None:
    plan = api.plan(gemma, context=2048)
    assert (plan.ask.engine, plan.engine.name, plan.launch.argv[0]) == ("llamacpp", "llamacpp", "llama-server")
    assert api.plan(gemma, engine="vllm", context=2048).engine.name == "vllm"
    assert api.plan(qwen, context=2048).engine.name == "vllm"


@pytest.mark.parametrize(
    ("text", "gib"), [("20", 20), ("20g", 20), ("20GiB", 20), ("20 GB", 20e9 / 2**30), ("512MiB", 0.5), ("20gb", 18.63)]
)
def test_a_share_takes_the_usual_units(text: str, gib: float) -> None:
    amount, unit = asking.share(text)
    assert unit == "gib"
    assert amount == pytest.approx(gib, rel=1e-3)
