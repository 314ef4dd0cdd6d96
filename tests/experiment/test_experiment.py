"""A B B A on the real engine in a lab: what it leaves, what a second run does again, and who may use it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from kvlab import api
from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.core.record import Load, Record
from kvlab.lab import Lab
from kvlab.load.datasets import RandomTokens
from kvlab.settings import Settings, Step

pytestmark = pytest.mark.e2e
PROMPTS = 6
SMALL = Load(dataset="random", prompts=PROMPTS, input_tokens=16, output_tokens=4, concurrency=2, rate=None, seed=3)


def settings(model: Path, **changes: object) -> Settings:
    arm = Ask(engine="llamacpp", context=1024, parallel=2, engine_args=(("embedded", "true"), ("cache-ram", "0")))
    base = Settings(
        title="test",
        source=str(model),
        a=msgspec.structs.replace(arm, kv_dtype="f16"),
        b=msgspec.structs.replace(arm, kv_dtype="q4_0"),
        load=SMALL,
        dataset=RandomTokens(input_tokens=16, output_tokens=4),
        warm_up=1,
        quality_tokens=None,
        prefix_rounds=None,
    )
    return msgspec.structs.replace(base, **changes)


@pytest.fixture(scope="module")
def lab(gemma: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record, list[Step]]:
    """A finished experiment: its folder, its record, and the steps that it reported."""
    folder = tmp_path_factory.mktemp("labs") / "lab"
    steps: list[Step] = []
    record = api.ab(settings(gemma), folder, command=("kvlab", "ab"), on_step=steps.append)
    return folder, record, steps


def test_the_order_is_counterbalanced_and_every_request_is_kept(lab: tuple[Path, Record, list[Step]]) -> None:
    folder, record, _ = lab
    assert [run.arm for run in record.runs] == ["a", "b", "b", "a"]
    for run in record.runs:
        assert run.completed == PROMPTS
        rows = [json.loads(line) for line in (folder / run.folder / "result.requests.jsonl").read_text().splitlines()]
        assert [row["prompt_tokens"] for row in rows] == [16] * PROMPTS
        assert [row["output_tokens"] for row in rows] == [4] * PROMPTS
        result = json.loads((folder / run.folder / "result.json").read_text())
        assert result["completed"] == PROMPTS
        assert result["total_input_tokens"] == 16 * PROMPTS


def test_both_arms_get_the_same_prompts(lab: tuple[Path, Record, list[Step]]) -> None:
    folder, record, _ = lab
    hashes = {
        json.loads((folder / run.folder / "result.json").read_text())["kvlab"]["prompts_sha256"] for run in record.runs
    }
    assert len(hashes) == 1


def test_the_plans_agree_with_the_logs(lab: tuple[Path, Record, list[Step]]) -> None:
    _, record, _ = lab
    assert record.ab is not None
    for arm in record.ab.arms.values():
        assert arm.check is not None
        assert {row.verdict for row in arm.check.rows} == {"agrees"}


def test_what_an_ab_promises(lab: tuple[Path, Record, list[Step]]) -> None:
    folder, record, steps = lab
    document = json.loads((folder / "ab.json").read_text())
    assert document["schema"] == "kvlab/ab@1"
    assert document.keys() >= {"arms", "performance", "quality", "prefix", "pool", "verdict"}
    assert document["pool"].keys() == {"a_peak_usage", "b_peak_usage", "filled"}
    assert document["verdict"]["code"] in ("better", "worse", "no_difference_seen", "inconclusive")
    assert document["verdict"]["because"]
    assert msgspec.json.decode((folder / "record.json").read_bytes(), type=Record) == record
    assert (folder / "report.html").stat().st_size > 50_000
    assert len(list((folder / "charts").glob("*.png"))) >= 5
    assert steps[-1].text == "judging"


def test_a_finished_step_is_not_done_again(gemma: Path, lab: tuple[Path, Record, list[Step]]) -> None:
    folder, record, _ = lab
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/run.json")}
    lost = folder / "runs" / "3-b" / "run.json"
    lost.unlink()
    steps: list[Step] = []
    again = api.ab(settings(gemma), folder, on_step=steps.append)
    done = {path for path in folder.glob("runs/*/run.json") if path.stat().st_mtime_ns != kept.get(path)}
    assert done == {lost}
    assert again.runs[:2] == record.runs[:2]
    assert {step.text.split(":")[0] for step in steps} == {"arm B, run 3 of 4", "judging"}


def test_quality_and_prefix_are_steps_too(gemma: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join(f"The number after {n} is" for n in range(6)))
    arms = [msgspec.structs.replace(arm, context=2048) for arm in (settings(gemma).a, settings(gemma).b)]
    whole = settings(gemma, a=arms[0], b=arms[1], quality_tokens=4, quality_prompts=str(prompts), prefix_rounds=2)
    record = api.ab(whole, tmp_path / "lab")
    assert record.ab is not None
    quality, prefix = record.ab.quality, record.ab.prefix
    assert quality is not None
    assert prefix is not None
    assert quality.noise_floor is not None
    assert quality.candidate is not None
    # one request at a time on a restarted engine: the same configuration says the same
    assert quality.noise_floor.identical.value == 1.0
    assert quality.candidate.prompts == 6
    assert prefix.cold_ttft.value > prefix.warm_ttft.value
    assert prefix.cached_share is not None
    assert prefix.cached_share > 0.9
    page = (tmp_path / "lab" / "report.html").read_text()
    assert "The number after" in page or quality.candidate.identical.value == 1.0


def test_a_quality_gate_without_a_load(gemma: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join(f"The number after {n} is" for n in range(6)))
    options = settings(gemma)
    plans = [api.plan_ask(gemma, options.a), api.plan_ask(gemma, options.b)]
    found = api.quality(*plans, prompts=prompts, max_tokens=4, parts=("agreement",))
    assert found.noise_floor is not None
    assert found.candidate is not None
    assert found.noise_floor.identical.value == 1.0
    assert found.candidate.failed == 0


def test_other_settings_are_refused(gemma: Path, lab: tuple[Path, Record, list[Step]]) -> None:
    folder, _, _ = lab
    with pytest.raises(BadInput, match="other settings"):
        api.ab(settings(gemma, warm_up=2), folder)


def test_two_at_once_are_refused(gemma: Path, lab: tuple[Path, Record, list[Step]]) -> None:
    folder, _, _ = lab
    with Lab(folder).claimed(settings(gemma)), pytest.raises(BadInput, match="another kvlab"):
        api.ab(settings(gemma), folder)


def test_the_same_configuration_twice_is_refused(gemma: Path, tmp_path: Path) -> None:
    same = settings(gemma)
    with pytest.raises(BadInput, match="same configuration"):
        api.ab(msgspec.structs.replace(same, b=same.a), tmp_path / "lab")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_it_leaves_nothing_running_and_goes_on(gemma: Path, tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "lab"
    words = [sys.executable, "-m", "kvlab", "ab", str(gemma), "--engine", "llamacpp", "--context", "1024"]
    words += ["--parallel", "2", "--b", "kv-dtype=q8_0", "--engine-arg", "embedded=true", "--no-quality", "--no-prefix"]
    words += ["--num-prompts", "6", "--input-tokens", "16", "--output-tokens", "4", "--lab", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        deadline = time.monotonic() + 200
        while not (folder / "runs" / "2-b" / "engine.log").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        below = psutil.Process(first.pid).children(recursive=True)
        first.send_signal(number)
        _, said = first.communicate(timeout=120)
    _, alive = psutil.wait_procs(below, timeout=20)
    assert alive == []
    if number != signal.SIGKILL:
        assert first.returncode == 130
        last = said.splitlines()[-1]
        assert last.startswith(
            "kvlab: interrupted; everything that was started has been stopped; the same command takes"
        )
    before = (folder / "runs" / "1-a" / "run.json").stat().st_mtime_ns
    second = subprocess.run([*words, "--json"], capture_output=True, text=True, timeout=400)
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["schema"] == "kvlab/ab@1"
    assert (folder / "runs" / "1-a" / "run.json").stat().st_mtime_ns == before
