"""What a start teaches the next plan, on logs written as vLLM writes them (tests/golden/vllm/lines.jsonl)."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import api
from kvlab.cli import main
from kvlab.core.calibration import Calibration, Start
from kvlab.core.errors import BadInput
from kvlab.core.plan import LedgerLine, Plan
from kvlab.core.taken import Taken
from kvlab.core.units import GIB
from kvlab.overhead import _calibrated

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"
QWEN, LLAMA = CONFIGS / "Qwen__Qwen3-8B.json", CONFIGS / "meta-llama__Llama-3.1-8B.json"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calibration file of this test."""
    path = tmp_path / "state" / "kvlab" / "calibration.json"
    monkeypatch.delenv("KVLAB_CALIBRATION", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return path


def log(folder: Path, pool: float, weights: float | None = 15.3, version: str = "0.32.0") -> Path:
    """A start-up log with the lines that state weights and pool."""
    lines = [f"INFO 11-30 10:00:00 [core.py:100] Initializing a V1 LLM engine (v{version}) with config: model='m'"]
    if weights is not None:
        lines.append(
            f"INFO 11-30 10:00:10 [gpu_model_runner.py:1] Model loading took {weights} GiB memory and 3.1 seconds"
        )
    lines.append(f"INFO 11-30 10:00:20 [gpu_worker.py:1] Available KV cache memory: {pool} GiB")
    path = folder / "engine.log"
    path.write_text("\n".join(lines))
    return path


def planned(source: Path = QWEN, **options: object) -> Plan:
    return api.plan(source, **{"gpu": "h100-80gb", **options})  # type: ignore[arg-type]


def line(plan: Plan, name: str) -> LedgerLine:
    return next(line for line in plan.ledger if line.name == name)


def test_the_next_plan_is_what_the_start_was(tmp_path: Path, kept: Path) -> None:
    first = planned()
    found = api.check(log(tmp_path, 53.9), plan=first, learn=True)
    assert found.learned is not None
    # 79.11 x 0.92 - 15.3 - 53.9 = 3.58 GiB
    assert found.learned.overhead_bytes / GIB == pytest.approx(79.11 * 0.92 - 15.3 - 53.9, abs=0.01)
    again = planned()
    assert again.ledger[-1].bytes / GIB == pytest.approx(53.9, abs=0.01)
    assert line(again, "weights").kind == line(again, "calibration").kind == "measured"
    assert line(again, "weights").bytes / GIB == pytest.approx(-15.3)
    assert "1 start of this setting" in line(again, "calibration").because
    assert sum(row.bytes for row in again.ledger[:-1]) == again.ledger[-1].bytes
    narrow, wide = (plan.ledger[-1].high - plan.ledger[-1].low for plan in (again, first))
    assert narrow < wide / 5
    assert json.loads(kept.read_text())["schema"] == "kvlab/calibration@1"


def test_other_gpus_releases_and_pools_are_left_alone(tmp_path: Path) -> None:
    asks: list[dict[str, object]] = [
        {"gpu": "h200-141gb"},
        {"engine_version": "0.31.0"},
        {"calibration": False},
        {"overhead_gib": 2.0, "weights_gib": 15.3},
        {"gpu": None, "gpu_gib": 79.11},
    ]
    before = [planned(QWEN, **ask).ledger for ask in asks]
    api.check(log(tmp_path, 50.0), plan=planned(), learn=True)
    assert [planned(QWEN, **ask).ledger for ask in asks] == before
    assert planned(gpu=None, pool_gib=4).ledger == planned(gpu=None, pool_gib=4, calibration=False).ledger
    assert planned().ledger != planned(calibration=False).ledger


def test_an_alias_of_the_gpu_is_the_same_gpu(tmp_path: Path) -> None:
    api.check(log(tmp_path, 50.0), plan=planned(gpu="H100_80GB"), learn=True)
    assert planned().ledger[-1].bytes / GIB == pytest.approx(50.0, abs=0.01)


def test_another_model_is_corrected_with_a_wider_range(tmp_path: Path) -> None:
    alone = planned(LLAMA).ledger[-1]
    api.check(log(tmp_path, 53.4), plan=planned(), learn=True)
    again = planned(LLAMA)
    more = line(again, "calibration")
    assert "1 start of other settings" in more.because
    assert again.ledger[-1].bytes == alone.bytes + more.bytes
    assert line(again, "weights").kind == "estimated"  # no start loaded this model
    own = line(planned(), "calibration")
    assert own.high - own.low < more.high - more.low


def test_several_starts_count_and_span_the_range(tmp_path: Path, kept: Path) -> None:
    plan = planned()
    for pool in (53.9, 53.7, 53.8, 53.8):  # the last log was read before
        api.check(log(tmp_path, pool), plan=plan, learn=True)
    again = planned()
    assert "3 starts" in line(again, "calibration").because
    assert again.ledger[-1].bytes / GIB == pytest.approx(53.8, abs=0.01)
    assert again.ledger[-1].low / GIB < 53.7 < 53.9 < again.ledger[-1].high / GIB
    assert len(json.loads(kept.read_text())["starts"]) == 3


def test_a_plan_that_was_calibrated_teaches_the_same(tmp_path: Path) -> None:
    api.check(log(tmp_path, 53.9), plan=planned(), learn=True)
    found = api.check(log(tmp_path, 53.9), plan=planned(), learn=True)
    assert found.learned is not None
    assert found.learned.estimated_overhead_bytes == -sum(
        row.bytes
        for row in planned(calibration=False).ledger
        if row.name in ("non_torch", "activations", "cuda_graphs")
    )
    assert "1 start " in line(planned(), "calibration").because


def test_a_log_without_weights_takes_the_planned_ones(tmp_path: Path) -> None:
    found = api.check(log(tmp_path, 53.9, weights=None), plan=planned(), learn=True)
    assert found.learned is not None
    assert found.learned.weights_bytes is None
    assert planned().ledger[-1].bytes / GIB == pytest.approx(53.9, abs=0.01)


@pytest.mark.parametrize(
    ("options", "pool", "words"),
    [
        ({"pool_gib": 4.0}, 4.0, "no budget"),
        ({"overhead_gib": 2.0}, 50.0, "--overhead-gib"),
        ({}, 100.0, "do not fit"),
        ({}, 1.0, "no line accounts for them"),
        ({}, 46.0, None),
    ],
)
def test_what_teaches_nothing_is_one_line(
    tmp_path: Path, kept: Path, options: dict[str, object], pool: float, words: str | None
) -> None:
    plan = planned(QWEN, **options)
    if words is None:
        assert api.check(log(tmp_path, pool), plan=plan, learn=True).learned
        return
    with pytest.raises(BadInput, match=words):
        api.check(log(tmp_path, pool), plan=plan, learn=True)
    assert not kept.exists()


def test_a_given_pool_teaches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_text(
        "INFO 11-30 10:00:20 [gpu_worker.py:1] Initial free memory 78.1 GiB, reserved 4.0 GiB memory for KV Cache as"
        " specified by kv_cache_memory_bytes config and skipped memory profiling."
    )
    with pytest.raises(BadInput, match="was given to the engine"):
        api.check(path, plan=planned(), learn=True)
    path.write_text("INFO 11-30 10:00:20 [kv_cache_utils.py:1] GPU KV cache size: 1,024 tokens")
    with pytest.raises(BadInput, match="states no memory for the cache"):
        api.check(path, plan=planned(), learn=True)


@pytest.mark.parametrize(
    ("engine", "text", "unit"),
    [
        ("tensorrt-llm", "available KV cache memory when calculating max tokens: {:.2f} GiB", GIB),
        ("lmdeploy", "Object cache budget: {:.2f} MB", 1 << 20),
    ],
)
def test_a_share_of_what_is_free_is_taken_back_first(tmp_path: Path, engine: str, text: str, unit: int) -> None:
    plan = planned(engine=engine)
    pool = line(plan, "pool").bytes
    path = tmp_path / "engine.log"
    path.write_text("[TensorRT-LLM][INFO] " * (engine == "tensorrt-llm") + text.format(pool / unit))
    found = api.check(path, plan=plan, engine=engine, learn=True).learned
    assert found is not None
    # What the plan estimated is what the log says, to its printed digits.
    assert found.overhead_bytes == pytest.approx(found.estimated_overhead_bytes, abs=0.02 * GIB)
    assert line(planned(engine=engine), "pool").bytes == pytest.approx(pool, abs=0.02 * GIB)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "kvlab/calibration@2"}', '{"starts": [{"engine": 1}]}'])
