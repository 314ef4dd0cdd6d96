"""SGLang's log reader: real starts of 2025 and 2026, prefixes, ranks, drafts, restarts, and broken lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import engines, observe
from kvlab.core.observation import Observation
from kvlab.core.stated import Listener

GIB = 2**30


def read(text: str) -> Observation:
    return engines.log_reader("sglang").read(text.splitlines(keepends=True))


def says(text: str) -> dict[str, float | str]:
    return {item.name: item.value for item in read(text).seen}


def gib(amount: float) -> Any:
    return pytest.approx(amount * GIB)


def test_a_start_on_four_ranks_reads_as_a_person_reads_it(golden: Path) -> None:
    found = says((golden / "qwq_32b_tp4.log").read_text())
    assert found == {
        "mem_fraction_static": 0.85,
        "communication_bytes": gib(0.13),
        "free_before_load_bytes": gib(21.63),
        "free_after_load_bytes": gib(6.09),
        "weights_bytes": gib(15.54),
        "kv_tokens": 46611,
        "kv_k_bytes": gib(1.42),
        "kv_v_bytes": gib(1.42),
        "graph_bytes": gib(0.93),
        "chunked_prefill_size": 2048,
        "max_running_requests": 2049,
        "context_len": 131072,
        "peak_kv_used_ratio": 0.0,
    }


def test_the_line_that_states_a_number_comes_with_it(golden: Path) -> None:
    tokens = read((golden / "qwq_32b_tp4.log").read_text()).get("kv_tokens")
    assert tokens is not None
    assert tokens.line.startswith("[2025-03-08 12:29:29 TP0] max_total_num_tokens=46611, ")
    assert (golden / "qwq_32b_tp4.log").read_text().splitlines()[(tokens.line_number or 0) - 1] == tokens.line


def test_states_and_the_pools_of_a_draft_are_told_apart(golden: Path) -> None:
    found = says((golden / "draft_oom_2026.log").read_text())
    assert (found["kv_state_slots"], found["kv_tokens"]) == (64, 295950)
    assert (found["kv_conv_bytes"], found["kv_ssm_bytes"]) == (gib(0.07), gib(3.05))
    assert found["kv_spec_state_bytes"] == gib(48.75)
    assert (found["kv_k_bytes"], found["kv_v_bytes"]) == (gib(4.52), gib(4.52))
    assert found["draft_kv_bytes"] == gib(6.78)
    assert found["graph_bytes"] == gib(3.85 + 6.13 + 2.17)
    assert found["kv_cache_dtype"] == "bfloat16"


def test_hybrid_start_on_two_ranks(golden: Path) -> None:
    found = says((golden / "qwen3.5_9b_tp2.log").read_text())
    assert (found["kv_state_slots"], found["kv_tokens"], found["max_running_requests"]) == (186, 327310, 62)
    assert (found["kv_k_bytes"], found["kv_v_bytes"]) == (gib(2.5), gib(2.5))
    assert (found["kv_conv_bytes"], found["kv_ssm_bytes"]) == (gib(0.10), gib(4.38))
    assert (found["free_before_load_bytes"], found["free_after_load_bytes"]) == (gib(22.93), gib(14.08))
    assert (found["graph_bytes"], found["weights_bytes"]) == (gib(0.26), gib(8.85))
    assert "draft_kv_bytes" not in found


def test_a_draft_loaded_before_the_pools_is_part_of_the_same_start(golden: Path) -> None:
    found = says((golden / "flash_draft_2026.log").read_text())
    assert (found["kv_tokens"], found["kv_k_bytes"]) == (159552, gib(1.83))
    assert (found["weights_bytes"], found["graph_bytes"]) == (gib(82.97), gib(0.11))
    assert found["free_after_load_bytes"] == gib(29.01)
    assert found["free_before_load_bytes"] == gib(111.97)  # not the 28.81 that the draft finds


def test_hybrid_start_without_ranks(golden: Path) -> None:
    found = says((golden / "nemotron_hybrid.log").read_text())
    assert (found["kv_state_slots"], found["kv_tokens"], found["max_running_requests"]) == (48, 2618868, 48)
    assert (found["kv_k_bytes"], found["kv_v_bytes"]) == (gib(19.98), gib(19.98))
    assert (found["context_len"], found["chunked_prefill_size"]) == (16384, -1)
    assert found["free_after_start_bytes"] == gib(13.38)


def test_window_pools_are_one_cache(golden: Path) -> None:
    found = says((golden / "gemma_4_12b_fp4.log").read_text())
    assert found == {"kv_cache_dtype": "float4_e2m1fn_x2", "kv_bytes": gib(55.87), "kv_tokens": 765776}
    line = "Use sliding window memory pool. full_layer_tokens=1710, swa_layer_tokens=1368\n"
    assert says(line) == {"kv_window_tokens": 1368, "kv_full_tokens": 1710}
    # a pool of minus 40,934 tokens, as a public issue shows it
    line = "Use Sliding window memory pool. full_layer_tokens=-40934, swa_layer_tokens=-32747\n"
    assert says(line) == {"kv_window_tokens": -32747, "kv_full_tokens": -40934}


def test_a_benchmark_states_its_pool_in_the_allocation_line(golden: Path) -> None:
    found = says((golden / "gpt_oss_bench.log").read_text())
    assert (found["kv_tokens"], found["kv_cache_dtype"]) == (4096, "float8_e5m2")
    assert (found["free_before_load_bytes"], found["weights_bytes"]) == (gib(94.63), gib(2.72))


def test_a_full_pool_counts_what_it_retracts(golden: Path) -> None:
    found = says((golden / "retraction_0.5.18.log").read_text())
    lines = (golden / "retraction_0.5.18.log").read_text().count("#retracted_reqs: 1,")
    assert found == {"retracted_requests_in_log": lines, "peak_kv_used_ratio": 1.0}


LINES = {
    "Load weight end. elapsed=0.38 s, type=Qwen3ForCausalLM, quant=fp8, avail mem=74.10 GB, mem usage=8.20 GB.\n": {
        "free_after_load_bytes": gib(74.10),
        "weights_bytes": gib(8.20),
    },
    "KV Cache is allocated. #tokens: 274934, KV size: 17.99 GB\n": {"kv_tokens": 274934, "kv_bytes": gib(17.99)},
    "KV Cache is allocated. K size: 27.13 GB, V size: 27.13 GB.\n": {  # to 0.4.2
        "kv_k_bytes": gib(27.13),
        "kv_v_bytes": gib(27.13),
    },
    "server_args={'model_path': '/m', 'mem_fraction_static': 0.83, 'page_size': 64, 'tp_size': 8}\n": {
        "mem_fraction_static": 0.83,
        "page_size": 64,
    },
    "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 159552, K size: 1.83 GB, V size: 1.83 GB\n": {
        "kv_cache_dtype": "bfloat16",
        "kv_tokens": 159552,
        "kv_k_bytes": gib(1.83),
        "kv_v_bytes": gib(1.83),
    },
    "Capture decode CUDA graph end. elapsed=6.13 s, mem usage=1.21 GB, avail mem=8.20 GB.\n": {
        "graph_bytes": gib(1.21)
    },
    "Capture piecewise CUDA graph end. Time elapsed: 9.10 s. mem usage=0.40 GB. avail mem=8.20 GB.\n": {
        "graph_bytes": gib(0.40)
    },
    "Init torch distributed ends. elapsed=1.31 s, mem usage=1.07 GB\n": {"communication_bytes": gib(1.07)},
    "Decode out of memory happened. #retracted_reqs: 3, #new_token_ratio: 0.1 -> 0.3\n": {
        "retracted_requests_in_log": 3
    },
    "Decode batch, #running-req: 9, #full token: 812, full token usage: 0.41, swa token usage: 0.90, ...\n": {
        "peak_kv_used_ratio": 0.41
    },
    "max_total_num_tokens=1024, max_prefill_tokens=16384, max_running_requests=2049, context_len=2048\n": {
        "kv_tokens": 1024,
        "max_running_requests": 2049,
        "context_len": 2048,
    },
}
PREFIXES = (
    "",
    "[2025-03-08 12:29:21 TP0] ",
    "[2026-01-05 10:00:00 DP1 TP3 EP3] ",
    "[2026-10-05 10:00:00 DP0 PP0 ATTN_CP0 MOE_DP0 TP0 EP0] ",
    "\x1b[36m[2025-03-08 12:29:21 TP0]\x1b[0m ",
    "2026-01-05T10:00:00.123456789Z stdout F [2026-01-05 10:00:00 PP0 TP0] ",
    "Jan 05 10:00:00 node1 sglang[4711]: [2026-01-05 10:00:00] ",
    "sglang-worker-0 | [2026-01-05 10:00:00] INFO:sglang.srt: ",
)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("line", LINES)
def test_wordings_of_all_ages_behind_any_prefix(prefix: str, line: str) -> None:
    before, after = "Init torch distributed begin.\n", "Memory pool end. avail mem=8.34 GB\n"
    assert says(prefix + before + prefix + line + prefix + after) == LINES[line]
    assert engines.log_reader("sglang").recognises(prefix + line) or prefix + line not in OWN


PREFIX = re.compile(r"\[\d{4}-[^\]]*\] ")
OWN = {line for line in LINES if line.startswith(("Load weight", "KV Cache", "max_total", "Decode batch"))}


def test_a_pool_is_the_targets_when_what_comes_before_and_after_it_was_seen() -> None:
    target = (
        "[2026-10-02 00:39:31] Load weight end. elapsed=1.00 s, type=LlamaForCausalLM, avail mem=21.57 GB, x\n",
        "[2026-10-02 00:39:41] KV Cache is allocated. #tokens: 295950, K size: 4.52 GB, V size: 4.52 GB\n",
        "[2026-10-02 00:39:41] Memory pool end. avail mem=21.57 GB\n",
    )
    draft = (
        "[2026-10-02 00:39:42] Load weight begin. avail mem=21.57 GB\n",
        "[2026-10-02 00:39:42] Load weight end. elapsed=1.00 s, type=LlamaForCausalLMEagle3, avail mem=20.57 GB, x\n",
        "[2026-10-02 00:39:43] KV Cache is allocated. #tokens: 295950, K size: 3.39 GB, V size: 3.39 GB\n",
        "[2026-10-02 00:39:43] Memory pool end. avail mem=14.77 GB\n",
    )
    begin = "[2026-10-02 00:39:30] Load weight begin. avail mem=93.77 GB\n"
    found = says("".join((begin, *target, *draft)))
    assert (found["kv_k_bytes"], found["draft_kv_bytes"]) == (gib(4.52), gib(6.78))
    for lines in (target, draft, draft[2:], (begin, *target[:2]), (begin, target[2], target[1])):
        assert not {"kv_k_bytes", "draft_kv_bytes"} & says("".join(lines)).keys(), lines


def test_graphs_are_added_up_over_phases_that_ended() -> None:
    begin = "[2026-10-02 00:40:0{}] Capture {} CUDA graph begin. avail mem=9.00 GB\n"
    end = "[2026-10-02 00:40:0{}] Capture {} CUDA graph end. elapsed=1.0 s, mem usage=1.00 GB, avail mem=8.00 GB.\n"
    first = "[2026-10-02 00:39:30] Load weight begin. avail mem=93.77 GB\n" + begin.format(0, "decode")
    both = first + end.format(1, "decode") + begin.format(2, "draft verify")
    assert "graph_bytes" not in says(both)
    assert says(both + end.format(3, "draft verify"))["graph_bytes"] == gib(2)


def test_of_several_ranks_the_scarcest_decides() -> None:
    start = (
        "[2026-01-05 10:00:00 TP0] Load weight begin. avail mem=78.50 GB\n"
        "[2026-01-05 10:00:00 TP1] Load weight begin. avail mem=77.90 GB\n"
        "[2026-01-05 10:00:01 TP0] Load weight end. type=X, avail mem=60.00 GB, mem usage=18.50 GB.\n"
        "[2026-01-05 10:00:01 TP1] Load weight end. type=X, avail mem=59.10 GB, mem usage=18.80 GB.\n"
    )
    found = says(start)
    assert (found["free_before_load_bytes"], found["free_after_load_bytes"]) == (gib(77.90), gib(59.10))
    assert found["weights_bytes"] == gib(18.80)


def test_addresses_that_are_only_reserved_are_no_cache() -> None:
    """An imitation: with SGLANG_ENABLE_POST_CAPTURE_KV_SIZING the pool is sized after the graphs."""
    start = (
        "[2026-10-05 09:59:00 TP0] Load weight begin. avail mem=78.50 GB\n"
        "[2026-10-05 10:00:00 TP0] KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 900000, K size: 61.80 GB,"
        " V size: 61.80 GB\n"
        "[2026-10-05 10:00:01 TP0] Memory pool end. avail mem=60.10 GB\n"
        "[2026-10-05 10:00:02 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 380000, K size: 0.72 GB,"
        " V size: 0.72 GB\n"
        "[2026-10-05 10:00:02 TP0] Memory pool end. avail mem=58.60 GB\n"
        "[2026-10-05 10:00:30 TP0] Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 380000,"
        " K size: 26.09 GB, V size: 26.09 GB, avail mem=6.20 GB\n"
        "[2026-10-05 10:00:30 TP0] max_total_num_tokens=380000, chunked_prefill_size=8192, max_prefill_tokens=16384,"
        " max_running_requests=2048, context_len=40960, available_gpu_mem=6.20 GB\n"
    )
    found = says(start)
    assert (found["kv_tokens"], found["kv_k_bytes"], found["kv_v_bytes"]) == (380000, gib(26.09), gib(26.09))
    assert found["draft_kv_bytes"] == gib(1.44)
    cut = says(start.partition("[2026-10-05 10:00:30")[0])
    assert not {"kv_tokens", "kv_k_bytes", "kv_v_bytes"} & cut.keys()


def test_arguments_are_read_in_either_form() -> None:
    """As a class to the summer of 2026, as a dictionary after."""
    for line in (
        "server_args=ServerArgs(model_path='/m', mem_fraction_static=0.83, page_size=64, tp_size=8, host='a')",
        "server_args={'model_path': '/m', 'mem_fraction_static': 0.83, 'page_size': 64, 'tp_size': 8, 'host': 'a'}",
    ):
        listener = Listener(engines.stated_args("sglang"))
        list(listener.through(["[2026-10-05 10:00:00] " + line]))
        found = listener.added(Observation(engine="sglang")).settings
        assert {item.name: item.value for item in found} == {"model": "m", "util": 0.83, "block_size": 64, "tp": 8}


def test_a_restart_in_the_same_log_starts_anew(golden: Path) -> None:
    first = (golden / "qwq_32b_tp4.log").read_text()
    again = (golden / "nemotron_hybrid.log").read_text()
    second = (
        "[2026-09-09 11:57:01] server_args=ServerArgs(model_path='/m', mem_fraction_static=0.82, page_size=1, x=1)\n"
    )
    found = read(first + second + again)
    tokens, share = found.get("kv_tokens"), found.get("mem_fraction_static")
    assert tokens is not None
    assert share is not None
    assert (tokens.value, share.value) == (2618868, 0.82)


def test_a_log_names_its_engine(golden: Path) -> None:
    for name in ("qwq_32b_tp4.log", "draft_oom_2026.log", "gpt_oss_bench.log", "retraction_0.5.18.log"):
        assert observe.read_log(str(golden / name)).engine == "sglang"


def test_a_log_that_begins_with_a_line_of_vllm_is_still_ours(golden: Path, tmp_path: Path) -> None:
    """SGLang to 0.4.6 imports vLLM, which announces the platform."""
    log = tmp_path / "sglang.log"
    line = "INFO 03-07 12:29:02 [__init__.py:190] Automatically detected platform cuda.\n"
    log.write_text(line + (golden / "qwq_32b_tp4.log").read_text())
    assert observe.read_log(str(log)).engine == "sglang"


def test_logs_of_other_engines_are_not_ours(golden: Path) -> None:
    recognises = engines.log_reader("sglang").recognises
    for folder in ("vllm/logs", "llamacpp"):
        for path in (golden.parent / folder).glob("*.log"):
            assert not any(recognises(line) for line in path.read_text(errors="replace").splitlines()), path


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_broken_log_never_yields_a_number_that_is_not_in_it(golden: Path, data: st.DataObject) -> None:
    """Cut, shuffled, and with garbage between: what is read was stated by a whole line of the original."""
    name = data.draw(st.sampled_from(["qwq_32b_tp4.log", "draft_oom_2026.log", "nemotron_hybrid.log"]))
    text = (golden / name).read_text()
    whole = {item.name: set[object]() for item in read(text).seen}
    for line in text.splitlines(keepends=True):
        pool = "Init torch distributed begin.\n" + PREFIX.sub("", line) + "Memory pool end. avail mem=1.00 GB\n"
        for item in (*read(line).seen, *read(pool).seen):
            whole.setdefault(item.name, set()).add(item.value)
    lines = data.draw(st.permutations(text.splitlines(keepends=True)))
    broken = "".join(lines)[: data.draw(st.integers(0, len(text)))]
    at = data.draw(st.integers(0, max(0, len(broken) - 1)))  # an end of line after half a number would hide the cut
    broken = broken[:at] + data.draw(st.text(alphabet="\x00\xff\n ]", max_size=5)) + broken[at:]
    summed = {"graph_bytes", "draft_kv_bytes", "retracted_requests_in_log"}
    for item in read(broken).seen:
        assert item.name in whole, item
        assert item.name in summed or item.value in whole[item.name], item


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    read(text)
