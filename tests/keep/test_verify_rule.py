"""The rule of `kvlab verify`: planted changes are called, noise is not, and a lock finds what it needs again."""

from __future__ import annotations

import json
import random
from pathlib import Path

import msgspec
import pytest
import yaml

import kvlab
from kvlab import cli
from kvlab.answers import Answer
from kvlab.core.errors import BadInput
from kvlab.core.measure import PoolUse
from kvlab.core.performance import compare_runs
from kvlab.core.plan_lines import differences, digest, lines
from kvlab.core.record import Run, RunRow
from kvlab.core.regression import Evidence, judge
from kvlab.freezing import sent_hash
from kvlab.lab import Lab
from kvlab.load.bench import Prepared
from kvlab.load.datasets import PromptsFile, read_prompts
from kvlab.lockfile import Lock
from kvlab.refit import refit
from kvlab.repeating import agreeing

DOCS = Path(__file__).parents[2] / "docs"
PROMPTS = 40


def run(block: int, arm: str, slower: float, seed: int, failed: int = 0) -> Run:
    """A run whose requests cost what their prompt costs, times `slower`, with 1 % of noise."""
    noise, cost = random.Random(seed), random.Random(0)
    rows = []
    for at in range(PROMPTS):
        ttft = (0.05 + 0.02 * cost.random()) * slower * noise.gauss(1, 0.01)
        tpot = 0.01 * slower * noise.gauss(1, 0.01)
        error = "HTTP 500" if at < failed else None
        rows.append(
            RunRow(
                scheduled=at * 0.1,
                ttft=None if error else ttft,
                tpot=None if error else tpot,
                e2e=None if error else ttft + 31 * tpot,
                prompt_tokens=100,
                output_tokens=32,
                error=error,
            )
        )
    return Run(
        block=block,
        arm="a" if arm == "a" else "b",
        folder="",
        metrics={"output_throughput": 100 / slower * noise.gauss(1, 0.01)},
        completed=PROMPTS - failed,
        failed=failed,
        rows=tuple(rows),
        samples=(),
        pool=PoolUse(),
    )


def verdict(slower: float, *, failed: int = 0, contradicted: tuple[str, ...] = (), same: bool = True) -> str:
    frozen = [run(0, "a", 1.0, 1), run(3, "a", 1.0, 2)]
    new = [run(4, "b", slower, 3, failed), run(5, "b", slower, 4, failed)]
    rows = compare_runs((*frozen, *new), seed=0)
    found = judge(Evidence(rows, frozen, new, contradicted, None, same))
    assert found.because
    return found.code


def test_a_planted_slow_down_is_a_regression_and_noise_is_none() -> None:
    assert verdict(1.3) == "regression"
    assert verdict(1.0) == "no_regression"
    assert verdict(0.7) == "no_regression"


def test_failures_contradictions_and_other_prompts() -> None:
    assert verdict(1.0, failed=12) == "regression"
    assert verdict(1.0, contradicted=("kv_tokens",)) == "regression"
    assert verdict(1.0, same=False) == "inconclusive"
    assert verdict(1.3, same=False) == "regression"


def test_nothing_measured_is_no_regression_unless_the_log_contradicts() -> None:
    assert judge(Evidence((), (), (), (), None, None)).code == "no_regression"
    assert judge(Evidence((), (), (), ("kv_tokens",), None, None)).code == "regression"


def test_a_changed_plan_is_said_line_by_line(qwen: Path) -> None:
    one = kvlab.plan(qwen, pool_gib=10, context=8192)
    other = kvlab.plan(qwen, pool_gib=9, context=8192)
    changed = {found.name: (found.before, found.after) for found in differences(lines(one), lines(other))}
    assert changed["capacity pool_bytes"] == (10 << 30, 9 << 30)
    assert "cache bytes_per_token" not in changed
    assert digest(lines(one)) != digest(lines(other))
    assert digest(lines(one)) == digest(lines(kvlab.plan(qwen, pool_gib=10, context=8192)))


@pytest.fixture
def lock(lab: Path, tmp_path: Path) -> Lock:
    return kvlab.freeze(lab, tmp_path / "deploy").lock


def test_a_model_that_is_not_here_is_asked_for(lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"give --source PATH/gemma\.gguf"):
        refit(lock, tmp_path / "deploy", source=None, prompts=None, engine_args=())


def test_a_setting_that_lost_its_path_is_asked_for(lock: Lock, gemma: Path, tmp_path: Path) -> None:
    arguments = (*lock.ask.engine_args, ("chat-template-file", "t.jinja"))
    lost = msgspec.structs.replace(
        lock, ask=msgspec.structs.replace(lock.ask, engine_args=arguments), left_out=("chat-template-file",)
    )
    deploy = tmp_path / "deploy"
    with pytest.raises(BadInput, match="give --engine-arg chat-template-file=VALUE"):
        refit(lost, deploy, source=str(gemma), prompts=None, engine_args=())
    given = refit(lost, deploy, source=str(gemma), prompts=None, engine_args=(("chat-template-file", "/x"),))
    assert given.plan.ask.arg("chat-template-file") == "/x"
    (deploy / "t.jinja").write_text("")
    found = refit(lost, deploy, source=str(gemma), prompts=None, engine_args=())
    assert found.plan.ask.arg("chat-template-file") == str(deploy / "t.jinja")
    assert digest(lines(found.plan)) == lock.plan.digest