def test_a_broken_file_is_one_line_and_can_be_left_out(
    kept: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.parent.mkdir(parents=True)
    kept.write_text(content)
    assert main(["plan", str(QWEN), "--gpu", "h100-80gb"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(kept) in said
    assert "--no-calibration" in said
    assert main(["plan", str(QWEN), "--gpu", "h100-80gb", "--no-calibration"]) == 0
    assert main(["plan", str(QWEN)]) == 0  # no GPU: nothing to calibrate


def test_learning_by_the_command_line_names_the_file(
    tmp_path: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    assert main(["plan", str(QWEN), "--gpu", "h100-80gb", "--json", "-o", str(file)]) == 0
    capsys.readouterr()
    assert main(["check", str(log(tmp_path, 53.9)), "--plan", str(file), "--learn", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["learned"]["gpu"] == "h100-80gb"
    assert f"kept in {kept}" in said.err
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o666 & ~_umask()
    assert [entry.name for entry in kept.parent.iterdir()] == ["calibration.json"]
    assert main(["check", str(tmp_path / "engine.log"), "--learn"]) == 2
    assert "--plan" in capsys.readouterr().err


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def test_the_file_may_be_elsewhere(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "team" / "starts.json"
    monkeypatch.setenv("KVLAB_CALIBRATION", str(other))
    api.check(log(tmp_path, 53.9), plan=planned(), learn=True)
    assert other.exists()
    assert not kept.exists()


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAB_CALIBRATION", str(tmp_path / "starts.json" / "inside.json"))
    (tmp_path / "starts.json").write_text("")
    with pytest.raises(BadInput, match="cannot make the folder of"):
        api.check(log(tmp_path, 53.8), plan=planned(), learn=True)


def test_starts_that_are_learned_at_once_are_all_kept(tmp_path: Path, kept: Path) -> None:
    plan, logs = planned(), []
    for at in range(8):
        (tmp_path / str(at)).mkdir()
        logs.append(log(tmp_path / str(at), 53.0 + at / 10))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: api.check(path, plan=plan, learn=True), logs))
    assert len(json.loads(kept.read_text())["starts"]) == 8


@pytest.mark.parametrize(
    ("name", "value"),
    [("overhead_bytes", -(10**15)), ("overhead_bytes", 10**30), ("estimated_overhead_bytes", -5), ("tp", 0)],
)
def test_numbers_that_no_start_has_are_refused(tmp_path: Path, kept: Path, name: str, value: int) -> None:
    api.check(log(tmp_path, 53.9), plan=planned(), learn=True)
    document = json.loads(kept.read_text())
    document["starts"][0][name] = value
    kept.write_text(json.dumps(document))
    with pytest.raises(BadInput, match=rf"{name}.*--no-calibration"):
        planned()


STARTS = st.builds(
    Start,
    engine=st.just("vllm"),
    version=st.just("0.32.0"),
    gpu=st.just("g"),
    model=st.just("m"),
    pool_bytes=st.integers(0, 1 << 40),
    weights_bytes=st.none() | st.integers(0, 1 << 40),
    overhead_bytes=st.integers(-(1 << 30), 1 << 36),
    estimated_overhead_bytes=st.integers(0, 1 << 36),
    machine=st.just("here"),
    learned=st.just("2026-01-01T00:00:00+00:00"),
)


@given(starts=st.lists(STARTS, min_size=1, max_size=6).map(tuple), guess=st.integers(0, 1 << 36), alike=st.booleans())
def test_a_calibrated_range_holds_every_start(starts: tuple[Start, ...], guess: int, alike: bool) -> None:
    term = Taken(name="activations", low=0, bytes=guess, high=2 * guess, kind="estimated", because="a guess")
    *terms, more = _calibrated((term,), starts, list(starts) if alike else [])
    assert [one.bytes for one in terms] == [guess]
    assert more.low <= more.bytes <= more.high
    seen = [start.overhead_bytes - start.estimated_overhead_bytes for start in starts]
    assert more.low <= min(seen) <= max(seen) <= more.high


def test_only_the_same_engine_release_and_gpu_count() -> None:
    start = Start(
        engine="vllm",
        version="0.32.0",
        gpu="h100-80gb",
        model="m",
        pool_bytes=1,
        overhead_bytes=1,
        estimated_overhead_bytes=1,
        machine="here",
        learned="2026-01-01T00:00:00+00:00",
    )
    kept = Calibration(starts=(start,))
    assert kept.of("vllm", "0.32.0", "h100-80gb") == (start,)
    assert kept.of("vllm", "0.32.0", "h200-141gb") == kept.of("sglang", "0.32.0", "h100-80gb") == ()
