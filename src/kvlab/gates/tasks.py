"""Tasks with one right answer, made from a seed: arithmetic, extraction, format following, code that is run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvlab import exams
from kvlab.core.errors import BadInput
from kvlab.core.exam import MOST_KEPT, Exam, Item, Marked, Program, cut
from kvlab.core.gate import GateOptions, GateRule, Part, PartFinding, Side
from kvlab.gates import _accuracy as accuracy
from kvlab.gates._asking import Said, ask
from kvlab.load.spec import Prompt
from kvlab.sandbox import Sandbox

NAME, TITLE = "tasks", "Tasks with exact answers"
Marks = tuple[Marked, ...]
_NOT_RUN, _UNISOLATED = "not run", "run without isolation"


def _collect(side: Side) -> Marks:
    paper = exams.paper(side.options.task_items, side.options.item_seed)
    sandbox = Sandbox(weaker=side.options.unisolated_code)
    marks: list[Marked] = []
    for kind, exam in exams.exams().items():
        items, before = [item for item in paper if item.kind == kind], len(marks)

        def told(done: int, before: int = before) -> None:
            side.progress(before + done, len(paper))

        prompts = [Prompt(id=item.id, text=item.prompt, output_tokens=exam.tokens) for item in items]
        said = ask(side, prompts, exam.stop, told)
        marks += [_marked(exam, item, answer, sandbox) for item, answer in zip(items, said, strict=True)]
    return tuple(marks)


def _marked(exam: Exam, item: Item, answer: Said, sandbox: Sandbox) -> Marked:
    question = item.question
    wanted = question.answer.strip()
    mark = Marked(id=item.id, kind=item.kind, asked=question.text, wanted=wanted, said=None, right=None)
    if answer.text is None:
        return msgspec.structs.replace(mark, why=answer.error or "no answer")
    text = cut(answer.text, exam.stop)
    found = exam.mark(question, text)
    right, why = _run(found, sandbox) if isinstance(found, Program) else (found, "")
    return msgspec.structs.replace(mark, said=text[:MOST_KEPT], right=right, why=why)


def _run(program: Program, sandbox: Sandbox) -> tuple[bool | None, str]:
    if sandbox.refusal is not None:
        return None, f"{_NOT_RUN}: {sandbox.refusal}; --unisolated-code runs it all the same"
    ran = sandbox.run(program.text)
    if ran.end == "refused":
        return None, ran.why
    right = ran.end == "done" and ran.output.rstrip("\n").rpartition("\n")[2] == program.writes
    why = "" if right else ran.why or "its values are not the right ones"
    return right, f"{_UNISOLATED} ({sandbox.missing}); {why}".removesuffix("; ") if sandbox.missing else why


def _judge(first: Marks, again: Marks, b: Marks, rule: GateRule) -> PartFinding:
    left_out = _not_run(first, again, b)
    runs = [[mark for mark in marks if mark.kind not in left_out] for marks in (first, again, b)]
    found = accuracy.trios(*runs)
    verdict, because = accuracy.judge(found, runs, rule)
    because += "".join(f"; {kind} was {why}" for kind, why in left_out.items())
    because += next((f"; {mark.kind} was {mark.why.split('; ')[0]}" for mark in _unisolated(first, again, b)), "")
    kinds = dict.fromkeys(trio.a.kind for trio in found)
    return PartFinding(
        name=NAME,
        title=TITLE,
        verdict=verdict,
        because=because,
        numbers=(
            *accuracy.figures(found, rule),
            *(accuracy.among(kind, [trio for trio in found if trio.a.kind == kind]) for kind in kinds),
        ),
        examples=accuracy.examples(found),
    )


def _not_run(*runs: Sequence[Marked]) -> dict[str, str]:
    """Kinds that a machine did not run, and why."""
    return {mark.kind: mark.why for marks in runs for mark in marks if mark.why.startswith(_NOT_RUN)}


def _unisolated(*runs: Sequence[Marked]) -> list[Marked]:
    return [mark for marks in runs for mark in marks if mark.why.startswith(_UNISOLATED)]


def _lacks(engine: str | None, options: GateOptions) -> str | None:
    try:
        exams.paper(options.task_items, options.item_seed)
    except BadInput as problem:
        return str(problem)
    return None


PART = Part(
    name=NAME,
    title=TITLE,
    needs="an OpenAI-compatible completions endpoint",
    evidence=Marks,
    collect=_collect,
    judge=_judge,
    lacks=_lacks,
)