def test_the_workflow_is_yaml_that_runs_verify() -> None:
    document = yaml.safe_load((DOCS / "examples" / "verify.yml").read_text())
    steps = document["jobs"]["verify"]["steps"]
    assert any("kvlab verify" in step.get("run", "") for step in steps)
    assert document[True]["schedule"]  # YAML 1.1 reads the key "on" as true
    assert "examples/verify.yml" in (DOCS / "verify.md").read_text()


def test_answers_are_judged_by_how_far_the_configuration_agrees_with_itself(lab: Path, tmp_path: Path) -> None:
    frozen = {arm: kvlab.freeze(lab, tmp_path / arm, arm=arm).lock.quality for arm in ("a", "b")}
    a, b = frozen["a"], frozen["b"]
    assert a is not None
    assert b is not None
    sets = {
        name: tuple(
            Answer(prompt_id=one.id, kind=one.kind, prompt=one.prompt, text=one.texts[0]) for one in quality.answers
        )
        for name, quality in (("a", a), ("b", b))
    }
    # A's two frozen sets are the floor: its own answers hold, B's (which the lab found to part from A's) do not
    assert agreeing(a, (sets["a"],), 0).verdict == "within the noise floor"
    assert agreeing(a, (sets["b"],), 0).verdict == "below the noise floor"
    # of B there is one set: two new ones are the floor
    assert agreeing(b, (sets["b"], sets["b"]), 0).verdict == "within the noise floor"
    assert agreeing(b, (sets["a"], sets["a"]), 0).verdict == "below the noise floor"


def test_the_lock_is_not_overwritten_by_its_verify(lock: Lock, tmp_path: Path) -> None:
    path = str(tmp_path / "deploy" / "kvlab.lock")
    before = Path(path).read_bytes()
    assert cli.main(["verify", path, "-o", path]) == 2
    assert Path(path).read_bytes() == before


def test_the_file_of_prompts_must_be_the_frozen_one(lab: Path, gemma: Path, tmp_path: Path) -> None:
    """Of a lab whose load came from a file: its name is kept, its hash is compared before anything starts."""
    prompts = tmp_path / "away" / "prompts.txt"
    prompts.parent.mkdir()
    prompts.write_text("\n".join(f"The number after {n} is" for n in range(8)))
    text = (lab / "lab.json").read_text()
    given = json.dumps({"name": "prompts", "path": str(prompts), "output_tokens": 8})
    (lab / "lab.json").write_text(
        text.replace('{"name":"random","input_tokens":16,"output_tokens":8}', given.replace('", "', '","'))
    )
    ready = Lab(lab).load("prompts.json", Prepared)
    Lab(lab).save("prompts.json", msgspec.structs.replace(ready, prompts=read_prompts(prompts, 8, "completions")))
    lock = kvlab.freeze(lab, tmp_path / "deploy").lock
    assert str(prompts.parent) not in (tmp_path / "deploy" / "kvlab.lock").read_text()
    deploy = tmp_path / "deploy"
    with pytest.raises(BadInput, match=r"give --prompts PATH/prompts\.txt"):
        refit(lock, deploy, source=str(gemma), prompts=None, engine_args=())
    found = refit(lock, deploy, source=str(gemma), prompts=str(prompts), engine_args=())
    assert found.dataset == PromptsFile(path=str(prompts), output_tokens=8)
    prompts.write_text(prompts.read_text().replace("number", "letter"))
    with pytest.raises(BadInput, match="does not hold the prompts that were frozen"):
        refit(lock, deploy, source=str(gemma), prompts=str(prompts), engine_args=())


def test_chat_messages_of_a_file_are_found_again(lab: Path, gemma: Path, tmp_path: Path) -> None:
    prompts, deploy = tmp_path / "talks.jsonl", tmp_path / "deploy"
    prompts.write_text("".join(f'{{"messages": [{{"role": "user", "content": "Say {n}"}}]}}\n' for n in range(8)))
    lock = kvlab.freeze(lab, deploy).lock
    assert lock.load is not None
    load = msgspec.structs.replace(
        lock.load,
        load=msgspec.structs.replace(lock.load.load, endpoint="chat"),
        dataset=PromptsFile(path="talks.jsonl", output_tokens=8),
        prompts_sha256=sent_hash(read_prompts(prompts, 8, "chat")[: lock.load.load.prompts]),
    )
    again = msgspec.structs.replace(lock, load=load)
    found = refit(again, deploy, source=str(gemma), prompts=str(prompts), engine_args=())
    assert found.dataset == PromptsFile(path=str(prompts), output_tokens=8)
