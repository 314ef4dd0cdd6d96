"""Every rule fires on a log that shows its symptom, and is silent on the healthy logs of all engines."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvlab import engines, rules, symptoms
from kvlab.core.errors import BadInput
from kvlab.core.needles import needles
from kvlab.core.rule import SYMPTOM
from kvlab.reporting.rule_pages import document

GOLDEN = Path(__file__).parents[1] / "golden"
LOGS = sorted((GOLDEN / "logs").glob("*.log"))
# What a person finds in logs of whole starts and of servers at work; nothing in all others.
SICK = {
    "check/vllm_0.32.0_cpu_hybrid_manager_off.log": ["hybrid_manager_off"],
    "llamacpp/ages/2025-08_gpt_oss_vulkan.log": ["weights_on_cpu"],
    "ollama/ministral_3b_f16_4096x2.log": ["driver_too_old"],
    "sglang/draft_oom_2026.log": ["out_of_memory_sizing"],
    "sglang/retraction_0.5.18.log": ["preemption_storm", "pool_full"],
    "tensorrt_llm/gpt_oss_120b_probe_2025-12.log": ["context_reduced"],
    "vllm/logs/0.32.0_cpu_pool_too_small.log": ["context_larger_than_pool"],
}
HEALTHY = [
    path for path in sorted(GOLDEN.rglob("*.log")) if path not in LOGS and str(path.relative_to(GOLDEN)) not in SICK
]
# One of each engine, to stand before others: every pair would take minutes.
BEFORE = [
    GOLDEN / "llamacpp" / "q8_0_8192_auto4_unified.log",
    GOLDEN / "vllm" / "logs" / "0.32.0_cpu_auto.log",
    GOLDEN / "sglang" / "qwq_32b_tp4.log",
    *(GOLDEN / "logs" / "healthy" / f"{name}.log" for name in ("lmdeploy_start", "ollama_two_gpus", "vllm_busy")),
    *(GOLDEN / "logs" / "healthy" / f"tensorrt_llm_{name}.log" for name in ("start", "probe")),
]
# What else a person would say of a log beside the rule in its name.
ALSO = {"preemption_storm.sglang.log": ["pool_full"]}
FAILURES = [
    (path.parent.name, json.loads(line))
    for path in sorted(GOLDEN.glob("*/failures.jsonl"))
    for line in path.read_text().splitlines()
]
ALL = {code: rules.rule(code) for code in rules.codes()}
SIGNS = [(code, sign) for code, rule in ALL.items() for sign in rule.signs]
FAILURE_PATTERNS = [(name, failure) for name in engines.names() for failure in engines.failures(name).rules]


def failures_of(code: str) -> tuple[str, ...]:
    """Codes of the engines' failures that are this rule's too."""
    return code, *ALL[code].failures


def codes_in(path: Path, engine: str | None = None) -> list[str]:
    return [finding.code for finding in symptoms.explain(str(path), engine).findings]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_log_shows_its_symptom_and_no_other(path: Path) -> None:
    assert codes_in(path) == [path.name.split(".")[0], *ALSO.get(path.name, [])]


@pytest.mark.parametrize("code", ALL)
def test_every_rule_has_a_log_with_its_source(code: str) -> None:
    named = [path.name for path in LOGS if path.name.split(".")[0] == code]
    assert named
    table = (GOLDEN / "logs" / "SOURCE.md").read_text()
    for name in named:
        assert f"| {name} |" in table


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.parametrize("engine", [None, "own"])
def test_healthy_logs_show_nothing(path: Path, engine: str | None) -> None:
    seen = symptoms.explain(str(path))
    assert seen.findings == ()
    if engine and seen.engine:
        assert symptoms.explain(str(path), seen.engine).findings == ()


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_healthy_log_before_a_sick_one_hides_nothing(path: Path, tmp_path: Path) -> None:
    """A restart: the second start fails. Rules that depend on what came before are left out."""
    both = tmp_path / "both.log"
    for sick in LOGS:
        code = sick.name.split(".")[0]
        if code.startswith("out_of_memory") or code in ("kernels_compiling", "prefix_hits_zero", "engine_died"):
            continue
        both.write_bytes(path.read_bytes().rstrip(b"\n") + b"\n" + sick.read_bytes())
        assert code in codes_in(both)


@pytest.mark.parametrize("name", SICK)
def test_a_whole_log_shows_what_a_person_finds(name: str) -> None:
    assert codes_in(GOLDEN / name) == SICK[name]


def test_a_start_that_went_well_on_the_cpu_alone_shows_why() -> None:
    (finding,) = symptoms.explain(str(GOLDEN / "ollama" / "ministral_3b_f16_4096x2.log")).findings
    assert finding.code == "driver_too_old"
    assert finding.why == "driver 546 is there and 550 or newer is needed"


def test_healthy_logs_of_all_six_engines_are_there() -> None:
    assert {symptoms.explain(str(path)).engine for path in HEALTHY} >= set(engines.names())


@pytest.mark.parametrize(("folder", "case"), FAILURES, ids=lambda case: case if isinstance(case, str) else case["code"])
def test_failures_of_the_engines_are_explained(folder: str, case: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(case["line"] + "\n")
    expected = {code for code in ALL if case["code"] in failures_of(code)}
    assert set(codes_in(log)) <= expected
    assert codes_in(log)


def test_every_failure_has_a_rule() -> None:
    there = {failure.code for _, failure in FAILURE_PATTERNS}
    assert there <= {name for code in ALL for name in failures_of(code)}


def test_no_pattern_is_written_twice() -> None:
    """A line that an engine's failure matches needs no sign of the rule that names the failure."""
    lines = [line for path in LOGS for line in path.read_text().splitlines()]
    for code, sign in SIGNS:
        if sign.name != SYMPTOM:
            continue
        mine = [line for line in lines if sign.pattern.search(line)]
        for name, failure in FAILURE_PATTERNS:
            if failure.code in failures_of(code) and (not sign.engines or name in sign.engines):
                assert not [line for line in mine if failure.pattern.search(line)], (
                    f"{code} and {name}'s {failure.code}"
                )


