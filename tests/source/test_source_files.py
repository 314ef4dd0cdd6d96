"""Files and folders: where the facts come from, and one line for everything that is something else."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kvlab import source
from kvlab.core.errors import BadInput, KvlabError, MissingFact, UnknownModel

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"
QWEN = CONFIGS / "Qwen__Qwen3-8B.json"


def test_config_under_any_name() -> None:
    loaded = source.load(str(QWEN))
    assert (loaded.origin.name, loaded.origin.kind) == (QWEN.name, "config")
    assert loaded.weights is not None
    assert loaded.weights.kind == "estimated"
    model = loaded.model
    assert (model.name, model.model_type, model.dtype) == ("Qwen__Qwen3-8B", "qwen3", "bfloat16")
    assert (model.context, model.layers, model.hidden, model.heads, model.vocab) == (40960, 36, 4096, 32, 151936)
    assert model.architectures == ("Qwen3ForCausalLM",)
    assert model.weight_format is None


@pytest.mark.parametrize(
    ("file", "weights", "cache"),
    [
        ("Qwen__Qwen3-8B-FP8.json", "fp8", None),
        ("openai__gpt-oss-20b.json", "mxfp4", None),
        ("nvidia__Kimi-K2.6-NVFP4.json", "modelopt", "fp8"),
        ("RedHatAI__Llama-4-Scout-17B-16E-Instruct-FP8-dynamic.json", "compressed-tensors", None),
    ],
)
def test_declared_formats(file: str, weights: str, cache: str | None) -> None:
    model = source.load(str(CONFIGS / file)).model
    assert (model.weight_format, model.kv_cache_format) == (weights, cache)


UNPLACED = struct.pack("<Q", 24) + b'{"a": {"dtype": "BF16"}}'


def test_a_cache_scheme_without_numbers_is_no_format(tmp_path: Path) -> None:
    config = json.loads(QWEN.read_text())
    for scheme, wanted in (({}, None), ({"num_bits": 8}, None), ({"num_bits": 8, "type": "float"}, "fp8")):
        config["quantization_config"] = {"quant_method": "compressed-tensors", "kv_cache_scheme": scheme}
        (tmp_path / "a.json").write_text(json.dumps(config))
        assert source.load(str(tmp_path / "a.json")).model.kv_cache_format == wanted


def test_an_unknown_home_folder_is_one_line() -> None:
    with pytest.raises(BadInput, match="home folder that does not exist"):
        source.load("~no-such-user-here/config.json")


def safetensors(path: Path, sizes: dict[str, int], short: int = 0) -> None:
    offset, header = 0, {"__metadata__": {"format": "pt"}}
    for name, size in sizes.items():
        header[name] = {"dtype": "BF16", "shape": [size // 2], "data_offsets": [offset, offset + size]}  # type: ignore[dict-item]
        offset += size
    encoded = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        file.truncate(8 + len(encoded) + offset - short)


def test_folder_with_weights(tmp_path: Path) -> None:
    folder = tmp_path / "Qwen3-8B"
    folder.mkdir()
    shutil.copy(QWEN, folder / "config.json")
    (folder / "hf_quant_config.json").write_text('{"quantization": {"kv_cache_quant_algo": "FP8"}}')
    counted = source.load(str(folder)).weights
    assert counted is not None
    assert counted.kind == "estimated"
    safetensors(folder / "model-1.safetensors", {"a": 1000, "b": 24})
    safetensors(folder / "model-2.safetensors", {"c": 6})
    safetensors(folder / "consolidated.safetensors", {"a": 1030})
    index = {"metadata": {"total_size": 4096}, "weight_map": {"a": "model-1.safetensors", "c": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    loaded = source.load(str(folder))
    assert (loaded.origin.name, loaded.origin.kind, loaded.model.name) == ("Qwen3-8B", "folder", "Qwen3-8B")
    assert loaded.model.kv_cache_format == "fp8"
    assert loaded.weights is not None
    assert (loaded.weights.bytes, loaded.weights.kind) == (1030, "computed")
    (folder / "model-2.safetensors").unlink()
    read = source.load(str(folder)).weights
    assert read is not None
    assert (read.bytes, read.kind) == (4096, "read")


def test_short_and_damaged_weights(tmp_path: Path) -> None:
    shutil.copy(QWEN, tmp_path / "config.json")
    weights = tmp_path / "model.safetensors"
    safetensors(weights, {"a": 100}, short=1)
    with pytest.raises(BadInput, match="need 100 bytes, it holds 99"):
        source.load(str(tmp_path))
    for data in (b"", b"12345678", struct.pack("<Q", 3) + b"{]}", struct.pack("<Q", 1 << 60) + b"{}", UNPLACED):
        weights.write_bytes(data)
        with pytest.raises(BadInput, match="safetensors"):
            source.load(str(tmp_path))


BAD = {
    "empty.json": (b"  ", "is empty"),
    "cut.json": (b'{"model_type": "llama",\n "num_hidden_la', r"line 2, column 2"),
    "list.json": (b"[1, 2]", "holds a JSON array, not an object"),
    "number.json": (b"7", "holds a JSON number, not an object"),
    "latin.json": (b'{"a": "\xe9"}', r"not UTF-8 text \(byte 7\)"),
    "page.json": (b"<!DOCTYPE html><html></html>", "HTML"),
    "deep.json": (b"[" * 100_000, "nests objects more than 50 deep"),
    "adapter_config.json": (b'{"peft_type": "LORA", "r": 8}', "base model"),
    "tokenizer_config.json": (b'{"tokenizer_class": "X", "added_tokens_decoder": {}}', "tokenizer"),
    "model.safetensors.index.json": (b'{"metadata": {"total_size": 1}, "weight_map": {"a": "b"}}', "index of weights"),
    "sizes.json": (b'{"model_type": "llama", "num_hidden_layers": 1e30, "num_attention_heads": 4}', "whole number"),
    "negative.json": (b'{"model_type": "llama", "num_hidden_layers": -1, "num_attention_heads": 4}', "is -1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_one_line(tmp_path: Path, name: str) -> None:
    data, words = BAD[name]
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(BadInput, match=words) as caught:
        source.load(str(file))
    assert len(str(caught.value).splitlines()) == 1
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"_class_name": "FluxPipeline", "_diffusers_version": "0.30"}, "diffusers"),
        ({"model_type": "bert", "architectures": ["BertModel"]}, "'bert'"),
        ({"model_type": "vit", "architectures": ["ViTForImageClassification"]}, "generates no text"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"model_type": "qwen2", "is_causal": False, "num_hidden_layers": 2}, "both directions"),
        ({"model_type": "qwen2", "architectures": ["Qwen2ForSequenceClassification"]}, "generates no text"),
        ({}, "a config without model_type"),
        ({"model_type": "clip", "vision_config": {"num_hidden_layers": 2}}, "'clip'"),
    ],
)
def test_models_without_a_cache_are_refused(tmp_path: Path, config: dict[str, object], words: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    with pytest.raises(UnknownModel, match=words):
        source.load(str(file))


def test_unknown_shapes_are_refused_by_name(tmp_path: Path) -> None:
    config = json.loads((CONFIGS / "RWKV__rwkv-5-world-3b.json").read_text())
    del config["rescale_every"]  # what tells RWKV from any other model that names the width of its attention
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    with pytest.raises(UnknownModel) as caught:
        source.load(str(file))
    assert "'rwkv5'; keys not understood: attention_hidden_size" in str(caught.value)


def test_paths_that_hold_no_model(tmp_path: Path) -> None:
    (tmp_path / "Qwen3-8B.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("")
    (tmp_path / "twice" / "config.json").mkdir(parents=True)
    (tmp_path / "weights.safetensors").write_bytes(b"\0" * (17 << 20))
    for path, words in {
        "Qwen3-8.json": "did you mean Qwen3-8B.json",
        "nowhere/config.json": "there is no folder",
        "empty": "it holds nothing",
        "other": "it holds notes.txt",
        "twice": "is a folder, not a file",
        "weights.safetensors": "17,825,792 bytes: weights, not a config",
    }.items():
        with pytest.raises(BadInput, match=words):
            source.load(str(tmp_path / path))
    for text in ("", " ", "\0", "x" * 5000):
        with pytest.raises(KvlabError):
            source.load(text)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(BadInput, match="no regular file"):
        source.load(str(tmp_path / "config.json"))


def test_a_folder_of_several_gguf_files_asks_for_one(tmp_path: Path) -> None:
    for name in ("a-q4.gguf", "a-q8.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(BadInput, match=r"2 GGUF models; give one: a-q4\.gguf, a-q8\.gguf"):
        source.load(str(tmp_path))


def test_missing_facts_name_the_keys(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64}')
    with pytest.raises(MissingFact, match="num_attention_heads, n_head"):
        source.load(str(file))


def test_a_config_needs_no_slow_imports() -> None:
    code = (
        "import sys; from kvlab import source; source.load(sys.argv[1]);"
        "print([m for m in ('json', 'gguf', 'numpy', 'huggingface_hub', 'mmap', 'difflib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(QWEN)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
