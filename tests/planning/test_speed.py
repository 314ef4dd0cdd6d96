"""Expected speed against public measurements: each must lie within the range that a plan states."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.roofline import Attends, Experts, Machine, Work, compute_bound_from, pace, prefill
from kvlab.core.speed import Range, Speed

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"


def speed(model: str, **options: object) -> Speed:
    found = api.plan(CONFIGS / f"{model}.json", **options).speed  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("model", "tp", "measured"),
    [
        # https://github.com/pytorch-labs/gpt-fast, README: batch 1 on A100-80GB, bf16, a prompt of 5 tokens.
        # CodeLlama-7B has Llama-2-7B's matrices and 16 more tokens.
        ("codellama__CodeLlama-7b-hf", 1, 104.9),
        ("codellama__CodeLlama-7b-hf", 2, 168.84),
        ("codellama__CodeLlama-7b-hf", 4, 254.02),
        ("codellama__CodeLlama-7b-hf", 8, 328.43),
        ("meta-llama__Llama-2-70b-hf", 2, 21.32),
        ("meta-llama__Llama-2-70b-hf", 4, 38.01),
        ("meta-llama__Llama-2-70b-hf", 8, 62.50),
    ],
)
def test_decoding_alone_is_as_measured_on_a100s(model: str, tp: int, measured: float) -> None:
    found = speed(model, gpu="a100-80gb", tp=tp, context=256, util=0.95, overhead_gib=1.0).decode[0]
    assert found.batch == 1
    assert found.tokens_per_second_each.low < measured < found.tokens_per_second_each.high
    assert found.limited_by == "bandwidth"


def test_decoding_is_as_measured_on_an_rtx_4090() -> None:
    # https://github.com/ggml-org/llama.cpp/pull/4766: llama 7B F16, tg128 61.03 tokens/s
    found = speed("codellama__CodeLlama-7b-hf", gpu="rtx4090-24gb", context=256).decode[0]
    assert found.tokens_per_second_each.low < 61.03 < found.tokens_per_second_each.high


def test_prefill_is_as_measured_on_an_a100() -> None:
    # https://github.com/vllm-project/vllm/issues/20469: Qwen3-14B-AWQ, 16,000 tokens alone, mean TTFT 3,345 ms. AWQ is
    # unpacked to 16 bits before it is multiplied, so plain weights compute the same.
    found = speed("Qwen__Qwen3-14B", gpu="a100-80gb", context=16000).prefill
    assert found is not None
    assert found.tokens == 16000
    assert found.ttft.low < 3.345 < found.ttft.high


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        # Active parameters as the makers state them on the model cards; some count the embeddings in.
        ("deepseek-ai__DeepSeek-V3", 37),
        ("Qwen__Qwen3-30B-A3B", 3.3),
        ("Qwen__Qwen3-235B-A22B", 22),
        ("mistralai__Mixtral-8x7B-Instruct-v0.1", 12.9),
        ("openai__gpt-oss-20b", 3.6),
        ("meta-llama__Llama-4-Scout-17B-16E", 17),
        ("microsoft__Phi-3.5-MoE-instruct", 6.6),
        ("deepseek-ai__DeepSeek-V2-Lite", 2.4),
        ("meta-llama__Llama-3.1-8B", 8.0),
        ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 3.5),
    ],
)
def test_active_parameters_are_what_the_makers_state(model: str, billions: float) -> None:
    found = speed(model, gpu="b300-288gb", tp=8, context=4096)
    assert found.active_parameters is not None
    assert found.active_parameters / 1e9 == pytest.approx(billions, rel=0.12)


def test_what_is_not_known_is_absent_with_a_doubt(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text((CONFIGS / "meta-llama__Llama-3.1-8B.json").read_text())
    found = api.plan(config, gpu_gib=80).speed
    assert found is not None
    assert found.decode == ()
    assert found.prefill is None
    assert {doubt.key for doubt in found.doubts} == {"bandwidth", "flops"}
    assert api.plan(config).speed is None
    assert not api.plan(config, gpu_gib=80, context=8192).doubts  # they are the speed's own: --strict is about memory


def test_unknown_matrices_have_no_speed(tmp_path: Path) -> None:
    raw = json.loads((CONFIGS / "meta-llama__Llama-3.1-8B.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**raw, "model_type": "llama_of_tomorrow"}))
    found = api.plan(tmp_path / "config.json", gpu="h100-80gb", weights_gib=15).speed
    assert found is not None
    assert found.decode == ()
    assert found.doubts


def test_a_large_batch_turns_from_bandwidth_to_compute() -> None:
    # An 8B model without a cache to read on an A100: its ridge is 312e12 / 2.039e12 = 153 operations a byte, and a
    # token of a batch does 2 operations for each of the 2 bytes of a parameter: 153 tokens.
    work = Work(dense_parameters=8_000_000_000, dense_bytes=16e9)
    whole = Machine(
        tp=1, pp=1, bandwidth=Range(2.039e12, 2.039e12), flops=Range(312e12, 312e12), step_seconds=Range(0, 0)
    )
    turn = compute_bound_from(work, whole, 0.0, 1)
    assert turn is not None
    assert turn.earliest == turn.latest == 154
    below, above = (pace(work, whole, 0.0, 1, batch) for batch in (150, 160))
    assert below is not None
    assert above is not None
    assert (below.limited_by, above.limited_by) == ("bandwidth", "compute")
    assert compute_bound_from(work, whole, 1e12, 1) is None  # each request's cache alone is slower


def test_a_batch_visits_more_experts_than_one_token() -> None:
    experts = Experts(layers=1, count=128, per_token=8, parameters=1, bytes=1.0)
    assert experts.distinct(1) == pytest.approx(8)
    # 128 x (1 - (15/16)^16)
    assert experts.distinct(16) == pytest.approx(82.4, abs=0.1)
    assert experts.distinct(10_000) == pytest.approx(128)


def test_windows_bound_what_attention_computes() -> None:
    whole, window = Attends(layers=1, prefill=1, decode=1), Attends(layers=1, prefill=1, decode=1, most=4)
    # queries 1..6 see 1, 2, 3, 4, 5, 6 tokens, or at most 4
    assert whole.pairs(6) == 21
    assert window.pairs(6) == 18
    assert window.seen(6) == 4


def test_prefill_needs_a_rate() -> None:
    slow = Machine(tp=1, pp=1, bandwidth=Range(1, 1), flops=None, step_seconds=Range(0, 0))
    assert prefill(Work(dense_parameters=1, dense_bytes=2.0), slow, 8) is None


def test_a_model_larger_than_any_has_no_speed(tmp_path: Path) -> None:
    """Seen in a mutated config: a hundred million hyper-connections, and 10^29 active parameters."""
    config = json.loads((CONFIGS / "deepseek-ai__DeepSeek-V4-Flash.json").read_text())
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config, "hc_mult": 100_000_000}))
    found = api.plan(path, engine="llamacpp", gpu="h100-80gb").speed
    assert found is not None
    assert (found.active_parameters, found.decode, found.prefill) == (None, (), None)
    assert [doubt.key for doubt in found.doubts] == ["speed"]
    assert api.plan(path, gpu="h100-80gb").speed is None  # without weights vLLM has no pool to run in