def test_there_are_at_least_forty_rules_for_all_six_engines() -> None:
    assert len(ALL) >= 40
    assert {name for code in ALL for name in symptoms.page(code).engines} == set(engines.names())


@pytest.mark.parametrize("code", ALL)
def test_a_page_says_all_it_must(code: str) -> None:
    page = symptoms.page(code)
    assert page.title
    assert page.symptom
    assert page.cause
    assert 1 <= len(page.do) <= 6
    assert page.source
    assert all(address.startswith("https://") for address in page.source)
    assert max(map(len, (page.title, page.symptom, page.cause, *page.do))) < 600


def test_a_file_without_a_whole_page_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvlab.rules import port_in_use

    monkeypatch.setattr(port_in_use, "__doc__", "A title.\n\nSymptom: something.")
    with pytest.raises(TypeError, match="must have Symptom, Cause, Do"):
        rules.page.__wrapped__("port_in_use")


@cache
def every_line() -> frozenset[str]:
    return frozenset(line for path in (*LOGS, *HEALTHY) for line in path.read_text(errors="replace").splitlines())


PATTERNS = [
    *((f"{code} {sign.name}", sign.pattern) for code, sign in SIGNS),
    *((f"{name} {failure.code}", failure.pattern) for name, failure in FAILURE_PATTERNS),
    *rules.STAGES,
]


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=[name for name, _ in PATTERNS])
def test_needles_are_in_every_line_that_a_pattern_matches(name: str, pattern: re.Pattern[str]) -> None:
    """Without needles each line of a large log would be tried; with a wrong one a symptom would be missed."""
    literals = needles(pattern)
    assert literals, f"{name} has no literal"
    for line in every_line():
        if pattern.search(line):
            assert any(literal in line for literal in literals), line


@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=[name for name, _ in PATTERNS])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_needles_are_in_whatever_a_pattern_matches(name: str, pattern: re.Pattern[str], data: st.DataObject) -> None:
    text = data.draw(st.from_regex(pattern))
    assert any(literal in text for literal in needles(pattern) or ())


def test_an_unknown_code_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean port_in_use"):
        symptoms.page("port_in_us")


def test_the_document_of_all_rules_is_up_to_date() -> None:
    """python scripts/rule_pages.py writes it again."""
    written = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()
    assert written == document(symptoms.listing().rules)
