"""`kvlab diagnose` on a real vLLM, driven into states that it reaches on a CPU: the verdict from its address alone.

`make test-vllm VLLM=DIR` runs it beside the others: one start, some six minutes on two cores. The server holds four
requests at most and 20 blocks of 32 tokens.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from running import running

import kvlab
from kvlab.core.diagnosis import Diagnosis

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "diagnose"))
from clients import clients, words

FLAGS = (
    *("--served-model-name", "gemma", "--max-model-len", "512", "--max-num-seqs", "4", "--block-size", "32"),
    *("--num-gpu-blocks-override", "21", "--disable-hybrid-kv-cache-manager", "--enforce-eager"),
)
SECONDS = 45.0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(FLAGS, tmp_path_factory.mktemp("vllm")) as address:
        yield address


def diagnosed(url: str, ttft_seconds: float = 2.0) -> Diagnosis:
    start = time.monotonic()
    found = kvlab.diagnose(url, seconds=SECONDS, ttft_seconds=ttft_seconds)
    assert time.monotonic() - start < 60
    return found


def test_idle(url: str) -> None:
    found = kvlab.diagnose(url, seconds=3)
    assert (found.engine, found.verdict, found.confidence) == ("vllm", "idle", "firm")


def test_the_sequence_limit(url: str) -> None:
    """Eight clients with some 40 tokens each before four places: a pool of 640 tokens has room for more."""
    with clients(url, "gemma", 8, lambda source: words(source, 25), 12):
        found = diagnosed(url)
    assert found.verdict == "scheduler_limit_bound"
    assert "no more than 4 run" in " ".join(found.because)


def test_the_pool_full(url: str) -> None:
    """Six clients with up to 330 tokens each before 640: requests are preempted, or not let in."""
    with clients(url, "gemma", 6, lambda source: words(source, 110), 200):
        time.sleep(30)
        found = diagnosed(url)
    assert found.verdict == "capacity_bound"


def test_shared_prefixes_lost(url: str) -> None:
    """One client whose prompts begin with what changes: nothing is found again, and prompts are all the work.

    The objective is one that a quick CPU misses too.
    """
    shared = words(Random(7), 330)
    with clients(url, "gemma", 1, lambda source: f"{words(source, 8)}. {shared}", 2):
        found = diagnosed(url, ttft_seconds=0.25)
    assert found.verdict == "prefix_recompute_bound"
