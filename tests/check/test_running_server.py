"""Plans against the pages of running servers, as vLLM 0.32 served them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from kvlab import api
from kvlab.core.check import Check
from kvlab.core.observation import Setting
from kvlab.core.plan import Plan
from kvlab.reasons.differing import Differing, told
from kvlab.reporting import terminal
from page_server import serving

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIG = GOLDEN / "check" / "gemma-3-270m.json"
METRICS = GOLDEN / "vllm" / "metrics"
LLAMA_SERVER = {
    "/props": '{"default_generation_settings":{"n_ctx":1024},"total_slots":2,"build_info":"b11434-7f1f6a6"}',
    "/v1/models": '{"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx_train":32768,"size":246587904}}]}',
}
"""As llama-server b11434 served them (tests/engines/test_about.py)."""


def checked(page: str, plan: Plan, source: Path | None = CONFIG, context: int = 2048) -> Check:
    models = {"object": "list", "data": [{"id": "m", "owned_by": "vllm", "max_model_len": context}]}
    pages = {
        "/metrics": (METRICS / page).read_text(),
        "/version": json.dumps({"version": "0.32.0"}),
        "/v1/models": json.dumps(models),
    }
    with serving(pages) as url:
        return api.check(url, plan=plan, source=source)


def planned(**options: object) -> Plan:
    asked = {"gpu": "cpu", "pool_gib": 1.0, "context": 2048, "engine_version": "0.32.0", **options}
    return api.plan(CONFIG, **asked)  # type: ignore[arg-type]


def test_the_server_of_the_plan_agrees() -> None:
    found = checked("0.32.0_cpu_fresh.prom", planned())
    assert not found.causes
    assert found.agrees


def test_blocks_and_their_size_on_the_page_explain_the_rows() -> None:
    # block_size="32", num_gpu_blocks_override="101", kv_cache_size_tokens="3232"
    plan = planned(engine_args={"disable-hybrid-kv-cache-manager": "true"})
    found = checked("0.32.0_cpu_pool_full.prom", plan)
    reasons = {reason.code: reason for reason in found.causes}
    assert {code: reason.certainty for code, reason in reasons.items()} == {
        "blocks_given": "exact",
        "block_size": "exact",
    }
    assert "the server has --num-gpu-blocks-override 101" in reasons["blocks_given"].text
    assert "num-gpu-blocks-override=101" in found.remarks[0]


def test_a_pool_that_was_given_is_read_from_the_page() -> None:
    found = checked("0.32.0_cpu_fresh.prom", planned(pool_gib=2.0))
    (reason,) = found.causes
    assert (reason.code, reason.certainty) == ("pool_given", "exact")
    assert reason.text == "the server's --kv-cache-memory-bytes is 1, the plan's 2: plan with --pool-gib 1"


def test_a_page_is_not_asked_for_the_lines_of_a_log() -> None:
    for source in (None, CONFIG):
        found = checked("0.32.0_cpu_pool_full.prom", planned(pool_gib=3.0), source)
        said = " ".join((*found.remarks, *(reason.text for reason in found.causes)))
        assert "non-default args" not in said
        assert "the log" not in said


def test_another_release_is_that_of_the_server() -> None:
    found = checked("0.32.0_cpu_fresh.prom", planned(engine_version="0.17.0"))
    (reason,) = [reason for reason in found.causes if reason.code == "engine_version"]
    assert reason.text.startswith("the server's version is 0.32.0, the plan's 0.17.0")


@pytest.mark.parametrize(("line", "who"), [("/props n_ctx=8192", "server"), ("llama_context: n_ctx = 8192", "log")])
def test_a_page_that_is_read_beside_a_log_is_the_servers(line: str, who: str) -> None:
    setting = Setting(name="context", flag="n_ctx", value=8192, line=line)
    assert told(Differing(setting, 4096, "context"), "log").startswith(f"the {who}'s n_ctx is 8192")


def test_a_running_server_is_told_from_a_log() -> None:
    plan = api.plan(CONFIG, engine="llamacpp", gpu="cpu", context=2048, weights_gib=0.25)
    with serving(
        {**LLAMA_SERVER, "/metrics": (GOLDEN / "metrics/llama_server_01_under_load_12clients_4slots.prom").read_text()}
    ) as url:
        found = api.check(url, plan=plan)
    text = json.dumps([row.likely_because for row in found.rows])
    assert "never stated" not in text
    assert "check its log too: kvlab check LOG (or -) --plan FILE" in text
    assert found.server
    console = Console(width=80)
    with console.capture() as capture:
        console.print(terminal.check(found))
    lines = capture.get().splitlines()
    assert any(line.startswith("quantity") and "server says" in line for line in lines)
    assert not any("log says" in line for line in lines)
