"""GGUF files: what llama.cpp's loader printed for the same metadata, damaged files, and the real Gemma-3-270m."""

from __future__ import annotations

import time
from pathlib import Path

import gguf
import pytest
from gguf_writer import write
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import source
from kvlab.core.errors import BadInput, KvlabError, UnknownModel
from kvlab.core.layout import Layout
from kvlab.source.gguf_file import BLOCKS

MIB = 1 << 20


def attention(layers: int, heads: int, kv_heads: int, size: int, **more: object) -> dict[str, object]:
    return {
        "block_count": layers,
        "context_length": 131072,
        "embedding_length": heads * size,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": size,
        "attention.value_length": size,
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def f16_mib(layout: Layout, kind: str, cells: int) -> float:
    """MiB of the f16 cache of the rows of one kind, as llama.cpp prints it."""
    return round(sum(2 * cells * row.values_per_token() for row in layout.rows if row.kind == kind) / MIB, 2)


# Figures printed by the llama.cpp loader (b11434) for weightless files with these metadata.
@pytest.mark.parametrize(
    ("arch", "keys", "printed"),
    [
        ("llama", attention(32, 32, 8, 128), {"full": (32768, 4096.00)}),
        ("qwen3", attention(36, 32, 8, 128), {"full": (32768, 4608.00)}),
        (
            "gemma3",
            attention(48, 16, 8, 256, attention__sliding_window=1024),
            {"full": (32768, 2048.00), "window": (1536, 480.00)},
        ),
        (
            "gemma3",
            attention(18, 4, 1, 256, attention__sliding_window=512),
            {"full": (32768, 96.00), "window": (2560, 37.50)},
        ),
        (
            "deepseek2",
            {
                **attention(27, 16, 1, 576, attention__kv_lora_rank=512, rope__dimension_count=64),
                "attention.value_length": 512,
                "attention.key_length_mla": 192,
                "attention.value_length_mla": 128,
            },
            {"latent": (32768, 972.00)},
        ),
    ],
)
def test_cache_sizes_are_those_that_llama_cpp_prints(
    tmp_path: Path, arch: str, keys: dict[str, object], printed: dict[str, tuple[int, float]]
) -> None:
    layout = source.load(str(write(tmp_path / "model.gguf", arch, keys))).layout
    assert {row.kind for row in layout.rows} == set(printed)
    assert {kind: (cells, f16_mib(layout, kind, cells)) for kind, (cells, _) in printed.items()} == printed


# "llama_memory_recurrent: size = ... R (f32): ... S (f32): ..." of the same loader.
@pytest.mark.parametrize(
    ("arch", "keys", "layers", "conv", "ssm"),
    [
        (
            "mamba",
            {"block_count": 24, "embedding_length": 768, "attention.head_count": 0, "ssm.conv_kernel": 4,
             "ssm.inner_size": 1536, "ssm.state_size": 16, "ssm.time_step_rank": 48},
            24, 0.42, 2.25,
        ),
        (
            "qwen3next",
            attention(48, 16, 2, 256, ssm__conv_kernel=4, ssm__inner_size=4096, ssm__state_size=128,
                      ssm__time_step_rank=32, ssm__group_count=16),
            36, 3.38, 72.00,
        ),
    ],
)  # fmt: skip
def test_states_are_those_that_llama_cpp_prints(
    tmp_path: Path, arch: str, keys: dict[str, object], layers: int, conv: float, ssm: float
) -> None:
    loaded = source.load(str(write(tmp_path / "model.gguf", arch, keys)))
    (row,) = loaded.layout.only("state")
    printed = [round(4 * len(row.layers) * state.values / MIB, 2) for state in row.state]
    assert (len(row.layers), *printed) == (layers, conv, ssm)
    assert f16_mib(loaded.layout, "full", 32768) == (768.00 if arch == "qwen3next" else 0)


def test_lists_of_heads_and_windows(tmp_path: Path) -> None:
    # Gemma 4 26B: sliding layers of 8 heads x 256, full layers of 2 heads x 512 (vLLM 0.32's specs of the same model).
    slides = [(layer + 1) % 6 != 0 for layer in range(30)]
    keys = attention(30, 16, 2, 512, attention__sliding_window=1024, attention__key_length_swa=256,
                     attention__value_length_swa=256)  # fmt: skip
    keys["attention.head_count_kv"] = [8 if sliding else 2 for sliding in slides]
    keys["attention.sliding_window_pattern"] = slides
    rows = source.load(str(write(tmp_path / "model.gguf", "gemma4", keys))).layout.rows
    found = {(row.kind, len(row.layers), row.heads, row.k_dim, row.v_dim, row.window) for row in rows}
    assert found == {("window", 25, 8, 256, 256, 1024), ("full", 5, 2, 512, 512, None)}


def test_layers_without_heads_keep_nothing(tmp_path: Path) -> None:
    keys = {**attention(4, 8, 8, 64), "attention.head_count_kv": [2, 0, 2, 0]}
    rows = source.load(str(write(tmp_path / "model.gguf", "deci", keys))).layout.rows
    assert [(row.layers, row.heads) for row in rows] == [((0, 2), 2)]


@pytest.mark.parametrize(
    ("arch", "keys", "words"),
    [
        ("newarch", attention(4, 8, 8, 64, attention__sliding_window=128), "does not know in which layers"),
        ("newarch", attention(4, 8, 8, 64), "has no architecture 'newarch'"),
        ("llama", attention(4, 8, 1, 64, attention__indexer__top_k=8), "attention.indexer.top_k"),
        ("llama", attention(4, 8, 1, 64, ssm__conv_kernel=4), "ssm.conv_kernel"),
        ("bert", attention(4, 8, 8, 64), "encoder"),
        ("llama", attention(4, 8, 8, 64, attention__causal=False), "encoder"),
    ],
)
def test_unknown_architectures_are_refused(tmp_path: Path, arch: str, keys: dict[str, object], words: str) -> None:
    with pytest.raises(UnknownModel, match=words):
        source.load(str(write(tmp_path / "model.gguf", arch, keys)))


def test_block_sizes_are_those_of_the_gguf_package() -> None:
    theirs = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    assert {kind: sizes for kind, sizes in BLOCKS.items() if kind in theirs} == theirs


def test_shards_are_summed(tmp_path: Path) -> None:
    tensor = {"blk.0.attn_q.weight": ((64, 64), 1)}
    first = write(tmp_path / "m-00001-of-00002.gguf", "llama", attention(2, 8, 8, 8), tensor)
    with pytest.raises(BadInput, match=r"m-00002-of-00002\.gguf is not beside it"):
        source.load(str(first))
    second = write(tmp_path / "m-00002-of-00002.gguf", "llama", {}, tensor)
    weights = source.load(str(first)).weights
    assert weights is not None
    assert weights.bytes == 2 * 64 * 64 * 2
    with pytest.raises(BadInput, match=r"give the first one, m-00001-of-00002\.gguf"):
        source.load(str(second))
    assert source.load(str(tmp_path)).origin.name == "m-00001-of-00002.gguf"


def damaged(tmp_path: Path, change: dict[int, bytes], size: int | None = None) -> str:
    file = write(tmp_path / "model.gguf", "llama", attention(2, 8, 8, 8))
    data = bytearray(file.read_bytes())
    for at, value in change.items():
        data[at : at + len(value)] = value
    file.write_bytes(data[:size])
    return str(file)


@pytest.mark.parametrize(
    ("change", "size", "words"),
    [
        ({}, -32, r"cut short: [\d,]+ bytes expected, [\d,]+ found"),
        ({}, 100, "its header goes on after the last of its 100 bytes"),
        ({}, 10, "has 10 bytes"),
        ({0: b"GGML"}, None, "does not start with GGUF"),
        ({4: (1).to_bytes(4, "little")}, None, "version 1"),
        ({4: (3).to_bytes(4, "big")}, None, "big-endian"),
        ({8: (1 << 40).to_bytes(8, "little")}, None, "states 1,099,511,627,776 tensors"),
        ({16: (1 << 40).to_bytes(8, "little")}, None, "1,099,511,627,776 keys"),
        ({24: (1 << 62).to_bytes(8, "little")}, None, "cut short or damaged"),
    ],
)
def test_damaged_files_are_one_line(tmp_path: Path, change: dict[int, bytes], size: int | None, words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        source.load(damaged(tmp_path, change, size))
    assert len(str(caught.value).splitlines()) == 1


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, 700), junk=st.binary(min_size=1, max_size=9), size=st.integers(0, 1000))
def test_any_damage_is_an_answer_or_one_line(tmp_path: Path, at: int, junk: bytes, size: int) -> None:
    refused = "one line"
    try:
        source.load(damaged(tmp_path, {at: junk}, None if size > 700 else size))
    except KvlabError as error:
        refused = str(error)
    assert len(refused.splitlines()) == 1


def test_the_real_model_loads_in_half_a_second(gemma: Path) -> None:
    taken = []
    for _ in range(3):  # a busy machine makes it slower
        started = time.perf_counter()
        loaded = source.load(str(gemma))
        taken.append(time.perf_counter() - started)
    assert min(taken) < 0.5
    assert loaded.model.name == "Gemma 3 270m"
    assert (loaded.model.context, loaded.model.layers, loaded.model.vocab) == (32768, 18, 262144)
    # "print_info: file size   = 235.16 MiB (7.36 BPW)"
    assert loaded.weights is not None
    assert round(loaded.weights.bytes / MIB, 2) == 235.16
    assert [row.layers for row in loaded.layout.only("full")] == [(5, 11, 17)]
