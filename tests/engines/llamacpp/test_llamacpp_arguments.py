"""Engine arguments and builds as people mistype them: refused by name, or doubted, never dropped."""

from __future__ import annotations

import pytest

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.engines.llamacpp.arguments import argument_doubts, check_arguments
from kvlab.engines.llamacpp.versions import build, unknown_yet


def asked(name: str) -> Ask:
    return Ask(engine="llamacpp", engine_args=((name, "1"),))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("ctx-sizes", "--context"), ("cache-typ-k", "--kv-dtype-k"), ("kv-unifed", "--kv-unified")),
        *(("parralel", "--parallel"), ("ubatchsize", "--ubatch"), ("swa_ful", "--swa-full")),
    ],
)
def test_misspelt_flags_of_the_cache(name: str, meant: str) -> None:
    with pytest.raises(BadInput, match=f"did you mean {meant}"):
        check_arguments(asked(name))


@pytest.mark.parametrize("name", ["batch-size", "cache-prompt", "ctx-size-draft", "cache-ram", "threads", "ngl", "b"])
def test_other_flags_pass(name: str) -> None:
    check_arguments(asked(name))


@pytest.mark.parametrize(
    ("name", "doubted"), [("no-kv-offload", True), ("cache-type-k-draft", True), ("cache-ram", False), ("ngl", False)]
)
def test_what_may_change_the_cache_is_doubted(name: str, doubted: bool) -> None:
    assert [doubt.key for doubt in argument_doubts(asked(name))] == ([name] if doubted else [])


@pytest.mark.parametrize("text", ["abc", "0.0", "99.9", "b", "b12", "b11549 or so", "b99999999", "٤٤٤٤"])
def test_what_is_no_build(text: str) -> None:
    with pytest.raises(BadInput, match="is no build of llama"):
        build(text)


def test_a_build_to_come_is_planned_by_the_last_known_rules() -> None:
    assert build("b4000") == build("4000") == 4000
    assert "b99999" in (unknown_yet(Ask(engine_version="b99999")) or "")
    assert unknown_yet(Ask()) is None
    assert unknown_yet(Ask(engine_version="b4000")) is None
