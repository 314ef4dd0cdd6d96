"""What `kvlab freeze` writes: complete, without names of machines, all of it or nothing."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import yaml

import kvlab
from kvlab import cli, lockfile, store
from kvlab.core.errors import BadInput
from kvlab.core.nameless import nameless
from kvlab.core.plan_lines import digest, lines
from kvlab.freezing import times_hash
from kvlab.lab import Lab
from kvlab.load.bench import Prepared
from kvlab.lockfile import Lock
from kvlab.refit import refit
from kvlab.settings import Settings
from kvlab.verifying import VerifySpec


@pytest.fixture
def frozen(lab: Path, tmp_path: Path) -> Lock:
    """Arm A of the recorded lab."""
    return kvlab.freeze(lab, tmp_path / "deploy").lock


def test_the_lock_holds_what_the_lab_measured(lab: Path, frozen: Lock, tmp_path: Path) -> None:
    record = json.loads((lab / "record.json").read_text())
    runs = [run for run in record["runs"] if run["arm"] == "a"]
    assert frozen.arm == "a"  # B was not better
    assert [run.block for run in frozen.runs] == [0, 3]
    by_name = {level.metric: level for level in frozen.results}
    measured = [run["metrics"]["output_throughput"] for run in runs]
    assert by_name["output_throughput"].value == pytest.approx(statistics.mean(measured))
    assert by_name["output_throughput"].noise == pytest.approx(max(measured) / min(measured) - 1)
    ttft = [row["ttft"] * 1000 for run in runs for row in run["rows"]]
    level = by_name["mean_ttft_ms"]
    assert level.value == pytest.approx(statistics.mean(ttft))
    assert level.low is not None
    assert level.high is not None
    assert level.low < level.value < level.high
    assert frozen.load is not None
    assert frozen.load.order == "a b b a"
    assert frozen.load.load.seed == 0
    assert frozen.quality is not None
    assert {len(one.texts) for one in frozen.quality.answers} == {2}
    assert len(frozen.quality.answers) == 48
    assert frozen.log is not None
    assert frozen.log.seen["n_ctx"] == 1024
    assert frozen.plan.lines["capacity tokens"] == 1024
    assert lockfile.read(tmp_path / "deploy") == frozen


def test_arm_b_has_one_set_of_answers(lab: Path, tmp_path: Path) -> None:
    lock = kvlab.freeze(lab, tmp_path / "deploy", arm="b").lock
    assert lock.ask.kv_dtype == "q8_0"
    assert lock.quality is not None
    assert {len(one.texts) for one in lock.quality.answers} == {1}


def test_no_path_host_or_key_is_kept(lab: Path, tmp_path: Path) -> None:
    for name in ("lab.json", "record.json"):
        text = (lab / name).read_text()
        secret = (
            '["embedded","true"],["chat-template-file","/home/me/templates/t.jinja"],["lora","http://cache-7:80/x"]'
        )
        (lab / name).write_text(text.replace('["embedded","true"]', secret))
    lock = kvlab.freeze(lab, tmp_path / "deploy").lock
    assert lock.left_out == ("chat-template-file", "lora")
    assert dict(lock.ask.engine_args)["chat-template-file"] == "t.jinja"
    for path in (tmp_path / "deploy").iterdir():
        text = path.read_text()
        for word in ("/models/tiny", "/home/me", "cache-7", os.uname().nodename, str(tmp_path)):
            assert word not in text, (path.name, word)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/home/me/models/gemma.gguf", "gemma.gguf"),
        ("~/models/a", "a"),
        ("org/name", "org/name"),
        ("fp8/bf16", "fp8/bf16"),
        ('{"model": "/data/x/y", "n": 1}', '{"model": "y", "n": 1}'),
        ("http://gpu-3.corp.example:8000/v1", "http://HOST:8000/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("lm://cache-1:65432", "lm://HOST:65432"),
    ],
)
def test_names_of_machines(text: str, kept: str) -> None:
    assert nameless(text) == kept


def test_the_script_runs_where_model_says(lab: Path, tmp_path: Path) -> None:
    kvlab.freeze(lab, tmp_path / "deploy")
    (tmp_path / "llama-server").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "llama-server").chmod(0o755)
    for env, model in ({"MODEL": "/m/x.gguf"}, "/m/x.gguf"), ({}, "gemma.gguf"):
        words = subprocess.run(
            [tmp_path / "deploy" / "launch.sh"],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **env},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\n")
        assert words[words.index("--model") + 1] == model
        assert words[words.index("--ctx-size") + 1] == "1024"


def test_a_plan_for_vllm_becomes_its_config_file(qwen: Path, tmp_path: Path) -> None:
    plan = kvlab.plan(qwen, gpu="h100-80gb", kv_dtype="fp8", context=8192)
    found = kvlab.freeze(output=tmp_path / "deploy", plan=plan)
    names = {os.path.basename(name) for name in found.files}
    assert names == {"vllm_config.yaml", "launch.sh", "MEASUREMENTS.md", "kvlab.lock"}
    config = yaml.safe_load((tmp_path / "deploy" / "vllm_config.yaml").read_text())
    assert config["kv-cache-dtype"] == "fp8"
    assert config["max-model-len"] == 8192
    assert found.lock.results == ()
    assert "Not measured" in (tmp_path / "deploy" / "MEASUREMENTS.md").read_text()
    assert found.lock.flags["--kv-cache-dtype"] == "fp8"


def test_measurements_begin_with_the_verdict_and_hold_intervals(lab: Path, tmp_path: Path) -> None:
    kvlab.freeze(lab, tmp_path / "deploy")
    page = (tmp_path / "deploy" / "MEASUREMENTS.md").read_text()
    assert page.splitlines()[2].startswith("**Inconclusive**")
    row = next(line for line in page.splitlines() if line.startswith("| mean TTFT, ms"))
    assert re.search(r"\| 994\.1 \| [\d.,]+ to [\d.,]+ \| 32 % \|", row)
    assert "kvlab verify kvlab.lock" in page


def test_lists_of_numbers_stand_on_one_line(lab: Path, tmp_path: Path) -> None:
    kvlab.freeze(lab, tmp_path / "deploy")
    text = (tmp_path / "deploy" / "kvlab.lock").read_text()
    assert sum(line.strip().startswith('"ttft": [') and line.rstrip().endswith("],") for line in text.split("\n")) == 2
    assert json.loads(text)["schema"] == "kvlab/lock@1"


def test_a_lock_is_replaced_by_force_alone(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deploy = tmp_path / "deploy"
    kvlab.freeze(lab, deploy)
    before = (deploy / "kvlab.lock").read_bytes()
    assert cli.main(["freeze", str(lab), "--arm", "b", "-o", str(deploy)]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "--cache-type-k f16 -> q8_0" in said
    assert (deploy / "kvlab.lock").read_bytes() == before
    assert cli.main(["freeze", str(lab), "--arm", "b", "-o", str(deploy), "--force", "--json"]) == 0
    changed = {one["name"]: (one["before"], one["after"]) for one in json.loads(capsys.readouterr().out)["changed"]}
    assert changed["plan cache dtype"] == ("f16", "q8_0")
    assert changed["plan cache bytes_per_token"] == (18432, 9792)
    assert "kvlab" not in changed


def test_what_cannot_be_frozen_is_one_line(lab: Path, tmp_path: Path) -> None:
    for words, said in (
        ({"lab": tmp_path}, "no lab"),
        ({}, "one of the two"),
        ({"lab": lab, "plan": "plan.json"}, "one of the two"),
        ({"plan": "plan.json", "arm": "a"}, "no arms"),
    ):
        with pytest.raises(BadInput, match=said):
            kvlab.freeze(output=tmp_path / "deploy", **words)
    (lab / "record.json").unlink()
    with pytest.raises(BadInput, match=r"not finished: \d of \d steps are done; kvlab ab --resume"):
        kvlab.freeze(lab, tmp_path / "deploy")
    assert not (tmp_path / "deploy").exists()


def test_a_failing_write_leaves_nothing(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = store.write_atomic

    def full(path: str | os.PathLike[str], content: bytes, *, private: bool = False) -> None:
        if os.fspath(path).endswith("kvlab.lock"):
            path = "/dev/full"
        real(path, content, private=private)

    monkeypatch.setattr(store, "write_atomic", full)
    with pytest.raises(BadInput, match="No space left"):
        kvlab.freeze(lab, tmp_path / "deploy")
    assert not (tmp_path / "deploy").exists()


def test_a_lock_of_a_newer_kvlab_is_refused_in_one_line(frozen: Lock, tmp_path: Path) -> None:
    path = tmp_path / "deploy" / "kvlab.lock"
    path.write_text(path.read_text().replace("kvlab/lock@1", "kvlab/lock@2"))
    with pytest.raises(BadInput, match=r"written by a newer kvlab \(its schema is kvlab/lock@2, this one reads @1\)"):
        lockfile.read(path)


def test_a_lock_that_was_cut_is_refused_in_one_line(frozen: Lock, tmp_path: Path) -> None:
    assert frozen.quality is not None
    run = msgspec.structs.replace(frozen.runs[0], ttft=frozen.runs[0].ttft[:-1])
    for cut in (
        msgspec.structs.replace(frozen, runs=(run,)),
        msgspec.structs.replace(frozen, quality=msgspec.structs.replace(frozen.quality, answers=())),
    ):
        (tmp_path / "x.lock").write_bytes(lockfile.encode(cut))
        with pytest.raises(BadInput, match=r"x.lock is damaged: .*; take it from version control"):
            lockfile.read(tmp_path / "x.lock")


def test_the_folder_of_a_verify_is_no_lab_to_freeze(lab: Path, tmp_path: Path) -> None:
    spec = VerifySpec(lock="kvlab.lock", lock_sha256="0", runs=1)
    (lab / "lab.json").write_bytes(store.encode(spec))
    with pytest.raises(BadInput, match=r"holds no experiment of kvlab ab \(kvlab/verify-lab\)"):
        kvlab.freeze(lab, tmp_path / "deploy")


def test_a_lock_with_more_fields_is_read(frozen: Lock, tmp_path: Path) -> None:
    document = msgspec.to_builtins(frozen) | {"later": 1}
    (tmp_path / "x.lock").write_text(json.dumps(document))
    assert lockfile.read(tmp_path / "x.lock") == frozen


def test_every_engine_has_a_command_to_freeze(write_qwen: Callable[..., Path], tmp_path: Path) -> None:
    config = write_qwen()
    for engine in ("vllm", "sglang", "lmdeploy", "tensorrt-llm"):
        plan = kvlab.plan(config, engine=engine, gpu="h100-80gb", context=4096)
        found = kvlab.freeze(output=tmp_path / engine, plan=plan)
        assert (tmp_path / engine / "launch.sh").stat().st_mode & 0o111
        assert found.lock.engine.name == plan.engine.name
        again = refit(found.lock, tmp_path / engine, source=str(config), prompts=None, engine_args=())
        assert digest(lines(again.plan)) == found.lock.plan.digest


def test_the_times_of_a_trace_are_frozen_where_the_load_follows_them(lab: Path) -> None:
    ready, settings = Lab(lab).load("prompts.json", Prepared), Lab(lab).load("lab.json", Settings)
    timed = msgspec.structs.replace(ready, arrivals=tuple(float(at) for at in range(len(ready.prompts))))
    later = msgspec.structs.replace(timed, arrivals=tuple(2.0 * at for at in range(len(ready.prompts))))
    own = msgspec.structs.replace(settings.load, concurrency=None, rate=None)
    assert times_hash(timed, settings.load) is None
    assert times_hash(ready, own) is None
    assert times_hash(timed, own) == times_hash(timed, own) != times_hash(later, own)
    Lab(lab).save("prompts.json", timed)
    Lab(lab).save("lab.json", msgspec.structs.replace(settings, load=own))
    lock = kvlab.freeze(lab, lab.parent / "frozen").lock
    assert lock.load is not None
    assert lock.load.times_sha256 == times_hash(timed, own)
