"""Ollama's contexts and caches against public logs, its lines and its child's, its variables and its Modelfile."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import engines
from kvlab.core.engine import Carved, Deployment, Gpu
from kvlab.core.errors import BadInput, MissingFact
from kvlab.core.layout import Layout, Row, RowKind, State
from kvlab.core.model import Model, Weights
from kvlab.core.observation import Observation
from kvlab.core.plan import Ask
from kvlab.core.units import GIB, MIB
from kvlab.engines.ollama.context import cut_prompt

GOLDEN = Path(__file__).parents[2] / "golden" / "ollama"
PLANNER = engines.planner("ollama")


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def table(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((GOLDEN / name).read_text().splitlines()))


def row(kind: RowKind, layers: int, heads: int, dim: int, window: int | None = None) -> Row:
    return Row(kind=kind, layers=tuple(range(layers)), heads=heads, k_dim=dim, v_dim=dim, window=window)


LLAMA_8B = Layout((row("full", 32, 8, 128),))
MINISTRAL_3B = Layout((row("full", 26, 8, 128),))
GEMMA_270M = Layout((row("full", 3, 1, 256), row("window", 15, 1, 256, 512)))
MODEL = Model(name="shape", model_type="llama", context=131_072, layers=1, weight_format="gguf")


def card(gib: float) -> Gpu:
    return Gpu(name="card", title="a card", usable_bytes=round(gib * GIB), bandwidth=None, source="test")


def deploy(layout: Layout = LLAMA_8B, model: Model = MODEL, gpu: Gpu | None = None, **asked: Any) -> Deployment:
    return Deployment(model=model, layout=layout, ask=Ask(engine="ollama", **asked), gpu=gpu, pool_bytes=None)


def carve(layout: Layout = LLAMA_8B, model: Model = MODEL, gpu: Gpu | None = None, **asked: Any) -> Carved:
    return PLANNER.carve(deploy(layout, model, gpu, **asked))


def expected(carved: Carved, name: str) -> float:
    value = next(item.value for item in carved.expects if item.name == name)
    assert not isinstance(value, str)
    return value


def read(*lines: str) -> Observation:
    return engines.log_reader("ollama").read(lines)


def read_log(name: str) -> Observation:
    return read(*(GOLDEN / name).read_text().splitlines(keepends=True))


def disagreements(carved: Carved, seen: Observation) -> list[tuple[str, object, object]]:
    """Exact expectations that the log states otherwise. Estimates are left out."""
    found: list[tuple[str, object, object]] = []
    for item in carved.expects:
        stated = seen.get(item.name)
        if stated is None or item.kind == "estimated":
            continue
        if isinstance(item.value, str) or isinstance(stated.value, str):
            same = item.value == stated.value
        else:
            same = abs(item.value - stated.value) <= item.tolerance
        if not same:
            found.append((item.name, item.value, stated.value))
    return found


@pytest.mark.parametrize("tier", table("tiers.csv"), ids=lambda tier: tier["total_vram_gib"])
def test_the_default_context_is_that_of_the_log(tier: dict[str, str]) -> None:
    carved = carve(gpu=card(float(tier["total_vram_gib"])), model=msgspec.structs.replace(MODEL, context=262_144))
    assert carved.context == int(tier["default_num_ctx"])
    assert expected(carved, "default_context") == int(tier["default_num_ctx"])


def test_before_the_tiers_every_machine_gets_4096() -> None:
    assert carve(gpu=card(80), engine_version="0.14.3").context == 4096
    with pytest.raises(MissingFact, match=r"0\.5 is not known here; give --context"):
        carve(gpu=card(80), engine_version="0.5")


def test_the_overhead_variable_counts_against_the_tier() -> None:
    args = (("OLLAMA_GPU_OVERHEAD", str(2 * GIB)),)
    assert carve(gpu=card(24)).context == 32_768
    assert carve(gpu=card(24), engine_args=args).context == 4_096


def test_a_default_context_is_a_doubt_that_says_what_is_cut() -> None:
    """ "truncating input prompt" limit=2050 prompt=33742 keep=4 new=2050", with num_ctx 4096; 1026 with 2048."""
    assert cut_prompt(4096) == 2050
    assert cut_prompt(2048) == 1026
    (doubt,) = carve(gpu=card(8)).doubts
    assert doubt.key == "num_ctx"
    assert "to 2,050 tokens without an error" in doubt.text
    assert carve(gpu=card(8), context=8192).doubts == ()


def test_a_context_above_the_models_is_cut() -> None:
    """ "requested context size too large for model" num_ctx=262144 n_ctx_train=40960", then "-c 40960"."""
    carved = carve(context=262_144, model=msgspec.structs.replace(MODEL, context=40_960))
    assert carved.context == 40_960
    assert [doubt.key for doubt in carved.doubts] == ["num_ctx"]


