"""What an engine hides by default is always asked for, and an argument that would hide it again is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.errors import BadInput
from kvlab.core.plan import Plan

CONFIG = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B.json"


def plan(engine: str, **engine_args: str) -> Plan:
    return api.plan(CONFIG, engine=engine, gpu="h100-80gb", context=8192, engine_args=engine_args)


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("llamacpp", ("--metrics", "--slots", "--log-verbosity 4")),
        ("sglang", ("--enable-metrics", "--enable-cache-report")),
        ("lmdeploy", ("--log-level INFO",)),
        ("vllm", ("--enable-prompt-tokens-details",)),
    ],
)
def test_what_the_engine_hides_by_default_is_asked_for(engine: str, words: tuple[str, ...]) -> None:
    command = " ".join(plan(engine).launch.argv)
    for word in words:
        assert f" {word} " in f"{command} "


def test_tensorrt_llms_statistics_are_asked_for_in_its_file() -> None:
    launch = plan("tensorrt-llm").launch
    text = launch.files["trtllm_config.yaml"]
    assert "\nreturn_perf_metrics: true\n" in text
    assert "\nenable_iter_perf_stats: true\n" in text
    assert launch.argv[launch.argv.index("--extra_llm_api_options") + 1] == "trtllm_config.yaml"


@pytest.mark.parametrize(
    ("engine", "name", "value"),
    [
        ("llamacpp", "log-verbosity", "3"),
        ("llamacpp", "log-disable", "true"),
        ("llamacpp", "no-slots", "true"),
        ("sglang", "log-level", "error"),
        ("lmdeploy", "log-level", "ERROR"),
        ("lmdeploy", "disable-metrics", "true"),
        ("tensorrt-llm", "log_level", "warning"),
        ("tensorrt-llm", "return_perf_metrics", "false"),
        ("vllm", "disable-log-stats", "true"),
    ],
)
def test_an_argument_that_hides_it_is_refused(engine: str, name: str, value: str) -> None:
    with pytest.raises(BadInput, match=name.replace("_", ".")):
        plan(engine, **{name: value})


@pytest.mark.parametrize(
    ("engine", "name", "value"), [("sglang", "log-level", "debug"), ("tensorrt-llm", "log_level", "verbose")]
)
def test_a_level_that_shows_more_is_passed_on(engine: str, name: str, value: str) -> None:
    assert value in plan(engine, **{name: value}).launch.argv
