"""The gate's one verdict, its parts and their evidence in the lab."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab import api, gates
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.gate import TAGS, CannotRun, GateOptions, GateRule, Part, PartFinding, PartVerdict, Side, Tag, whole
from kvlab.lab import Lab

RULE = GateRule()


def finding(name: str, verdict: PartVerdict) -> PartFinding:
    return PartFinding(name=name, title=name, verdict=verdict, because="")


@pytest.mark.parametrize(
    ("verdicts", "asked", "gate"),
    [
        (("pass", "pass"), (), "pass"),
        (("pass", "fail"), (), "fail"),
        (("inconclusive", "fail"), (), "fail"),
        (("pass", "inconclusive"), (), "inconclusive"),
        (("pass", "not run"), (), "pass"),
        (("pass", "not run"), ("p1",), "inconclusive"),
        (("fail", "not run"), ("p1",), "fail"),
        (("not run", "not run"), (), "inconclusive"),
        ((), (), "inconclusive"),
    ],
)
def test_one_verdict_of_all_parts(verdicts: tuple[PartVerdict, ...], asked: tuple[str, ...], gate: str) -> None:
    found = whole([finding(f"p{i}", verdict) for i, verdict in enumerate(verdicts)], RULE, asked)
    assert found.verdict == gate
    assert found.rule == RULE
    for i, verdict in enumerate(verdicts):
        if verdict in (gate, "not run"):
            assert f"p{i}" in found.because


def test_every_part_is_found_by_its_file_and_says_what_it_needs() -> None:
    assert {"agreement", "divergence"} <= set(gates.names())
    for name in gates.names():
        part = gates.part(name)
        assert (part.name, bool(part.title), bool(part.needs)) == (name, True, True)
    with pytest.raises(BadInput, match="did you mean divergence"):
        gates.part("divergance")


def test_the_list_says_which_engines_can_run_a_part_and_why_others_cannot() -> None:
    parts = {part.name: part for part in api.quality_parts().parts}
    assert {"vllm", "llamacpp", "sglang"} <= set(parts["divergence"].engines)
    assert "token ids" in parts["divergence"].lacks["ollama"]
    assert parts["agreement"].lacks == {}


SIDE = Side(url="http://127.0.0.1:9", engine="vllm")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Tag]]:
    """Two parts of our own: one counts, one cannot run on the server."""
    calls: dict[str, list[Tag]] = {"counts": []}

    def collect(side: Side) -> list[int]:
        assert side.folder is not None
        calls["counts"].append("b" if side.temperature else "a1")
        side.progress(1, 1)
        return [1, 2, 3]

    def refuse(side: Side) -> list[int]:
        raise CannotRun("http://127.0.0.1:9 answered 400: no log-probabilities")

    def judge(a: list[int], again: list[int], b: list[int], rule: GateRule) -> PartFinding:
        return finding("counts", "pass" if a == again == b == [1, 2, 3] else "fail")

    parts = {
        "counts": Part(
            name="counts", title="Counts", needs="nothing", evidence=list[int], collect=collect, judge=judge
        ),
        "refused": Part(name="refused", title="R", needs="more", evidence=list[int], collect=refuse, judge=judge),
    }
    monkeypatch.setattr(gates, "part", parts.__getitem__)
    return calls


def test_evidence_is_kept_and_not_collected_again(toy: dict[str, list[Tag]], tmp_path: Path) -> None:
    lab, told = Lab(tmp_path), []
    for tag in TAGS:
        made = gates.collect(("counts",), tag, SIDE, lab, lambda *at: told.append(at))
        assert made == (f"gate/counts-{tag}.json",)
    gates.collect(("counts",), "b", SIDE, lab)
    assert len(toy["counts"]) == 3
    assert ("Counts", 1, 1) in told
    assert set(gates.files(("counts",))) == {str(path.relative_to(tmp_path)) for path in tmp_path.glob("gate/*.json")}
    assert gates.evidence("counts", "b", lab) == [1, 2, 3]
    (found,) = gates.judged(("counts",), lab, RULE)
    assert found.verdict == "pass"


def test_a_part_that_a_server_refuses_is_not_run_and_says_why(toy: dict[str, list[Tag]], tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for tag in TAGS:
        gates.collect(("counts", "refused"), tag, SIDE, lab)
    counts, refused = gates.judged(("counts", "refused"), lab, RULE)
    assert (counts.verdict, refused.verdict) == ("pass", "not run")
    assert "no log-probabilities" in refused.because
    assert gates.evidence("refused", "b", lab) is None


@pytest.mark.usefixtures("toy")
def test_damaged_evidence_is_one_line(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for tag in TAGS:
        gates.collect(("counts",), tag, SIDE, lab)
    file = tmp_path / "gate" / "counts-b.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"evidence": "none"}))
    with pytest.raises(BadInput, match=r"counts-b.json .*delete that file"):
        gates.judged(("counts",), lab, RULE)


def test_arms_and_parts_that_make_no_gate_are_refused(gemma: Path, tmp_path: Path) -> None:
    plan = api.plan(gemma, engine="llamacpp", context=512, engine_args={"embedded": "true"})
    with pytest.raises(BadInput, match="same configuration"):
        api.quality(plan, plan)
    with pytest.raises(BadInput, match="same server"):
        api.quality("http://127.0.0.1:9", "http://127.0.0.1:9/v1/")
    with pytest.raises(BadInput, match="not one of each"):
        api.quality(plan, "http://127.0.0.1:9")
    other = api.plan(gemma, engine="llamacpp", context=512, kv_dtype="q8_0", engine_args={"embedded": "true"})
    with pytest.raises(BadInput, match="no part of the quality gate is called"):
        api.quality(plan, other, parts=("agrement",), lab=tmp_path)
    with pytest.raises(BadInput, match="no prompts file"):
        api.quality(plan, other, prompts=tmp_path / "none.txt", lab=tmp_path)


def test_the_verdict_stands_in_the_lab_and_in_the_history(
    toy: dict[str, list[Tag]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvlab.gate._known", lambda url: (None, None))
    found = api.quality("http://127.0.0.1:9", "http://127.0.0.1:10", lab=tmp_path / "gate", parts=("counts",))
    assert json.loads((tmp_path / "gate" / "quality.json").read_text())["gate"]["verdict"] == "pass"
    (listed,) = api.history(tmp_path).entries
    assert (listed.kind, listed.path, listed.verdict, listed.label) == ("quality", "gate", "pass", "counts pass")
    assert listed.time == found.finished is not None


def test_every_option_reaches_the_parts() -> None:
    from kvlab.core.gate import GateAsk

    asked = GateAsk(prompts="p.txt", max_tokens=3, concurrency=2, longest=99, lm_eval=("arc_easy",))
    assert asked.options == GateOptions(prompts="p.txt", max_tokens=3, concurrency=2, longest=99, lm_eval=("arc_easy",))


def test_addresses_at_which_nothing_answers_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ServerRefused, match="no server at"):
        api.quality("http://127.0.0.1:9", "http://127.0.0.1:10", lab=tmp_path, parts=("divergence",))