def test_every_number_of_a_public_log_is_planned() -> None:
    """Ollama 0.33.2 on a CPU: two slots, and an embedding model loaded after the one that generates."""
    seen = read_log("ministral_3b_f16_4096x2.log")
    carved = carve(MINISTRAL_3B, parallel=2, context=4096)
    assert disagreements(carved, seen) == []
    stated = {item.name for item in seen.seen}
    assert {"kv_full_bytes", "kv_full_cells", "n_ctx", "n_ctx_seq", "slots", "n_ctx_slot", "ubatch"} <= stated
    assert seen.version == "0.33.2"
    assert expected(carved, "kv_full_bytes") == 832 * MIB
    batch = seen.get("ubatch")
    assert batch is not None
    assert batch.value == 1024
    launch = engines.launcher("ollama").command(deploy(MINISTRAL_3B, parallel=2, context=4096), carved, "m.gguf")
    assert "PARAMETER num_batch 1024" in launch.files["Modelfile"]


def test_windows_follow_the_micro_batch_that_ollama_chooses() -> None:
    """llama-server with Ollama's arguments: 512 + 1024 cells of window in each of two slots."""
    seen = read_log("gemma3_270m_q8_0_8192x2.log")
    carved = carve(GEMMA_270M, parallel=2, context=8192, kv_dtype="q8_0")
    assert disagreements(carved, seen) == []
    assert expected(carved, "kv_window_cells") == 1536
    assert "num_batch" in [doubt.key for doubt in carved.doubts]


@pytest.mark.parametrize(
    ("context", "parallel", "batch"),
    [
        (4096, 2, 1024),  # -c 8192 -np 2 -b 1024 (0.33.2, CPU)
        (32_768, 1, 1024),  # -c 32768 -np 1 -b 1024 (0.34.2, Metal and Vulkan)
        (4096, 1, 512),
        (65_536, 1, 2048),
    ],
)
def test_the_micro_batch_grows_with_the_context(context: int, parallel: int, batch: int) -> None:
    launched = deploy(context=context, parallel=parallel)
    command = engines.launcher("ollama").command(launched, PLANNER.carve(launched), "m.gguf")
    assert f"PARAMETER num_batch {batch}\n" in command.files["Modelfile"]


def test_the_micro_batch_shrinks_where_memory_is_tight() -> None:
    """Above 60 % of the memory no 2048, above 75 % no 1024."""
    for weights, batch in ((1, 2048), (10, 1024), (14, 512)):
        launched = msgspec.structs.replace(
            deploy(context=40_960, gpu=card(24)), weights=Weights(weights * GIB, "computed", "test")
        )
        command = engines.launcher("ollama").command(launched, PLANNER.carve(launched), "m.gguf")
        assert f"PARAMETER num_batch {batch}\n" in command.files["Modelfile"], weights


@pytest.mark.parametrize("logged", table("estimates.csv"), ids=lambda logged: logged["shape"])
def test_estimates_of_older_releases_are_those_of_public_logs(logged: dict[str, str]) -> None:
    layout = Layout((row("full", int(logged["layers"]), int(logged["heads"]), int(logged["head_dim"])),))
    carved = carve(layout, context=int(logged["num_ctx"]), engine_version="0.9.0")
    seen = read(f'level=INFO source=server.go:175 msg=offload memory.required.kv="{logged["printed"]}"')
    assert disagreements(carved, seen) == []
    assert seen.get("kv_estimate_bytes") is not None


def test_ollamas_own_estimate_leaves_out_the_scales() -> None:
    carved = carve(context=8192, kv_dtype="q8_0", engine_version="0.12.0")
    assert expected(carved, "kv_estimate_bytes") == GIB / 2
    assert expected(carved, "kv_bytes") == GIB * 34 / 64


def test_caches_of_several_devices_are_summed() -> None:
    line = 'time=2025-08-24T08:26:00.310Z level=INFO source=backend.go:{} msg="{}" {} size="{}"'
    seen = read(
        line.format(321, "kv cache", "device=CUDA0", "936.0 MiB"),
        line.format(326, "kv cache", "device=CPU", "1.5 GiB"),
        line.format(342, "total memory", "", "2.4 GiB"),
        line.format(326, "kv cache", "device=CPU", "1.5 GiB"),
        line.format(342, "total memory", "", "2.4 GiB"),  # the line of a device is lost
        line.format(321, "kv cache", "device=CUDA0", "100.0 MiB"),  # and that of the total
    )
    sizes = [item.value for item in seen.seen if item.name == "kv_bytes"]
    assert sizes == [936 * MIB + 1.5 * GIB]


