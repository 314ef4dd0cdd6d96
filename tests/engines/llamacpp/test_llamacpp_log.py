"""llama.cpp's log lines: recorded ones, and those of the engine as it runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api, engines
from kvlab.core.observation import Observation
from kvlab.core.units import MIB
from kvlab.launch import Server, start
from kvlab.observe import read_log

GOLDEN = Path(__file__).parents[2] / "golden" / "llamacpp"


def read(*lines: str) -> Observation:
    return engines.log_reader("llamacpp").read(lines)


def context(*lines: str) -> Observation:
    return read("llama_context: constructing llama_context", *lines)


def mib(observation: Observation, name: str) -> float:
    seen = observation.get(name)
    assert seen is not None
    assert not isinstance(seen.value, str)
    return round(seen.value / MIB, 2)


def test_both_caches_of_a_windowed_model_are_told_apart() -> None:
    found = read_log(str(GOLDEN / "q8_0_8192_auto4_unified.log"))
    assert found.engine == "llamacpp"
    assert (mib(found, "kv_full_bytes"), mib(found, "kv_window_bytes")) == (12.75, 19.92)
    assert (mib(found, "kv_full_k_bytes"), mib(found, "kv_window_v_bytes")) == (6.38, 9.96)
    cells = found.get("kv_window_cells")
    assert cells is not None
    assert cells.value == 2560
    assert cells.line_number == 132
    assert mib(found, "compute_buffer_bytes") == 29.31
    assert mib(found, "weights_loaded_bytes") == 247.82  # 235.16 mapped and 12.66 repacked


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("llama_new_context_with_model: kv self size  =  256.00 MB", "kv_full_bytes", 256.0),  # 2023: no K/V split
        (
            "llama_new_context_with_model: KV self size  =  256.00 MiB, K (f16):  128.00 MiB, V (f16):  128.00 MiB",
            "kv_full_bytes",
            256.0,
        ),
        (
            "llama_kv_cache_unified: size = 1536.00 MiB (  4096 cells,  32 layers,  1 seqs), K (f16): 768.00 MiB,"
            " V (f16): 768.00 MiB",
            "kv_full_bytes",
            1536.0,
        ),
        (
            "llama_kv_cache_unified: size = 1536.00 MiB (  4096 cells,  32 layers,  1/ 1 seqs), K (f16): 768.00 MiB,"
            " V (f16): 768.00 MiB",
            "kv_full_cells",
            4096 / MIB,
        ),
        (
            "llama_memory_recurrent: size =   75.38 MiB (     1 cells,  48 layers,  1 seqs  0 rs_seq), R (f32):"
            "    3.38 MiB, S (f32):   72.00 MiB, P (f32):    0.00 MiB",
            "kv_state_bytes",
            75.38,
        ),
    ],
)
def test_lines_of_all_ages(line: str, name: str, value: float) -> None:
    seen = context(line).get(name)
    assert seen is not None
    assert isinstance(seen.value, float)
    assert seen.value / MIB == pytest.approx(value)


def test_a_pass_that_only_measures_is_not_counted() -> None:
    size = (
        "llama_kv_cache: size =   12.00 MiB (  4096 cells,   3 layers,  1/1 seqs), K (f16): 6.00 MiB, V (f16): 6.00 MiB"
    )
    found = context(
        "llama_kv_cache:        CPU KV buffer size =     0.00 MiB",
        size,
        "llama_kv_cache:        CPU KV buffer size =    12.00 MiB",
        size,
    )
    assert mib(found, "kv_full_bytes") == 12.0


def test_a_state_that_is_only_measured_is_not_counted() -> None:
    buffer = "llama_memory_recurrent:        CPU RS buffer size =    {} MiB"
    size = (
        "llama_memory_recurrent: size =   50.25 MiB (     1 cells,  32 layers,  1 seqs), R (f32):    2.25 MiB,"
        " S (f32):   48.00 MiB"
    )
    found = context(buffer.format("0.00"), size, buffer.format("50.25"), size)
    assert (mib(found, "kv_state_bytes"), mib(found, "kv_state_r_bytes")) == (50.25, 2.25)


def test_nothing_of_the_pass_that_announces_itself_is_counted() -> None:
    """`-lv 5` prints it: its compute buffers have the sizes of the real ones."""
    passes = (GOLDEN / "ages" / "2026-10_fit_pass_lv5.log").read_text()
    assert passes.count("CPU compute buffer size =    21.28 MiB") == 2
    found = read_log(str(GOLDEN / "ages" / "2026-10_fit_pass_lv5.log"))
    assert mib(found, "compute_buffer_bytes") == 21.28
    cut = read(*passes.partition("no_alloc              = 0")[0].splitlines())
    assert [item.name for item in cut.seen] == ["weights_file_bytes"]


def test_the_build_is_the_version() -> None:
    for line, version in (
        ("main: build = 850 (d4d7d2f)", "b850"),
        ("build: 6123 (79c1160b) with cc (Ubuntu 11.4.0) 11.4.0 for x86_64-linux-gnu", "b6123"),
        ("0.00.000.296 I srv          init: build_info: b11434-e1f2a3b", "b11434"),
        ("0.00.001.781 I cmn  common_param: common_params_print_info: build 0 (unknown) with GNU 10.2.1", None),
    ):
        assert read(line).version == version


def test_a_draft_model_is_added() -> None:
    trunk = (
        "llama_kv_cache: size = 12.00 MiB (  4096 cells,   3 layers,  1/1 seqs), K (f16): 6.00 MiB, V (f16): 6.00 MiB"
    )
    draft = (
        "llama_kv_cache: size =  4.00 MiB (  4096 cells,   1 layers,  1/1 seqs), K (f16): 2.00 MiB, V (f16): 2.00 MiB"
    )
    assert mib(context(trunk, "llama_context: constructing llama_context", draft), "kv_full_bytes") == 16.0


def loaded(*context: str, weights: tuple[str, ...] = ("100.00",)) -> list[str]:
    """A load: weights on one device, then a context and what `context` states in it."""
    stated = [f"load_tensors:   CUDA0 model buffer size =   {size} MiB" for size in weights]
    return [
        "load_tensors: offloaded 19/19 layers to GPU",
        *stated,
        "llama_context: constructing llama_context",
        *context,
    ]


def test_a_server_that_wakes_up_loads_again() -> None:
    """Nor is the same device's buffer of a second start added, whatever was lost between."""
    computing = "sched_reserve:  CUDA_Host compute buffer size = 20.00 MiB"
    for between in (["srv    load_model: loading model 'gemma-3-270m.gguf'"], []):
        found = read(*loaded(computing), *between, *loaded(computing, weights=("70.00", "30.00")))
        assert (mib(found, "weights_loaded_bytes"), mib(found, "compute_buffer_bytes")) == (100, 20)
    drafted = read(*loaded(computing), "srv    load_model: loading draft model 'tiny.gguf'", *loaded(computing))
    assert (mib(drafted, "weights_loaded_bytes"), mib(drafted, "compute_buffer_bytes")) == (200, 40)


