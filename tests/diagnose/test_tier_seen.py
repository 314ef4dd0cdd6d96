"""What a tier below the GPU holds is not computed again, and a server that has one is not told to add it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from vllm_pages import prefix

import kvlab
from kvlab.core.diagnosis import Case, Diagnosis, Look
from kvlab.core.scrape import Reading
from kvlab.diagnoses._rates import prompts

COMPUTED, SECONDS = 900_000, 30
"""Prompt tokens of the window; 5 % more were found on the GPU."""


def diagnosed(folder: Path, pages: tuple[str, ...]) -> Diagnosis:
    files = [folder / f"{at}.prom" for at in range(len(pages))]
    for file, page in zip(files, pages, strict=True):
        file.write_text(page)
    return kvlab.diagnose(*files, seconds=SECONDS)


def raised(page: str, name: str, by: int) -> str:
    found, count = re.subn(
        rf"^(vllm:{name}) (\S+)$", lambda it: f"{it[1]} {float(it[2]) + by}", page, flags=re.MULTILINE
    )
    assert count == 1
    return found


def from_host(page: str, tokens: int) -> str:
    """The page when `tokens` of those that were computed come from host memory."""
    page = raised(page, r"external_prefix_cache_hits_total\{.*\}", tokens)
    page = raised(page, r'prompt_tokens_cached_by_source_total\{.*source="host"\}', tokens)
    page = raised(page, r'prompt_tokens_by_source_total\{.*source="external_kv_transfer"\}', tokens)
    return raised(page, r'prompt_tokens_by_source_total\{.*source="local_compute"\}', -tokens)


def test_what_a_tier_holds_is_found(tmp_path: Path) -> None:
    first, last = prefix()
    assert diagnosed(tmp_path, (first, last)).verdict == "prefix_recompute_bound"
    found = diagnosed(tmp_path, (first, from_host(last, COMPUTED // 3)))
    refused = {other.verdict: other for other in found.others}["prefix_recompute_bound"]
    assert (refused.holds, found.verdict != "prefix_recompute_bound") == ("no", True)
    assert "37% of the prompts' tokens are found in the cache, 32% in a tier below the GPU" in refused.because


@pytest.mark.parametrize("beyond", [0, 600_000])
def test_a_release_that_does_not_count_what_it_computes(beyond: int) -> None:
    """To vLLM 0.15: prompt tokens less what was found, on the GPU and beyond it."""
    before = {"prompt_tokens_total": 0.0, "prefix_hits_tokens_total": 0.0, "generation_tokens_total": 0.0}
    after = {"prompt_tokens_total": 1e6, "prefix_hits_tokens_total": 1e5, "generation_tokens_total": 5e4}
    beyonds = ({"external_hits_tokens_total": 0.0}, {"external_hits_tokens_total": float(beyond)})
    looks = [
        Look(10.0 * at, Reading(engine="vllm", values={**values, **beyonds[at]}))
        for at, values in enumerate((before, after))
    ]
    assert prompts(Case(looks=tuple(looks))) == ((900_000 - beyond) / 10, 5_000)


def keeping(found: Diagnosis) -> str:
    (told,) = [step.do for step in found.interventions if step.do.startswith("keep what was computed longer")]
    return told


def test_a_server_with_a_tier_is_not_told_to_add_one(tmp_path: Path) -> None:
    pages = prefix()
    without = diagnosed(tmp_path, pages)
    assert "a host tier (vLLM --kv-offloading-size" in keeping(without)
    has = tuple(page.replace('kv_offloading_size="None"', 'kv_offloading_size="8.0"') for page in pages)
    assert has != pages
    found = diagnosed(tmp_path, has)
    assert found.verdict == "prefix_recompute_bound"
    assert "a larger tier below the GPU" in keeping(found)
    assert "--kv-offloading-size" not in keeping(found)