def test_every_line_is_read_as_a_person_reads_it() -> None:
    for logged in rows("lines.jsonl"):
        says = {item.name: item.value for item in read(logged["line"]).seen}
        assert says == pytest.approx(logged["says"]), logged["line"]


def test_of_models_that_older_releases_load_one_after_another_the_last_counts() -> None:
    start = 'level=INFO source=server.go:431 msg="starting runner" cmd="/usr/bin/ollama runner {} --port 4711"'
    size = "llama_new_context_with_model: KV self size  = {} MiB, K (f16): {} MiB, V (f16): {} MiB"
    context = "llama_new_context_with_model: n_ctx         = 2048"
    first, second = size.format("512.00", "256.00", "256.00"), size.format("128.00", "64.00", "64.00")
    looks_for_devices = start.format("--ollama-engine")
    lines = (start.format("--model /a"), context, first, start.format("--model /b"), context, second)
    found = read(*lines, looks_for_devices)
    assert found.get("kv_full_bytes").value == 128 * MIB  # type: ignore[union-attr]


def test_only_a_load_that_is_made_counts_not_one_that_is_tried() -> None:
    line = (
        'level=INFO source=runner.go:1284 msg=load request="{{Operation:{} LoraPath:[] Parallel:{} BatchSize:512'
        ' FlashAttention:Enabled KvSize:{} KvCacheType:q8_0 NumThreads:4 GPULayers:[]}}"'
    )
    found = read(line.format("fit", 4, 32768), line.format("commit", 2, 16384), line.format("alloc", 4, 32768))
    says = {item.name: item.value for item in found.seen}
    assert says == {"n_ctx": 16384, "slots": 2, "ubatch": 512, "kv_cache_dtype": "q8_0"}


def test_its_logs_are_recognised_and_not_taken_for_llama_cpps() -> None:
    from kvlab.observe import read_log as observe

    for name in ("ministral_3b_f16_4096x2.log", "gemma3_270m_q8_0_8192x2.log"):
        assert observe(str(GOLDEN / name)).engine == "ollama"
    journal = "Mar 18 10:57:22 host ollama[215328]: llama_kv_cache_init:        CPU KV buffer size = 31360.00 MiB"
    assert engines.log_reader("ollama").recognises(journal)
    assert not engines.log_reader("llamacpp").recognises(journal)


LINES = [logged["line"] for logged in rows("lines.jsonl")]
LINES += (GOLDEN / "ministral_3b_f16_4096x2.log").read_text().splitlines()


@given(st.lists(st.text(max_size=200) | st.sampled_from(LINES)))
def test_no_line_breaks_the_reader(lines: list[str]) -> None:
    for item in read(*lines).seen:
        assert item.line_number is not None
        assert 1 <= item.line_number <= len(lines)


def test_failures_are_named() -> None:
    rules = engines.failures("ollama").rules
    for logged in rows("failures.jsonl"):
        assert next((rule.code for rule in rules if rule.pattern.search(logged["line"])), None) == logged["code"]
    # a first out-of-memory line is followed by a retry, and these models served
    assert not [line for line in LINES for rule in rules if rule.pattern.search(line)]


