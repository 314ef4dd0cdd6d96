"""Engine arguments and versions as people mistype them: refused by name, or doubted, never dropped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.core.releases import newer
from kvlab.engines.vllm.arguments import argument_doubts, check_arguments
from kvlab.engines.vllm.versions import parse


def asked(name: str, value: str = "true") -> Ask:
    return Ask(engine_args=((name, value),))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        # vLLM's parser takes unique beginnings: these would have counted there.
        ("kv-cache-dtyp", "--kv-dtype"),
        ("kv-cache-memory", "--pool-gib"),
        ("max-model", "--context"),
        ("kv_cache_dtpye", "--kv-dtype"),
        ("max-model-length", "--context"),
        ("mamba-ssm-cache-dtyp", "mamba-ssm-cache-dtype"),
        ("disable-hybrid-kv-cache-manger", "disable-hybrid-kv-cache-manager"),
        ("speculative-confg", "speculative-config"),
        ("hf-override", "hf-overrides"),
        ("num-gpu-block-override", "num-gpu-blocks-override"),
    ],
)
def test_misspelt_flags_of_the_cache(name: str, meant: str) -> None:
    with pytest.raises(BadInput, match=f"did you mean {meant}"):
        check_arguments(asked(name))


@pytest.mark.parametrize(
    "name",
    # Flags of vLLM 0.32 whose names are close to those that count.
    [
        *("data-parallel-size-local", "data-parallel-rank", "prefill-context-parallel-size", "mamba-block-size"),
        *("max-logprobs", "max-num-partial-prefills", "mm-processor-cache-gb", "kv-offloading-backend", "seed"),
        *("enforce-eager", "trust-remote-code", "swap-space", "tokenizer", "quantization", "dtype", "load-format"),
    ],
)
def test_other_flags_pass(name: str) -> None:
    check_arguments(asked(name, "auto"))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("async-scheduling", "banana", "true or false"),
        ("no-async-scheduling", "true", "async-scheduling=false"),
        ("dtype", "float31", "bfloat16"),
        ("hf-overrides", "{num_hidden_layers: 2}", "a JSON object"),
        ("hf-overrides", "[" * 100_000, "a JSON object"),
        ("tp", "2", "use --tp"),
    ],
)
def test_values_that_vllm_would_not_take(name: str, value: str, words: str) -> None:
    with pytest.raises(BadInput, match=words) as refused:
        check_arguments(asked(name, value))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("name", "doubted"),
    [
        ("hf-overrides", True),
        ("hf-overrides.num_hidden_layers", True),
        ("kv-cache-dtype-skip-layers", True),
        ("kv-offloading-size", True),
        ("prefix-cache-retention-interval", True),
        ("mm-processor-cache-gb", False),
        ("seed", False),
        ("mamba-ssm-cache-dtype", False),
    ],
)
def test_what_may_change_the_cache_is_doubted(name: str, doubted: bool) -> None:
    found = [doubt.key for doubt in argument_doubts(asked(name, "{}"))]
    assert found == ([name.partition(".")[0]] if doubted else [])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        *(("0.32.0", (0, 32, 0)), ("v0.9.2", (0, 9, 2)), ("0.8", (0, 8, 0)), ("0.6.6.post1", (0, 6, 6))),
        ("0.26.1rc1.dev608+g99a10304d", (0, 26, 1)),
    ],
)
def test_versions(text: str, numbers: tuple[int, int, int]) -> None:
    assert parse(text) == numbers


@pytest.mark.parametrize("text", ["abc", "0.0", "0.0.9", "32", "0.32.0 or so", "b11549", "0.99999999", "-1.2", "٣.١"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(BadInput, match="not a vLLM release"):
        parse(text)


def test_a_release_to_come_is_planned_by_the_last_known_rules() -> None:
    (doubt,) = newer(parse("99.9"), parse("0.32.0"), "vLLM")
    assert "vLLM 99.9.0 is newer" in doubt.text
    assert doubt.text.endswith("0.32.0")
    assert newer(parse("0.32.5"), parse("0.32.0"), "vLLM") == []


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_argument_is_taken_or_refused(name: str, value: str) -> None:
    refused = ""
    try:
        check_arguments(asked(name, value))
        argument_doubts(asked(name, value))
    except BadInput as error:
        refused = str(error)
    assert len(refused) < 500
