"""`explain` on logs as they come: wrapped, coloured, compressed, cut, of any size, and of any text."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvlab
from kvlab import symptoms
from kvlab.core.errors import BadInput
from kvlab.core.rule import Finding
from kvlab.logs import source

GOLDEN = Path(__file__).parents[1] / "golden"
LOGS = sorted((GOLDEN / "logs").glob("*.log"))
POOL = GOLDEN / "vllm" / "logs" / "0.32.0_cpu_pool_too_small.log"


def found(log: Path, code: str) -> Finding:
    return next(finding for finding in symptoms.explain(str(log)).findings if finding.code == code)


def golden(name: str) -> Path:
    return GOLDEN / "logs" / f"{name}.log"


# What the lines say, as a person reads them.
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("context_larger_than_pool.vllm", ["24 GiB", "3.18 GiB", "--max-model-len 34736", "20.82 GiB too few"]),
        # no length in the line: 1,048,576 tokens * 9.97 / 24.00
        ("context_larger_than_pool.vllm_v1_early", ["about 435,596 tokens fit"]),
        ("context_larger_than_pool.vllm_v0", ["29,000", "--max-model-len 23648"]),
        ("free_memory_below_util.vllm", ["15.9 GiB are held by others", "--gpu-memory-utilization 0.66"]),
        ("no_memory_for_blocks.sglang_new", ["raise --mem-fraction-static above 0.731"]),
        ("graph_capture_failed.sglang", ["lower --mem-fraction-static"]),
        ("mamba_blocks.vllm", ["1024 requests", "--max-num-seqs 556 or less"]),
        ("out_of_memory.vllm", ["80.00 MiB more were asked for with 60.69 MiB of 139.72 GiB free"]),
        ("out_of_memory_sizing.llamacpp", ["16384.00 MiB more were asked for"]),
        ("cache_on_cpu.llamacpp", ["3995.00 MiB of it lie there"]),
        ("out_of_memory_sizing.llamacpp_cpu", ["5859.75 MiB more were asked for"]),
        ("context_cut.ollama", ["16,101 tokens came and 2,048 were kept", "num_ctx 32768"]),
        ("context_reduced.lmdeploy", ["4,928 tokens are left"]),
        ("context_reduced.tensorrt_llm", ["86,720 of 131,072 tokens are left"]),
        ("weights_on_cpu.ollama", ["32 of 37 layers"]),
        ("heads_do_not_divide.vllm", ["a tensor-parallel size of 1, 2"]),
        ("driver_too_old.any", ["the driver supports CUDA 12.8"]),
        ("port_in_use.llamacpp", ["another process listens on port 18885", "sport = :18885"]),
        ("prefix_hits_zero.vllm", ["528 tokens"]),
        ("preemption_storm.vllm_v0", ["at least 101 were thrown out"]),
        ("ranks_hang.any", ["rank 2 waited 10 minutes in ALLREDUCE"]),
        ("host_tier_too_large.sglang", ["7.05 GB and 2.04 GB are free"]),
        ("ollama_memory.ollama", ["164.8 GiB are needed and 13.4 GiB are free"]),
        ("too_few_gpus.vllm", ["16 GPUs are asked for and 8 are seen"]),
        ("no_attention_backend.vllm", ["refuses the cache dtype", "--kv-cache-dtype auto"]),
        ("context_above_model.vllm", ["200,000", "131,072"]),
        ("request_longer_than_context.llamacpp", ["2,002 tokens and 512 are allowed"]),
        ("sequence_limit.vllm", ["256 run in every line and up to 294 wait"]),
        ("offload_restore.vllm", ["OffloadingConnector in vLLM 0.13"]),
    ],
)
def test_advice_states_the_numbers_of_the_line(name: str, numbers: list[str]) -> None:
    finding = found(golden(name), name.split(".")[0])
    said = " ".join((finding.why, *finding.do))
    for number in numbers:
        assert number in said


def test_the_two_advices_of_sglang_are_opposite_and_each_has_its_case() -> None:
    assert found(golden("no_memory_for_blocks.sglang"), "no_memory_for_blocks").do[0].startswith("raise the share")
    assert found(golden("graph_capture_failed.sglang"), "graph_capture_failed").do[0].startswith("lower")


def test_advice_names_the_flags_of_the_engine_that_wrote_the_log() -> None:
    one = found(golden("no_memory_for_blocks.lmdeploy"), "no_memory_for_blocks").do
    assert one[0] == "raise the share: LMDeploy --cache-max-entry-count"
    assert not [item for item in one if "vLLM" in item or "SGLang" in item]
    shared = found(golden("context_larger_than_pool.vllm_v0"), "context_larger_than_pool").do
    assert "--max-model-len 23648" in shared[0]


WRITERS = {"vllm": "vLLM", "sglang": "SGLang", "lmdeploy": "LMDeploy", "llamacpp": "llama.cpp", "ollama": "Ollama"}


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_no_remedy_is_another_engines(path: Path) -> None:
    written_by = WRITERS.get(path.name.split(".")[1].split("_")[0])
    for finding in symptoms.explain(str(path)).findings:
        if written_by is None or finding.engine is None:  # a line that several engines write
            continue
        for item in finding.do:
            owners = re.findall(rf"(?:^|[:,;] |\()({'|'.join(map(re.escape, WRITERS.values()))}) ?(?=[:A-Z-])", item)
            assert set(owners) <= {written_by}, item


@pytest.mark.parametrize(
    ("name", "first", "never"),
    [
        ("cache_dtype_ignored.vllm", "vLLM: state the dtype, --kv-cache-dtype fp8", "OLLAMA"),
        ("cache_dtype_ignored.ollama", "Ollama: OLLAMA_FLASH_ATTENTION=1", "--kv-cache-dtype"),
        ("gpu_too_new_or_old.any", "a build for this GPU's CUDA (12.8 or later", "--dtype half"),
        ("architecture_unknown.lmdeploy", "LMDeploy: --backend pytorch", "Ollama"),
        ("architecture_unknown.vllm", "upgrade the engine", "LMDeploy"),
        ("disk_full.any", "free room: hf cache list", "hf cache scan"),
        ("port_in_use.llamacpp", "see which process", "OLLAMA_HOST"),
        ("out_of_memory_sizing.llamacpp_cpu", "llama.cpp, where the context is absolute: a smaller -c", "share"),
    ],
)
def test_the_first_remedy_is_the_cheapest_of_this_log(name: str, first: str, never: str) -> None:
    (finding,) = symptoms.explain(str(golden(name))).findings
    assert finding.do[0].startswith(first)
    assert never not in " ".join(finding.do)


def test_bfloat16_on_an_older_gpu_is_told_of_half(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.\n")
    assert found(log, "gpu_too_new_or_old").do == ("--dtype half, which an older GPU computes",)


def test_the_name_of_an_unknown_architecture_ends_before_the_full_stop() -> None:
    why = found(golden("architecture_unknown.lmdeploy"), "architecture_unknown").why
    assert why.startswith("the model is a Glm5NextForCausalLM; ")


def test_a_real_refusal_of_vllm() -> None:
    seen = symptoms.explain(str(POOL))
    (finding,) = seen.findings
    assert (finding.code, finding.engine, finding.line_number, finding.count) == (
        "context_larger_than_pool",
        "vllm",
        73,
        2,
    )
    assert finding.do[0] == "lower the longest context to 896 tokens, which fit: vLLM --max-model-len 896"
    assert len(finding.do) >= 5  # every other way out


WRAPS: dict[str, Callable[[str], str]] = {
    "rank": lambda line: f"(Worker_TP3_EP3 pid=2532) ERROR 12-29 15:21:11 [multiproc_executor.py:751] {line}",
    "kubernetes": lambda line: f"2026-09-03T06:08:58.123456789Z stderr F {line}",
    "kubectl --prefix": lambda line: f"[pod/vllm-0-abc/engine] {line}",
    "journald": lambda line: f"Jun 10 21:22:18 host engine[159]: {line}",
    "colour": lambda line: f"\x1b[1;36m{line[:9]}\x1b[0m{line[9:]}",
    "rsyslog colour": lambda line: f"#033[31m{line}#033[0m",
    "docker": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-09-03T06:08:58Z"}),
    "llama.cpp JSONL": lambda line: json.dumps({"type": "log", "level": "error", "msg": line + "\n"}),
    "windows": lambda line: f"{line}\r",
    "progress bar": lambda line: f"Loading:  10%|█         |\rLoading:  90%|█████████ |\r{line}",
}


@pytest.mark.parametrize("wrap", WRAPS)
def test_wrapped_lines_show_the_same(wrap: str, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    for path in LOGS:
        lines = path.read_text().splitlines()
        log.write_bytes("".join(WRAPS[wrap](line) + "\n" for line in lines).encode())
        plain, wrapped = symptoms.explain(str(path)), symptoms.explain(str(log))
        assert {(item.code, item.line_number, item.count, item.why) for item in wrapped.findings} == {
            (item.code, item.line_number, item.count, item.why) for item in plain.findings
        }, path.name


def test_utf16_and_gzip_are_read(tmp_path: Path) -> None:
    text = POOL.read_bytes().decode()  # with the carriage returns of its progress bars
    windows, packed, cut = tmp_path / "windows.log", tmp_path / "engine.log.1.gz", tmp_path / "cut.log.gz"
    windows.write_bytes(text.encode("utf-16"))
    packed.write_bytes(gzip.compress(text.encode()))
    cut.write_bytes(gzip.compress(text.encode(), 0)[:-2000])
    for log in (windows, packed, cut):
        assert found(log, "context_larger_than_pool").line_number == 73


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "engine.log.gz"
    log.write_bytes(b"\x1f\x8b" + b"\x00" * 40)
    with pytest.raises(BadInput, match="damaged packed file"):
        symptoms.explain(str(log))


def test_a_line_is_found_across_the_borders_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = symptoms.explain(str(POOL))
    for size in (64, 1000, 4097):
        monkeypatch.setattr(source, "BLOCK_BYTES", size)
        if size > 2000:  # below that, lines longer than a block come in pieces
            assert symptoms.explain(str(POOL)) == plain
        assert symptoms.explain(str(POOL)).lines == plain.lines or size < 2000


def test_one_endless_line_is_read_in_pieces(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    line = golden("free_memory_below_util.vllm").read_text().splitlines()[0]
    log.write_text("x" * 300_000 + line + "y" * 300_000)
    finding = found(log, "free_memory_below_util")
    assert len(finding.line) < 500
    assert "31.44/47.38" in finding.line


def test_control_characters_are_written_out(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("\x07\x9b2Jevil\u202e RuntimeError: No CUDA GPUs are available\x00\n")
    line = found(log, "gpu_not_seen").line
    assert line.isprintable()
    assert "\\x07" in line
    assert "\\u202e" in line


def test_source_lines_of_a_traceback_are_no_statement() -> None:
    finding = found(golden("no_memory_for_blocks.vllm"), "no_memory_for_blocks")
    assert finding.line_number == 4
    assert finding.count == 1


def test_consequences_are_left_out_when_the_cause_is_there(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    cause, end = golden("context_larger_than_pool.vllm"), golden("engine_died.vllm")
    log.write_text(cause.read_text() + end.read_text())
    assert [item.code for item in symptoms.explain(str(log)).findings] == ["context_larger_than_pool"]


def test_the_most_certain_and_cheapest_comes_first(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    names = ("fp8_scales_missing.vllm", "pool_full.vllm", "architecture_unknown.vllm", "flag_unknown.vllm")
    log.write_text("".join(golden(name).read_text() for name in names))
    codes = [item.code for item in symptoms.explain(str(log)).findings]
    # certain and a setting, certain and another release, likely, possible
    assert codes == ["flag_unknown", "architecture_unknown", "pool_full", "fp8_scales_missing"]


def test_kernels_that_compile_are_no_finding_once_the_server_is_ready(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(golden("kernels_compiling.vllm").read_text() + "INFO:     Application startup complete.\n")
    assert symptoms.explain(str(log)).findings == ()


NUMBER = re.compile(r"(?<!about )(?<![\d,.])\d+(?:,\d{3})*(?:\.\d+)?")  # what is estimated is called "about"


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_log_cut_anywhere_gives_no_number_that_is_not_there(path: Path, tmp_path: Path) -> None:
    """A cut number (34 of 34736) must not be read as one."""
    text = path.read_text()
    whole = symptoms.explain(str(path))
    told = [text, *(line for item in whole.findings for line in (item.why, *item.do))]
    counts = {str(number) for number in range(10)}
    log = tmp_path / "cut.log"
    for end in range(40, len(text), 11):
        log.write_text(text[:end])
        for item in symptoms.explain(str(log)).findings:
            page = symptoms.page(item.code)
            known = set(NUMBER.findall(" ".join((*told, page.cause, *page.do)))) | counts
            assert set(NUMBER.findall(" ".join((item.why, *item.do)))) <= known, text[:end][-200:]


def test_a_failure_that_a_later_start_got_over_comes_last(tmp_path: Path) -> None:
    """vLLM was started again with a shorter context; then its pool filled."""
    log = tmp_path / "engine.log"
    refused, good, full = POOL, GOLDEN / "vllm" / "logs" / "0.32.0_cpu_auto.log", golden("pool_full.vllm")
    log.write_bytes(refused.read_bytes() + good.read_bytes() + full.read_bytes())
    first, second = symptoms.explain(str(log)).findings
    assert (first.code, first.recovered_line) == ("pool_full", None)
    assert second.code == "context_larger_than_pool"
    assert second.recovered_line is not None
    served = log.read_bytes().decode().split("\n")[second.recovered_line - 1]
    assert "Application startup complete" in served


def test_a_cause_that_was_got_over_does_not_hide_how_the_last_start_ended(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    good, end = GOLDEN / "vllm" / "logs" / "0.32.0_cpu_auto.log", golden("engine_died.vllm")
    log.write_bytes(POOL.read_bytes() + good.read_bytes() + end.read_bytes())
    assert [item.code for item in symptoms.explain(str(log)).findings] == ["engine_died", "context_larger_than_pool"]


def test_memory_errors_are_told_apart_by_how_far_the_start_had_come(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    stages = {
        "out_of_memory": "",
        "out_of_memory_loading": "INFO 09-03 06:08:58 [gpu_model_runner.py:1] Starting to load model Qwen3-8B...\n",
        "out_of_memory_sizing": "INFO 09-03 06:09:58 [gpu_model_runner.py:1] Model loading took 15.27 GiB memory\n",
        "out_of_memory_serving": "INFO:     Application startup complete.\n",
    }
    before = ""
    for code, line in stages.items():
        before += line
        log.write_text(before + error)
        assert [item.code for item in symptoms.explain(str(log)).findings] == [code]


FRAGMENTS = [line.encode() for path in LOGS for line in path.read_text().splitlines()]


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
            st.tuples(st.sampled_from(FRAGMENTS), st.integers(0, 400), st.integers(0, 400), st.binary(max_size=6)).map(
                lambda case: case[0][case[1] :] + case[3] + case[0][: case[2]]
            ),
            st.sampled_from(FRAGMENTS).map(lambda line: bytes(b if not 48 <= b <= 57 else 57 for b in line)),
            st.sampled_from([b"\n", b"\r", b"\xff\xfe", b"\x1f\x8b", b'{"log":', b"{" * 500]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([b"\n", b"", b"\r\n", b"\x00"]),
)
def test_no_text_raises(tmp_path: Path, pieces: list[bytes], between: bytes) -> None:
    log = tmp_path / "any.log"
    log.write_bytes(between.join(pieces) or b"\n")
    with suppress(BadInput):  # what only looks packed, or holds nothing but the mark of UTF-16
        seen = symptoms.explain(str(log))
        for finding in seen.findings:
            assert finding.line.isprintable()
            assert finding.do
            assert 1 <= finding.line_number <= seen.lines


def run(*words: str, given_text: str | None = None) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "kvlab", "explain", *words]
    return subprocess.run(argv, capture_output=True, text=True, input=given_text, timeout=60)


def test_the_command_answers_with_the_promised_keys() -> None:
    done = run(str(POOL), "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr, document["schema"]) == (0, "", "kvlab/explain@1")
    (finding,) = document["findings"]
    assert {"code", "title", "line", "why", "do"} <= finding.keys()
    assert isinstance(finding["line"], str)
    assert isinstance(finding["do"], list)


def test_standard_input_and_nothing_found() -> None:
    done = run("-", given_text="INFO 08-19 14:58:40 [core.py:215] all is well\n")
    assert done.returncode == 0
    assert "no proof of health" in done.stdout
    empty = run("-", "--json", given_text="INFO 08-19 14:58:40 [core.py:215] all is well\n")
    assert json.loads(empty.stdout)["findings"] == []


def test_the_terminal_shows_line_why_and_steps() -> None:
    done = run(str(POOL))
    assert done.returncode == 0
    for text in ("context_larger_than_pool", "line 73:", "why:", "1. lower the longest context to 896 tokens"):
        assert text in done.stdout


def test_pages_and_the_list() -> None:
    page, listed = run("mamba_blocks"), run("--list", "--json")
    assert "Symptom:" in page.stdout
    assert "https://github.com/vllm-project/recipes/pull/831" in page.stdout
    codes = [rule["code"] for rule in json.loads(listed.stdout)["rules"]]
    assert codes == sorted(codes)
    assert len(codes) >= 40
    assert "port_in_use" in run("--list").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["port_in_us"], "did you mean port_in_use"),
        (["no/such/file.log"], "no log at"),
        (["http://localhost:8000"], "an address was given"),
        ([], "give the engine's log"),
        (["--list", str(POOL)], "--list takes no log"),
        ([str(POOL), "--engine", "vlm"], "did you mean vllm"),
        ([str(GOLDEN)], "is a folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(words: list[str], said: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "empty.log"
    log.write_text("")
    with pytest.raises(BadInput, match="is empty"):
        kvlab.explain(log)


def test_the_python_call_gives_the_same_value() -> None:
    assert kvlab.explain(POOL) == symptoms.explain(str(POOL))


def test_text_of_no_engine_is_called_that_first(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nAll is well.\n")
    done = run(str(tmp_path / "notes.md"))
    assert done.returncode == 0
    assert done.stdout.startswith("No line comes from an engine that kvlab knows")
    assert not run(str(POOL)).stdout.startswith("No line")


def test_a_document_of_kvlab_is_refused(tmp_path: Path) -> None:
    for text in ('{"schema":"kvlab/plan@1","engine":{"name":"vllm"}}', '{\n  "schema": "kvlab/check@1"\n}\n'):
        (tmp_path / "own.json").write_text(text)
        with pytest.raises(BadInput, match=r"is a document of kvlab \(kvlab/(plan|check)\)"):
            symptoms.explain(str(tmp_path / "own.json"))


def test_pipes_that_a_shell_gives_are_read_as_they_come() -> None:
    whole = json.loads(run(str(POOL), "--json").stdout)
    argv = [sys.executable, "-m", "kvlab", "explain", "/dev/stdin", "--json"]
    piped = subprocess.run(argv, capture_output=True, input=POOL.read_bytes(), timeout=60)
    assert json.loads(piped.stdout) == whole
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as file:
        file.write(POOL.read_bytes())
    argv = [sys.executable, "-m", "kvlab", "explain", f"/dev/fd/{reader}", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, pass_fds=[reader], timeout=60)
    os.close(reader)
    assert json.loads(done.stdout) == whole
