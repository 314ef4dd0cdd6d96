"""Sources made to hang, to swamp or to mislead: one line, or a doubt that names the key."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import source
from kvlab.core.errors import BadInput, KvlabError, UnknownModel
from kvlab.source import gguf_file, parse

QWEN = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B.json"


def config(folder: Path, **changes: object) -> str:
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(QWEN.read_text()) | changes))
    return str(path)


def doubted(path: str) -> dict[str, str]:
    return {doubt.key: doubt.text for doubt in source.load(path).doubts}


@pytest.mark.parametrize("name", ["config.json", "hf_quant_config.json", "model.safetensors", "model.gguf"])
def test_a_pipe_in_a_model_folder(tmp_path: Path, name: str) -> None:
    if name not in ("config.json", "model.gguf"):
        (tmp_path / "config.json").write_bytes(QWEN.read_bytes())
    os.mkfifo(tmp_path / name)
    with pytest.raises(BadInput, match="regular file"):
        source.load(str(tmp_path))


def test_a_shard_that_is_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(QWEN.read_bytes())
    index = {"metadata": {"total_size": 8}, "weight_map": {"a": "part.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    os.mkfifo(tmp_path / "part.safetensors")
    with pytest.raises(BadInput, match="not a regular file"):
        source.load(str(tmp_path))


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "/proc/self"])
def test_devices_are_no_models(path: str) -> None:
    with pytest.raises(BadInput):
        source.load(path)


def test_an_address_is_no_source() -> None:
    with pytest.raises(BadInput, match="the source is an address") as refused:
        source.load("https://me:s3cret@huggingface.co/org/name")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("opening", ['{"text_config": ', '{"a": [', "["])
def test_deep_json_is_one_line(opening: str) -> None:
    closing = "".join({"{": "}", "[": "]"}.get(letter, "") for letter in reversed(opening))
    for depth in (60, 900, 3000, 100_000):
        for data in (opening * depth, opening * depth + "1" + closing * depth):
            with pytest.raises(BadInput) as caught:
                parse.config(data.encode(), "config.json")
            assert len(str(caught.value)) < 300


def text(word: str) -> bytes:
    return struct.pack("<Q", len(word)) + word.encode()


def gguf(path: Path, *values: tuple[str, int, bytes], size: int = 0) -> Path:
    entries = b"".join(text(name) + struct.pack("<I", kind) + value for name, kind, value in values)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + entries)
    if size:
        with path.open("r+b") as file:
            file.truncate(size)
    return path


def test_a_gguf_vocabulary_without_end(tmp_path: Path) -> None:
    words = struct.pack("<IQ", 8, 10**10)
    path = gguf(tmp_path / "a.gguf", ("tokenizer.ggml.tokens", 9, words), size=1 << 40)
    with pytest.raises(BadInput, match="header is longer than 268,435,456 bytes"):
        gguf_file.read_header(path)
    path = gguf(tmp_path / "b.gguf", ("general.name", 8, struct.pack("<Q", 1 << 39)), size=1 << 40)
    with pytest.raises(BadInput, match="header is longer"):
        gguf_file.read_header(path)


def test_a_gguf_with_arrays_of_arrays(tmp_path: Path) -> None:
    nested = struct.pack("<IQ", 9, 1) * 5000
    with pytest.raises(BadInput, match="array of type 9"):
        gguf_file.read_header(gguf(tmp_path / "a.gguf", ("a", 9, nested), size=1 << 20))


@pytest.mark.parametrize(
    ("kv", "words"),
    [
        (0, "attention.head_count_kv is '0 in every layer'"),
        ([0, 0, 0, 0], "attention.head_count_kv is '0 in every layer'"),
        (3, "attention.head_count_kv is 3; it must be a divisor of the 8 attention heads of layer 0"),
    ],
)
def test_a_gguf_without_kv_heads_that_divide(tmp_path: Path, kv: int | list[int], words: str) -> None:
    counted = struct.pack("<I", kv) if isinstance(kv, int) else struct.pack("<IQ4I", 4, 4, *kv)
    path = gguf(
        tmp_path / "a.gguf",
        ("general.architecture", 8, text("llama")),
        ("llama.block_count", 4, struct.pack("<I", 4)),
        ("llama.embedding_length", 4, struct.pack("<I", 64)),
        ("llama.attention.head_count", 4, struct.pack("<I", 8)),
        ("llama.attention.head_count_kv", 4 if isinstance(kv, int) else 9, counted),
        size=512,
    )
    with pytest.raises(BadInput, match=words):
        source.load(str(path))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({"num_key_value_heads": 5}, "num_key_value_heads is 5; it must be a divisor of the 32 attention heads"),
        ({"num_key_value_heads": 64}, "num_key_value_heads is 64"),
        ({"num_key_value_heads": [0] * 36}, "num_key_value_heads is 'without KV heads in any layer'"),
    ],
)
def test_kv_heads_that_keep_nothing_or_do_not_divide(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        source.load(config(tmp_path, **changes))


def test_pruned_away_altogether(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    blocks = [{"attention": {"no_op": True}}] * 2
    path.write_text(
        json.dumps(
            {"model_type": "nemotron-nas", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
            | {"block_configs": blocks}
        )
    )
    with pytest.raises(BadInput, match="block_configs is 'without KV heads in any layer'"):
        source.load(str(path))


@pytest.mark.parametrize(("value", "known"), [("bfloat16", True), ("torch.float16", True), ("bananas", False)])
def test_dtypes_in_unknown_words_are_doubted(tmp_path: Path, value: str, known: bool) -> None:
    assert ("torch_dtype" in doubted(config(tmp_path, torch_dtype=value))) is not known


@pytest.mark.parametrize("value", [16, ["bfloat16"], {"": "bfloat16"}, True])
def test_dtypes_of_other_kinds_are_doubted(tmp_path: Path, value: object) -> None:
    found = source.load(config(tmp_path, torch_dtype=value))
    assert found.model.dtype is None
    assert "torch_dtype" in {doubt.key for doubt in found.doubts}


@pytest.mark.parametrize(
    ("scheme", "key"),
    [
        ({"kv_cache_quant_algo": "FP7"}, "quantization_config.kv_cache_quant_algo"),
        ({"kv_cache_quant_algo": 8}, "quantization_config.kv_cache_quant_algo"),
        ({"kv_cache_scheme": {"num_bits": 3, "type": "float"}}, "quantization_config.kv_cache_scheme"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "quantization_config.kv_cache_scheme"),
        ({"kv_cache_scheme": "fp8-ish"}, "quantization_config.kv_cache_scheme"),
        ({"quantization": {"kv_cache_quant_algo": "X"}}, "quantization_config.quantization.kv_cache_quant_algo"),
        ("fp8", "quantization_config"),
    ],
)
def test_cache_formats_in_unknown_words_are_doubted(tmp_path: Path, scheme: object, key: str) -> None:
    path = config(tmp_path, quantization_config=scheme)
    assert source.load(path).model.kv_cache_format is None
    assert key in doubted(path)


def test_doubts_and_errors_stay_short(tmp_path: Path) -> None:
    many = {f"kv_{number}_{'x' * 500}": 1 for number in range(300)}
    doubts = source.load(config(tmp_path, **many)).doubts
    assert len(doubts) < 45
    assert max(len(doubt.key) for doubt in doubts) <= 100
    with pytest.raises(UnknownModel) as caught:
        source.load(config(tmp_path, model_type="x" * 100_000, linear_num_value_heads=4, kv_lora_rank=3))
    assert len(str(caught.value)) <= 1200


@pytest.mark.parametrize("pattern", ["re:" + ".*" * 12 + "z", "re:" + ".?" * 60 + "z", "*a" * 9, "re:(a*)*z", "re:("])
def test_patterns_made_to_take_for_ever(tmp_path: Path, pattern: str) -> None:
    scheme = {"quant_method": "fp8", "modules_to_not_convert": [pattern]}
    assert source.load(config(tmp_path, quantization_config=scheme)).weights is None


@pytest.mark.parametrize("digits", [20, 400, 4000, 5000])
def test_numbers_of_many_digits(tmp_path: Path, digits: int) -> None:
    path = tmp_path / "a.json"
    plain = QWEN.read_text()
    for key in ("num_hidden_layers", "head_dim", "max_position_embeddings", "vocab_size", "rope_theta"):
        old = json.dumps(json.loads(plain)[key])
        path.write_text(plain.replace(f'"{key}": {old}', f'"{key}": {"9" * digits}'))
        line = ""
        try:
            source.load(str(path))
        except KvlabError as error:
            line = str(error)
        assert len(line) < 400
        assert key == "rope_theta" or key in line or digits == 5000


@pytest.mark.parametrize("name", ["../other/model.safetensors", "/etc/hostname", "", "..", "a\0b"])
def test_an_index_that_names_files_elsewhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_bytes(QWEN.read_bytes())
    index = {"metadata": {"total_size": 8}, "weight_map": {"a": name}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(BadInput, match="names files outside its folder"):
        source.load(str(tmp_path))


def test_weights_that_no_disk_holds(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(QWEN.read_bytes())
    index = {"metadata": {"total_size": 10**30}, "weight_map": {"a": "absent.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(BadInput, match="total_size"):
        source.load(str(tmp_path))
    (tmp_path / "model.safetensors.index.json").unlink()
    entry = {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}
    header = json.dumps({str(number): entry for number in range(100)}).encode()  # all of them the same eight bytes
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 8)
    with pytest.raises(BadInput, match="damaged"):
        source.load(str(tmp_path))


ENTRIES = st.dictionaries(
    st.text(max_size=6),
    st.one_of(
        st.integers(),
        st.fixed_dictionaries(
            {},
            optional={
                "dtype": st.one_of(st.text(max_size=4), st.integers(), st.sampled_from(["BF16", "F8_E4M3", "F4"])),
                "shape": st.one_of(st.lists(st.integers(-4, 2**70), max_size=4), st.text(max_size=2)),
                "data_offsets": st.lists(st.integers(-4, 300), max_size=3),
            },
        ),
    ),
    max_size=4,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("weights")
    (made / "config.json").write_bytes(QWEN.read_bytes())
    return made


@settings(max_examples=150, deadline=None)
@given(entries=ENTRIES, junk=st.binary(max_size=20))
def test_any_safetensors_header(folder: Path, entries: dict[str, Any], junk: bytes) -> None:
    header = json.dumps(entries).encode()
    for data in (struct.pack("<Q", len(header)) + header + b"\0" * 300, junk, struct.pack("<Q", len(header)) + junk):
        (folder / "model.safetensors").write_bytes(data)
        line = "one line"
        try:
            found = source.load(str(folder)).weights
            assert found is None or 0 <= found.bytes <= 300 or found.kind == "estimated"
        except KvlabError as error:
            line = str(error)
        assert len(line.splitlines()) == 1