def test_variables_and_modelfile_say_what_the_plan_says(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.touch()
    args = (("OLLAMA_SCHED_SPREAD", "1"), ("num_gpu", "20"))
    launched = deploy(context=8192, parallel=3, kv_dtype="q8_0", engine_args=args)
    launch = engines.launcher("ollama").command(launched, PLANNER.carve(launched), str(model))
    assert launch.argv == ("sh", "serve.sh", "Modelfile", str(model))
    assert launch.env == {
        "OLLAMA_HOST": "127.0.0.1:{port}",
        "OLLAMA_CONTEXT_LENGTH": "8192",
        "OLLAMA_NUM_PARALLEL": "3",
        "OLLAMA_KV_CACHE_TYPE": "q8_0",
        "OLLAMA_KEEP_ALIVE": "-1",
        "OLLAMA_MAX_LOADED_MODELS": "1",
        "OLLAMA_FLASH_ATTENTION": "1",
        "OLLAMA_SCHED_SPREAD": "1",
    }
    says = [line for line in launch.files["Modelfile"].splitlines() if not line.startswith("#")]
    assert says == [
        f"FROM {model}",
        "PARAMETER num_ctx 8192",
        "PARAMETER num_batch 1024",
        "PARAMETER num_gpu 20",
    ]
    assert all(flag.because for flag in launch.flags)


def test_a_model_that_is_not_on_the_machine_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    launched = deploy(context=8192)
    for source, lacks in (
        ("Qwen/Qwen3-8B", "Ollama reads a model of this machine: hf download Qwen/Qwen3-8B --local-dir "),
        ("model", "Ollama reads a GGUF file, or a folder with weights: put one at "),
    ):
        launch = engines.launcher("ollama").command(launched, PLANNER.carve(launched), source)
        path = str(Path.cwd() / source.rpartition("/")[2])
        assert launch.lacks == lacks + path
        assert launch.argv[-1] == path  # never a name that Ollama would look for in its own registry
    assert engines.launcher("ollama").command(launched, PLANNER.carve(launched), str(tmp_path)).lacks is None


def test_some_architectures_run_one_request_at_a_time() -> None:
    for name in ("qwen3next", "qwen3_next", "qwen35moe", "lfm2", "nemotron_h", "mllama"):
        model = msgspec.structs.replace(MODEL, model_type=name)
        assert carve(model=model, context=4096, users=4).capacity.max_concurrency == 1  # type: ignore[union-attr]
        with pytest.raises(BadInput, match="one request at a time"):
            carve(model=model, context=4096, parallel=2)
    assert carve(context=4096, users=4).capacity.max_concurrency == 4  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("layout", "asked", "says"),
    [
        (LLAMA_8B, {"kv_dtype": "fp8"}, "no cache type 'fp8'"),
        (LLAMA_8B, {"kv_dtype": "q5_1", "engine_version": "0.20"}, "f16, q8_0, q4_0 only"),
        (GEMMA_270M, {"engine_version": "0.20"}, "which of its two runners"),
        (LLAMA_8B, {"tp": 2}, "on one device"),
        (LLAMA_8B, {"parallel": 300, "context": 256}, "at most 256 slots"),
        (LLAMA_8B, {"engine_args": (("num_ctx", "1"),)}, "use --context"),
        (LLAMA_8B, {"engine_args": (("OLLAMA_NUM_PARALLEL", "1"),)}, "use --parallel"),
        (LLAMA_8B, {"engine_args": (("OLLAMA_HOST", "x"),)}, "leave it out"),
        (LLAMA_8B, {"engine_args": (("--flash-attn", "on"),)}, "parameters of a Modelfile"),
        (LLAMA_8B, {"engine_args": (("num-gpus", "3"),)}, "did you mean num_gpu"),
        (LLAMA_8B, {"engine_version": "newest"}, "not an Ollama release"),
    ],
)
def test_what_is_not_known_is_refused_by_name(layout: Layout, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        carve(layout, **asked)


def test_what_does_not_fit_goes_to_the_cpu_and_is_a_doubt() -> None:
    full = msgspec.structs.replace(deploy(context=32_768), pool_bytes=GIB)
    assert "num_gpu" in [doubt.key for doubt in PLANNER.carve(full).doubts]


def test_the_same_memory_holds_more_requests_in_a_smaller_type() -> None:
    launched = deploy(context=8192, parallel=2)
    assert PLANNER.same_pool is not None
    smaller = PLANNER.carve(PLANNER.same_pool(launched, PLANNER.carve(launched), "q8_0"))
    assert smaller.context == 8192
    assert smaller.capacity is not None
    assert smaller.capacity.max_concurrency == 2 * 64 // 34  # blocks of 34 bytes for 32 values, in place of 64
    assert smaller.capacity is not None
    assert smaller.capacity.pool_bytes <= 2 * GIB


def test_recurrent_state_is_held_by_every_slot() -> None:
    state = Row(kind="state", layers=(0, 1), state=(State("s", 1000),))
    carved = carve(Layout((row("full", 2, 1, 64), state)), context=4096, parallel=3)
    assert expected(carved, "kv_state_bytes") == 2 * 1000 * 4 * 3


def test_the_list_of_loaded_models_is_read() -> None:
    page = {"models": [{"name": "m", "size": 1000, "size_vram": 700, "context_length": 4096, "details": {}}]}
    read_page = engines.metric_map("ollama").read
    assert read_page({"/api/ps": json.dumps(page)}) == {
        "n_ctx_slot": 4096,
        "loaded_bytes": 1000,
        "loaded_gpu_bytes": 700,
    }
    assert read_page({"/api/ps": '{"models": []}'}) == {}
    assert read_page({"/api/ps": json.dumps({"models": page["models"] * 2})}) == {}
    with pytest.raises(BadInput, match="/api/ps is not Ollama's list"):
        read_page({"/api/ps": "<html>"})


def test_it_says_that_it_serves_no_tokenizer() -> None:
    with pytest.raises(BadInput, match=r"Ollama serves no endpoint .* --prompts"):
        engines.token_api("ollama")
