"""The verdicts of the parts with exact answers, and their evidence from a real engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest

from kvlab import exams, gates, needles, sandbox
from kvlab.core.exam import Marked
from kvlab.core.gate import CannotRun, GateOptions, GateRule, PartFinding, Side
from kvlab.launch import Server

Marks = tuple[Marked, ...]
RULE = GateRule()


def marks(count: int, right: Callable[[int], bool | None], name: str = "x") -> Marks:
    return tuple(
        Marked(
            id=f"{name}-{number}",
            kind=("one", "other")[number % 2],
            asked=f"question {number}",
            wanted="yes",
            said="yes" if right(number) else "no",
            right=right(number),
            tokens=100 + number % 2,
            length=(128, 256)[number % 2],
            depth=(0.0, 0.5)[number % 2],
        )
        for number in range(count)
    )


def half(number: int) -> bool:
    return number % 4 < 2


def judged(first: Marks, again: Marks, b: Marks, part: str = "tasks") -> PartFinding:
    return gates.part(part).judge(first, again, b, RULE)


@pytest.mark.parametrize("part", ["tasks", "retrieval"])
def test_an_arm_like_the_other_passes_from_381_items_on(part: str) -> None:
    enough, few = marks(381, half), marks(200, half)
    assert judged(enough, enough, enough, part).verdict == "pass"
    short = judged(few, few, few, part)
    assert short.verdict == "inconclusive"
    assert "about 381 items would settle it" in short.because


@pytest.mark.parametrize("part", ["tasks", "retrieval"])
def test_an_arm_that_loses_a_fifth_of_its_answers_fails(part: str) -> None:
    a = marks(200, half)
    found = judged(a, a, marks(200, lambda number: half(number) and number % 5 > 0), part)
    assert found.verdict == "fail"
    assert found.numbers[0].allowed == -0.01
    assert found.numbers[0].difference is not None
    assert found.numbers[0].difference.value == pytest.approx(-0.1)
    assert [example.a for example in found.examples] == ["yes"] * 12
    assert "(McNemar's p 1.9e-06)" in found.because  # 2 / 2^20


def test_a_small_loss_among_few_items_is_inconclusive_and_says_how_many_would_do() -> None:
    a = marks(200, half)
    found = judged(a, a, marks(200, lambda number: half(number) and number > 4))
    assert found.verdict == "inconclusive"
    assert "neither seen nor excluded" in found.because


def test_a_better_arm_passes() -> None:
    a = marks(400, half)
    assert judged(a, a, marks(400, lambda number: True)).verdict == "pass"


def test_a_server_that_does_not_repeat_itself_settles_nothing() -> None:
    a, again = marks(200, half), marks(200, lambda number: half(number) and number % 3 > 0)
    found = judged(a, again, marks(200, lambda number: False))
    assert found.verdict == "inconclusive"
    assert "does not repeat itself" in found.because


def test_an_arm_that_gets_nothing_right_has_nothing_to_lose() -> None:
    poor = marks(800, lambda number: number % 25 == 0)
    assert judged(poor, poor, poor).verdict == "inconclusive"


def test_answers_that_failed_are_not_wrong_answers() -> None:
    a = marks(400, half)
    few = marks(400, lambda number: None if number < 10 else half(number))
    many = marks(400, lambda number: None if number < 100 else half(number))
    assert judged(a, a, few).verdict == "pass"
    lost = judged(a, a, tuple(msgspec.structs.replace(mark, why="server gone") for mark in many))
    assert lost.verdict == "inconclusive"
    assert "100 of 400 items were not answered in all three runs (server gone)" in lost.because


def test_a_kind_that_this_machine_does_not_run_is_left_out_and_named() -> None:
    a = marks(800, half)
    why = "not run: no isolation"
    held = tuple(msgspec.structs.replace(mark, right=None, why=why) if mark.kind == "other" else mark for mark in a)
    found = judged(a, held, held)
    assert found.verdict == "pass"
    assert found.because.endswith("; other was not run: no isolation")
    assert found.numbers[0].name == "accuracy"
    assert [figure.name for figure in found.numbers[2:]] == ["one"]


def test_retrieval_has_a_row_for_each_length_with_every_depth() -> None:
    a = marks(400, half)
    rows = judged(a, a, marks(400, lambda number: number % 2 == 0), "retrieval").by_length
    assert [(row.low, row.high, row.count) for row in rows] == [(100, 101, 200), (101, 102, 200)]
    assert [figure.name for figure in rows[1].figures] == ["accuracy", "depth 50 %"]
    assert [row.figures[0].b.value for row in rows if row.figures[0].b] == [1.0, 0.0]


def test_runs_of_different_items_are_not_compared() -> None:
    with pytest.raises(ValueError, match="different items"):
        judged(marks(9, half), marks(9, half), marks(9, half, "y"))


def test_code_is_not_run_where_it_cannot_be_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvlab.gates import tasks
    from kvlab.gates._asking import Said

    monkeypatch.setattr(sandbox, "_missing", lambda: "files: no Landlock")
    item = next(item for item in exams.paper(8, 0) if item.kind == "code")
    mark = tasks._marked(exams.exams()["code"], item, Said(item.question.answer, None), sandbox.Sandbox())
    assert mark.right is None
    assert mark.why.startswith("not run: this system cannot isolate a program (files: no Landlock)")


def test_code_that_ran_without_isolation_is_said_to_have(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvlab.gates import tasks
    from kvlab.gates._asking import Said

    monkeypatch.setattr(sandbox, "_missing", lambda: "files: no Landlock")
    item, box = next(item for item in exams.paper(8, 0) if item.kind == "code"), sandbox.Sandbox(weaker=True)
    ran = [tasks._marked(exams.exams()["code"], item, Said(text, None), box) for text in (item.question.answer, "x")]
    assert [mark.right for mark in ran] == [True, False]
    found = judged((ran[0],), (ran[0],), (ran[1],))
    assert found.because.endswith("; code was run without isolation (files: no Landlock)")


def test_a_text_that_does_not_fit_is_refused_before_anything_is_sent() -> None:
    options = GateOptions(lengths=(4096,))
    with pytest.raises(CannotRun, match="does not fit a request of 2,048"):
        gates.part("retrieval").collect(
            Side(url="http://127.0.0.1:9", engine="llamacpp", context=2048, options=options)
        )
    with pytest.raises(CannotRun, match="raise --context"):
        gates.part("retrieval").collect(Side(url="http://127.0.0.1:9", engine="llamacpp", context=256))


@pytest.mark.parametrize(
    ("context", "longest", "lengths"),
    [
        (None, None, (512, 1024, 2048)),
        (4096, None, (512, 1024, 2048)),
        (32768, None, (512, 1024, 2048, 4096, 8192, 16384)),
        (32768, 8192, (512, 1024, 2048, 4096, 8192)),
        (4096, 8192, (512, 1024, 2048)),
        (1100, None, (512, 1024)),
        (544, None, (512,)),
    ],
)
def test_lengths_double_up_to_what_is_asked_and_fits(
    context: int | None, longest: int | None, lengths: tuple[int, ...]
) -> None:
    from kvlab.gates import retrieval

    side = Side(url="", engine=None, context=context, options=GateOptions(longest=longest))
    assert retrieval._lengths(side) == lengths


def test_an_engine_without_a_tokenizer_cannot_run_retrieval() -> None:
    assert gates.part("retrieval").lacks("ollama", GateOptions()) is not None
    assert gates.part("retrieval").lacks("llamacpp", GateOptions()) is None


@pytest.mark.e2e
def test_the_embedded_engine_answers_both_parts(llama_server: Server) -> None:
    told: list[tuple[int, int]] = []
    side = Side(
        url=llama_server.url,
        engine="llamacpp",
        context=2048,
        options=GateOptions(task_items=4, lengths=(96, 128), needle_items=4),
        progress=lambda done, total: told.append((done, total)),
    )
    tasks = gates.part("tasks").collect(side)
    assert len(tasks) == 4
    assert all(mark.right is not None for mark in tasks)
    assert next(mark for mark in tasks if mark.id == "formatting-1-1").right, "the easiest of a model that can copy"
    assert told[-1] == (4, 4)
    hidden = gates.part("retrieval").collect(side)
    assert [mark.length for mark in hidden] == [96, 128] * 2
    assert all(0 <= (mark.length or 0) - (mark.tokens or 0) < 24 for mark in hidden)
    assert {mark.kind for mark in hidden} <= set(needles.needles())
    for part, found in (("tasks", tasks), ("retrieval", hidden)):
        kept = msgspec.json.decode(msgspec.json.encode(found), type=gates.part(part).evidence)
        assert kept == found
        assert gates.part(part).judge(found, found, found, RULE).verdict == "inconclusive"


def test_too_few_items_are_told_before_anything_starts() -> None:
    assert "one of each kind" in (gates.part("tasks").lacks(None, GateOptions(task_items=2)) or "")
    assert gates.part("tasks").lacks(None, GateOptions()) is None


@pytest.mark.parametrize("given", [("--lengths", "12x"), ("--lengths", "512,-4"), ("--task-items", "0")])
def test_sizes_that_are_none_are_refused_in_one_line(given: tuple[str, ...]) -> None:
    argv = (sys.executable, "-m", "kvlab", "quality", "http://127.0.0.1:9", "http://127.0.0.1:10", *given)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert given[0] in done.stderr
    assert done.stderr.count("\n") == 1