def test_buffers_that_a_context_reserves_again_are_not_added() -> None:
    reserved = [f"sched_reserve:  CUDA_Host compute buffer size = {size} MiB" for size in ("20.00", "25.50")]
    assert mib(read(*loaded(*reserved)), "compute_buffer_bytes") == 25.5


@pytest.mark.parametrize("buffer", ["model", "KV", "compute"])
def test_a_sum_of_which_a_line_is_damaged_is_not_seen(buffer: str) -> None:
    """Another thread wrote into it."""
    lines = (GOLDEN / "ages" / "2025-08_gpt_oss_vulkan.log").read_text().splitlines()
    at = next(at for at, line in enumerate(lines) if f"Vulkan0 {buffer} buffer size =" in line)
    whole, name = read(*lines), {"model": "weights_loaded", "KV": "kv_full", "compute": "compute_buffer"}[buffer]
    assert whole.get(f"{name}_bytes") is not None
    struck = f"{lines[at][:-6]}srv  log_server_r: done request: GET /health 127.0.0.1 200"
    assert read(*lines[:at], struck, lines[at][-6:], *lines[at + 1 :]).get(f"{name}_bytes") is None


def test_a_sum_counts_when_the_line_before_its_first_part_was_seen() -> None:
    weights = ("load_tensors:   CPU_Mapped model buffer size =   235.16 MiB",)
    assert read(*weights).seen == ()
    begin = ("load_tensors: offloaded 19/19 layers to GPU", *weights)
    assert read(*begin).get("weights_loaded_bytes") is None  # another device's may follow
    loaded = read(*begin, "llama_context: constructing llama_context")
    assert mib(loaded, "weights_loaded_bytes") == 235.16
    compute = [f"sched_reserve:  {name} compute buffer size = 20.00 MiB" for name in ("CUDA0", "CUDA1", "CUDA_Host")]
    assert read(*compute).seen == ()
    assert mib(context(*compute), "compute_buffer_bytes") == 60
    assert context(*compute[:2]).seen == ()  # the host's comes last
    cache = (GOLDEN / "f16_8192_np4.log").read_text().splitlines()[124:]
    assert not [item for item in read(*cache).seen if item.name.startswith("kv_full")]


