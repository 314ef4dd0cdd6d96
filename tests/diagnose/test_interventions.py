"""Every step is one that its reader's engine can take: its flags, kvlab's options for it, and words that it serves."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

import kvlab
from kvlab import diagnoses, engines, flagcheck
from kvlab.cli.asking import add_arguments, arms
from kvlab.cli.command import Parser
from kvlab.core.diagnosis import Case, Look
from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.core.scrape import Histogram, Reading
from kvlab.interventions import interventions, own_flags

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIG = GOLDEN / "configs" / "Qwen__Qwen3-8B.json"
OPTIONS = {
    "vllm": next((GOLDEN / "vllm").rglob("options_0.32.0.txt"), None),
    "llamacpp": GOLDEN / "llamacpp" / "options_b11434.txt",
}
ENGINES = ("vllm", "sglang", "llamacpp", "lmdeploy", "tensorrt-llm")
FLAG = re.compile(r"(?<![\w-])(?:--?[a-zA-Z][\w-]*|kv_cache_config\.\w+)")


def texts(engine: str) -> list[str]:
    """What every step says to do and to verify with, for one engine."""
    steps = [step for code in diagnoses.codes() for step in diagnoses.page(code).do]
    return [own_flags(text, engine) for step in steps if own_flags(step.do, engine) for text in (step.do, step.verify)]


def arm(engine: str, setting: str) -> Ask:
    parser = Parser("kvlab ab")
    add_arguments(parser)
    given = parser.parse_args(["--engine", engine, "--gpu", "h100", "--context", "4096"])
    return arms(argparse.Namespace(**vars(given), a=[], b=[setting]))[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_step_compares_is_a_setting_of_the_engine(engine: str) -> None:
    found = {setting for text in texts(engine) for setting in re.findall(r"--b (\S+=\w+)", text)}
    assert found
    for setting in found:
        plan = kvlab.api.plan_ask(str(CONFIG), arm(engine, setting.replace("=N", "=8")))
        assert plan.launch.argv or plan.launch.files


def refusal(engine: str, flag: str) -> str:
    """Why kvlab does not pass a flag on: it has an option of its own for it, or the flag is misspelt."""
    try:
        kvlab.plan(CONFIG, engine=engine, gpu="h100", context=4096, engine_args={flag: "1"})
    except BadInput as error:
        return str(error)
    return ""


@pytest.mark.parametrize("engine", ENGINES)
def test_flags_are_those_of_the_engine(engine: str) -> None:
    """Each is one that kvlab has an option for, or passes on: none is another's, or misspelt."""
    title, others = engines.engine(engine).title, {engines.engine(name).title for name in engines.names()}
    options = OPTIONS.get(engine)
    for text in texts(engine):
        assert not any(re.search(rf"\b{re.escape(other)}\b", text) for other in others - {title}), text
        plain = re.sub(r"kvlab \w+[^;.]*|\(--plan\)", "", text)
        for flag in FLAG.findall(plain):
            if options is not None:
                assert not flagcheck.unknown([flag], flagcheck.options(options.read_text())), flag
            told = refusal(engine, flag.lstrip("-"))
            assert not told or "use --" in told, told


def steps(reading: Reading, code: str) -> str:
    return " ".join(step.verify for step in interventions(Case(looks=(Look(0.0, reading),)), code))


def test_words_are_those_that_the_server_serves() -> None:
    slots = {"running": 4.0, "waiting": 4.0, "slots": 4.0, "kv_used_tokens": 100.0, "decode_seconds_total": 3.0}
    llama = Reading(engine="llamacpp", values=slots)
    told = steps(llama, "scheduler_limit_bound")
    assert "decode_seconds_total for each generated token stays within its objective" in told
    assert "kvlab ab MODEL --b parallel=N" in told
    assert "itl_seconds" not in told
    assert "kv_used_tokens and waiting fall; kvlab ab MODEL --b kv-dtype=q8_0" in steps(llama, "capacity_bound")
    timed = {"tpot_seconds": Histogram(bounds=(0.1, float("inf")), counts=(9.0, 9.0))}
    assert "tpot_seconds" in steps(Reading(engine="tensorrt-llm", histograms=timed), "scheduler_limit_bound")
    assert "itl_seconds" in steps(Reading(engine="vllm"), "scheduler_limit_bound")
