"""lm-evaluation-harness: its recorded files, the words it is started with, how its runs are judged and ended."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from kvlab import gate, gates
from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.gate import GateAsk, GateOptions, GateRule, PartFinding
from kvlab.core.harness import HarnessRun
from kvlab.harness import command, results

GOLDEN = Path(__file__).parents[1] / "golden" / "lm_eval"
TARGET = command.Target("http://127.0.0.1:8000/v1", "qwen/qwen3", 4096, 0.0, False)


@pytest.fixture(scope="module")
def recorded() -> HarnessRun:
    return results.read(GOLDEN / "recorded")


def test_the_recorded_results_are_what_its_table_says(recorded: HarnessRun) -> None:
    """exact_match 0.8333 +- 0.0777 of 24 (SOURCE.md)."""
    (score,) = recorded.scores
    assert (score.task, score.metric, score.filter) == ("kvlab_capitals", "exact_match", "first-line")
    assert (round(score.value, 4), score.stderr and round(score.stderr, 4)) == (0.8333, 0.0777)
    assert (score.samples, score.higher_is_better) == (24, True)
    assert (recorded.version, recorded.requests) == ("0.4.13", ("generate_until",))
    assert len(recorded.samples) == 24
    assert sum(sample.value for sample in recorded.samples) == 20
    first = recorded.samples[0]
    assert (first.asked.splitlines()[-1], first.wanted, first.said) == ("France:", "Paris", "Paris")


def test_of_several_metrics_and_filters_the_tasks_first_is_judged(tmp_path: Path) -> None:
    """As gsm8k states them: strict-match comes first in its configuration, whatever the order of the results."""
    document = {
        "results": {
            "gsm8k": {
                "alias": "gsm8k",
                "exact_match,flexible-extract": 0.5,
                "exact_match_stderr,flexible-extract": 0.01,
                "exact_match,strict-match": 0.4,
                "exact_match_stderr,strict-match": "N/A",
            },
            "group": {"acc,none": 0.3},
        },
        "configs": {
            "gsm8k": {
                "output_type": "generate_until",
                "metric_list": [{"metric": "exact_match"}],
                "filter_list": [{"name": "strict-match"}, {"name": "flexible-extract"}],
            }
        },
        "higher_is_better": {"gsm8k": {"exact_match": True}},
        "n-samples": {"gsm8k": {"original": 1319, "effective": 100}},
    }
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "results_2026.json").write_text(json.dumps(document))
    found = results.read(tmp_path)
    assert [(score.filter, score.value, score.stderr) for score in found.scores] == [
        ("strict-match", 0.4, None),
        ("flexible-extract", 0.5, 0.01),
    ]
    assert found.samples == ()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"results": {}, "configs": {}}', '{"results": 3}', "\x00\xff"])
def test_files_that_are_no_results(tmp_path: Path, content: str) -> None:
    (tmp_path / "results_1.json").write_text(content)
    with pytest.raises(BadInput, match="run the tasks again"):
        results.read(tmp_path)


def test_a_folder_without_results(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="left no results"):
        results.read(tmp_path)


def test_the_words_of_a_run() -> None:
    options = GateOptions(lm_eval=("gsm8k", "ifeval"), lm_eval_include="tasks", lm_eval_limit=50)
    words = command.argv("/usr/bin/lm_eval", options, TARGET, Path("/out"))
    assert words[:3] == ("/usr/bin/lm_eval", "--model", "local-completions")
    assert set(words[4].split(",")) >= {
        "base_url=http://127.0.0.1:8000/v1/completions",
        "model=qwen/qwen3",
        "tokenizer_backend=None",
        "max_length=4096",
    }
    pairs = dict(zip(words[5::2], words[6::2], strict=False))
    assert pairs["--tasks"] == "gsm8k,ifeval"
    assert pairs["--output_path"] == "/out"
    assert words[words.index("--limit") + 1] == "50"
    assert words[words.index("--include_path") + 1] == os.path.abspath("tasks")


def test_chat_tokenizers_and_temperature_are_passed_on() -> None:
    chat = command.argv("x", GateOptions(lm_eval=("t",), lm_eval_chat=True), TARGET, Path("o"))
    assert chat[2] == "local-chat-completions"
    assert "base_url=http://127.0.0.1:8000/v1/chat/completions" in chat[4]
    assert "--apply_chat_template" in chat
    remote = command.argv("x", GateOptions(lm_eval=("t",)), TARGET._replace(remote_tokenizer=True), Path("o"))
    assert "tokenizer_backend=remote" in remote[4]
    named = command.argv("x", GateOptions(lm_eval=("t",), lm_eval_tokenizer="gpt2"), TARGET, Path("o"))
    assert "tokenizer_backend=huggingface,tokenizer=gpt2" in named[4]
    hot = command.argv("x", GateOptions(lm_eval=("t",)), TARGET._replace(temperature=1.0), Path("o"))
    assert hot[hot.index("--gen_kwargs") + 1] == "temperature=1,do_sample=True"


def test_what_its_arguments_cannot_carry_is_refused() -> None:
    with pytest.raises(BadInput, match="without user name and password") as told:
        command.argv("x", GateOptions(lm_eval=("t",)), TARGET._replace(url="http://me:s3cret@h:1"), Path("o"))
    assert "s3cret" not in str(told.value)
    with pytest.raises(BadInput, match="as its model"):
        command.argv("x", GateOptions(lm_eval=("t",)), TARGET._replace(model="a,b=c"), Path("o"))


def test_a_missing_program_is_told_before_anything_starts(tmp_path: Path) -> None:
    asked = GateOptions(lm_eval=("gsm8k",), lm_eval_bin=str(tmp_path / "none"))
    assert "pip install 'lm_eval[api]'" in gates.lacking(("lm-eval",), None, asked)["lm-eval"]
    assert "no tasks were named" in gates.lacking(("lm-eval",), None, GateOptions())["lm-eval"]
    with pytest.raises(BadInput, match=r"pip install 'lm_eval\[api\]'"):
        gate._names(GateAsk(lm_eval=("gsm8k",), lm_eval_bin=str(tmp_path / "none")), None)


def program(folder: Path, body: str) -> str:
    path = folder / "lm_eval"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_progress_key_and_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAB_API_KEY", "k3y")
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    bar = (
        r"printf 'Requesting API:  25%%|##   | 1/4 [00:01<00:03,  1.0it/s]\rRequesting API:  50%%|###  | 2/4 [0it/s]\n'"
    )
    words = program(tmp_path, f'echo "$OPENAI_API_KEY" > key; {bar}; echo "ValueError: no task x" >&2; exit 1')
    told: list[tuple[int, int]] = []
    with pytest.raises(EngineFailed, match="lm_eval failed: ValueError: no task x"):
        command.run((words,), tmp_path / "log", tmp_path, lambda done, total: told.append((done, total)))
    assert told[-1] == (2, 4)
    assert (tmp_path / "key").read_text().strip() == "k3y"


def test_a_key_that_a_server_repeats_is_neither_told_nor_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAB_API_KEY", "k3y-of-mine")
    words = program(tmp_path, 'echo "401: invalid key $OPENAI_API_KEY" >&2; exit 1')
    with pytest.raises(EngineFailed, match=r"401: invalid key \*\*\*") as told:
        command.run((words,), tmp_path / "log", tmp_path, lambda done, total: None)
    assert "k3y" not in str(told.value)
    assert "k3y" not in (tmp_path / "log").read_text()


def test_an_interruption_stops_all_that_it_started(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    bar = r"printf 'Requesting API:   0%%|     | 0/4 [0it/s]'"
    words = program(tmp_path, f"sleep 60 & echo $! > child; {bar}; wait")
    with pytest.raises(KeyboardInterrupt):
        command.run((words,), tmp_path / "log", tmp_path, interrupt)
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 15
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def judged(a: HarnessRun, again: HarnessRun, b: HarnessRun, loss: float = 0.01) -> PartFinding:
    return gates.part("lm-eval").judge(a, again, b, GateRule(accuracy_loss=loss))


def wronged(run: HarnessRun, count: int) -> HarnessRun:
    """The run with so many of its right answers turned wrong."""
    right = [at for at, sample in enumerate(run.samples) if sample.value][:count]
    samples = tuple(
        msgspec.structs.replace(sample, value=0.0) if at in right else sample for at, sample in enumerate(run.samples)
    )
    score = msgspec.structs.replace(run.scores[0], value=run.scores[0].value - count / len(samples))
    return msgspec.structs.replace(run, samples=samples, scores=(score,))


def test_samples_that_are_kept_pair(recorded: HarnessRun) -> None:
    same = judged(recorded, recorded, recorded)
    assert same.verdict == "inconclusive"  # 24 documents cannot exclude a loss of one point
    assert "of 24 items A gets 20 right, A again 20, B 20" in same.because
    assert "paired" in same.because
    assert judged(recorded, recorded, recorded, loss=0.2).verdict == "pass"
    worse = judged(recorded, recorded, wronged(recorded, 12))
    assert worse.verdict == "fail"
    assert "McNemar" in worse.because
    assert worse.examples[0].a == "Paris"


def test_without_samples_the_standard_errors_judge(recorded: HarnessRun) -> None:
    def bare(run: HarnessRun) -> HarnessRun:
        return msgspec.structs.replace(run, samples=())

    same = judged(bare(recorded), bare(recorded), bare(recorded), loss=0.3)
    assert same.verdict == "pass"
    assert "unpaired, from lm_eval's standard errors" in same.because
    assert judged(bare(recorded), bare(recorded), bare(wronged(recorded, 16))).verdict == "fail"
    assert judged(bare(recorded), bare(recorded), bare(recorded)).verdict == "inconclusive"
    silent = msgspec.structs.replace(bare(recorded), scores=(msgspec.structs.replace(recorded.scores[0], stderr=None),))
    assert "no standard error" in judged(silent, silent, silent).because


def test_other_documents_do_not_pair(recorded: HarnessRun) -> None:
    other = msgspec.structs.replace(recorded, samples=recorded.samples[:20])
    assert "unpaired" in judged(recorded, recorded, other).because


def test_the_numbers_are_those_of_the_harness(recorded: HarnessRun) -> None:
    stated = next(figure for figure in judged(recorded, recorded, recorded).numbers if "lm_eval states" in figure.name)
    assert stated.a is not None
    assert stated.a.value == pytest.approx(20 / 24)
    assert stated.a.high - stated.a.value == pytest.approx(1.96 * 0.0777, abs=1e-3)