@pytest.mark.parametrize(
    ("log", "options"),
    [
        ("f16_8192_np4", {"kv_dtype": "f16", "context": 8192, "parallel": 4}),
        ("q8_0_8192_auto4_unified", {"kv_dtype": "q8_0", "context": 8192}),
        ("q4_0_8192_np2", {"kv_dtype": "q4_0", "context": 8192, "parallel": 2}),
        ("k_q8_0_v_q4_0_4096_np1", {"kv_dtype_k": "q8_0", "kv_dtype_v": "q4_0", "context": 4096, "parallel": 1}),
        ("f16_4096_np2_swa_full", {"context": 4096, "parallel": 2, "swa_full": True}),
    ],
)
def test_every_line_of_a_recorded_log_agrees_with_the_plan(gemma: Path, log: str, options: dict[str, object]) -> None:
    plan = api.plan(gemma, engine="llamacpp", **options)  # type: ignore[arg-type]
    found = api.check(GOLDEN / f"{log}.log", plan=plan)
    assert {row.verdict for row in found.rows} == {"agrees"}
    assert len(found.rows) == 20


def test_another_cache_type_differs_by_the_bytes_it_costs(gemma: Path) -> None:
    plan = api.plan(gemma, engine="llamacpp", context=8192, parallel=2, kv_dtype="q8_0")
    rows = {row.name: row for row in api.check(GOLDEN / "q4_0_8192_np2.log", plan=plan).rows}
    assert rows["kv_full_bytes"].verdict == "differs"
    assert rows["kv_full_bytes"].difference == pytest.approx((6.75 - 12.75) * MIB)
    assert rows["n_ctx"].verdict == "agrees"


def test_the_types_of_keys_and_of_values_are_compared(gemma: Path) -> None:
    plan = api.plan(gemma, engine="llamacpp", context=4096, parallel=1, kv_dtype="q8_0")
    rows = {row.name: row for row in api.check(GOLDEN / "k_q8_0_v_q4_0_4096_np1.log", plan=plan).rows}
    assert (rows["kv_full_k_type"].verdict, rows["kv_full_k_type"].seen) == ("agrees", "q8_0")
    assert (rows["kv_window_v_type"].verdict, rows["kv_window_v_type"].seen) == ("differs", "q4_0")
    assert rows["kv_window_v_type"].planned == "q8_0"


@pytest.mark.parametrize(("mib", "verdict"), [(5, "differs"), (21.28, "agrees"), (520, "agrees"), (600, "differs")])
def test_an_estimate_agrees_within_its_range(gemma: Path, tmp_path: Path, mib: float, verdict: str) -> None:
    plan = api.plan(gemma, engine="llamacpp", context=8192, parallel=4)
    log = tmp_path / "engine.log"
    line = "sched_reserve:        CPU compute buffer size =    21.28 MiB"
    text = (GOLDEN / "f16_8192_np4.log").read_text()
    assert line in text
    log.write_text(text.replace(line, line.replace("21.28", f"{mib:.2f}")))
    row = next(row for row in api.check(log, plan=plan).rows if row.name == "compute_buffer_bytes")
    assert row.verdict == verdict
    assert row.low is not None
    assert row.high is not None
    assert row.low < row.high
    assert ("planned because it is an estimate" in (row.likely_because or "")) == (verdict == "differs")


@pytest.mark.e2e
@pytest.mark.parametrize("dtype", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("unified", [False, True], ids=["split", "unified"])
def test_every_line_of_the_running_engine_agrees(
    gemma: Path, tmp_path: Path, dtype: str, slots: int, unified: bool
) -> None:
    plan = api.plan(
        gemma,
        engine="llamacpp",
        context=4096,
        parallel=slots,
        kv_unified=unified,
        kv_dtype=dtype,
        engine_args={"embedded": "true"},
    )
    with start(plan, tmp_path / "engine.log"):
        found = api.check(tmp_path / "engine.log", plan=plan)
    assert [row for row in found.rows if row.verdict != "agrees"] == []
    assert len(found.rows) == 20


@pytest.mark.e2e
def test_a_running_server_is_checked_by_its_address(llama_server: Server, gemma: Path) -> None:
    plan = api.plan(gemma, engine="llamacpp", context=8192, parallel=4)
    rows = {row.name: row for row in api.check(llama_server.url, plan=plan).rows}
    assert (rows["slots"].verdict, rows["slots"].seen) == ("agrees", 4)
    assert (rows["n_ctx_slot"].verdict, rows["n_ctx_slot"].seen) == ("agrees", 2048)
    assert rows["kv_full_bytes"].verdict == "not seen"
    assert not api.check(llama_server.url, plan=plan).agrees  # slots do not tell one cache type from another
    other = api.plan(gemma, engine="llamacpp", context=8192, parallel=2)
    assert {row.name for row in api.check(llama_server.url, plan=other).rows if row.verdict == "differs"} == {
        "slots",
        "n_ctx_slot",
    }
    listed = {row.name: row.seen for row in api.check(llama_server.url).rows}
    assert listed["slots"] == 4
    assert listed["running"] == 0
