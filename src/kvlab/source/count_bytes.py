"""Bytes of counted matrices in the dtype and the quantisation that the config declares."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kvlab.core.config import Config
from kvlab.source.count_names import Names, names
from kvlab.source.count_parts import Part

_WHOLE = 1 << 62
_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "half": 2, "float": 4}


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """How one matrix is stored: values of `bits`, and one scale of `scale_bits` for each block of it."""

    bits: int
    rows: int = _WHOLE
    columns: int = _WHOLE
    scale_bits: float = 32
    column_bits: int = 0
    """Bits for each input (GPTQ's order of groups)."""

    def matrix_bytes(self, part: Part) -> int:
        """Bytes of all copies of the part."""
        blocks = -(-part.out // self.rows) * -(-part.into // self.columns)
        bits = part.out * part.into * self.bits + blocks * self.scale_bits + part.into * self.column_bits
        return part.copies * -(-round(bits) // 8)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Which matrices are stored how: named ones first, then the rest, unless they are left alone."""

    default: Format | None
    named: tuple[tuple[Names, Format], ...] = ()
    ignored: Names = Names()
    embeddings: bool = False
    experts_only: bool = False
    expert: Format | None = None

    def stored(self, part: Part) -> Format | None:
        """How the part is stored; None: plainly, in the model's dtype."""
        if part.always16 or (part.plain and not (part.embedding and self.embeddings)):
            return None
        found = next((format for listed, format in self.named if _holds(listed, part)), None)
        if found is not None:
            return found
        if _holds(self.ignored, part) or (self.experts_only and not part.experts):
            return None
        return self.expert if part.experts and self.expert is not None else self.default

    def fit(self, parts: list[Part]) -> bool:
        """Whether each list of named modules names some part (else its names are not the ones counted here), and no
        value is wider than plain ones.
        """
        if any(stored.bits > 16 for stored in (self.default, *(stored for _, stored in self.named)) if stored):
            return False
        return all(any(_holds(listed, part) for part in parts) for listed, _ in self.named)


PLAIN = Rules(default=None)
_LETTERS = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}
"""How Mixtral and MiniMax name the matrices of an expert."""


def _holds(listed: Names, part: Part) -> bool:
    if listed.hold(part.name):
        return True
    way, _, last = part.name.rpartition(".")
    return part.experts and listed.hold(f"{way}.{_LETTERS.get(last, last)}")


def dtype_bytes(*configs: Config) -> int | None:
    """Bytes of one unquantised value, from the first config that states a dtype; None for one that is not known.

    Configs of old models state none, and engines then load 16 bits. Transformers 5 writes one: a config of its without
    dtype or quantisation is not whole, and tells nothing about sizes.
    """
    for config in configs:
        value = config.peek("torch_dtype") or config.peek("dtype")
        if isinstance(value, str) and value != "auto":
            return _DTYPE_BYTES.get(value.removeprefix("torch."))
    written = [str(config.peek("transformers_version")) for config in configs]
    quantised = any(config.has("quantization_config", "quantization") for config in configs)
    return None if not quantised and any(version.startswith("5.") for version in written) else 2


def total_bytes(parts: Iterable[Part], rules: Rules, plain: int) -> int:
    """Bytes of all the parts; `plain` is the bytes of one unquantised value."""
    return sum(part_bytes(part, rules, plain) for part in parts)


def part_bytes(part: Part, rules: Rules, plain: int) -> int:
    """Bytes of all copies of a part."""
    stored = rules.stored(part)
    return part.parameters * plain if stored is None else stored.matrix_bytes(part)


def rules(root: Config, language: Config, quant: Config | None) -> Rules | None:
    """The rules of a config (or of ModelOpt's own file); None for a method whose sizes are not known."""
    for config in (root, language):
        scheme = config.sub("quantization_config") or config.sub("quantization")
        if scheme is not None:
            return _declared(scheme, root.text("expert_dtype"))
    if quant is not None:
        inner = quant.sub("quantization")
        if inner is None:
            return None
        # ModelOpt's file may state a cache format alone.
        return _modelopt(inner) if inner.has("quant_algo") else PLAIN
    return PLAIN


def _declared(scheme: Config, expert_dtype: str | None) -> Rules | None:
    method = scheme.text("quant_method")
    readers = {
        "fp8": _fp8,
        "fbgemm_fp8": _channel_fp8,
        "gptq": _gptq,
        "awq": _awq,
        "bitsandbytes": _bitsandbytes,
        "mxfp4": _mxfp4,
        "compressed-tensors": _compressed,
        "modelopt": _modelopt,
        "modelopt_fp4": _modelopt,
    }
    if method is None:
        return _mlx(scheme) if scheme.has("group_size") and scheme.has("bits") else _modelopt(scheme)
    reader = readers.get(method)
    found = reader(scheme) if reader else None
    if found is None or expert_dtype is None:
        return found
    if expert_dtype != "fp4":
        return None
    return msgspec.structs.replace(found, expert=MXFP4)  # DeepSeek V4: experts in blocks of 32 with e8m0 scales


MXFP4 = Format(bits=4, rows=1, columns=32, scale_bits=8)
NVFP4 = Format(bits=4, rows=1, columns=16, scale_bits=8)
TENSOR8 = Format(bits=8, scale_bits=64)
"""One scale for the weight, one for its input."""
CHANNEL8 = Format(bits=8, rows=1, scale_bits=32)


def _listed(scheme: Config, *keys: str) -> Names | None:
    return names(scheme.items(*keys))


def _fp8(scheme: Config) -> Rules | None:
    ignored, block = _listed(scheme, "modules_to_not_convert", "ignored_layers"), scheme.numbers("weight_block_size")
    if ignored is None or (block is not None and (len(block) != 2 or 0 in block)):
        return None
    default = Format(bits=8, rows=block[0], columns=block[1]) if block else TENSOR8
    return Rules(default=default, ignored=ignored)


def _channel_fp8(scheme: Config) -> Rules | None:
    ignored = _listed(scheme, "modules_to_not_convert")
    return None if ignored is None else Rules(default=CHANNEL8, ignored=ignored)


def _gptq(scheme: Config) -> Rules | None:
    """https://github.com/AutoGPTQ/AutoGPTQ: packed values and zeros, 16-bit scales, an index for each input."""
    if scheme.has("dynamic"):
        return None
    bits, group = scheme.need("bits"), _group(scheme)
    ignored = _listed(scheme, "modules_to_not_convert", "modules_to_not_quantize")
    if ignored is None:
        return None
    return Rules(
        default=Format(bits=bits, rows=1, columns=group, scale_bits=16 + bits, column_bits=32), ignored=ignored
    )


def _awq(scheme: Config) -> Rules | None:
    """https://github.com/casper-hansen/AutoAWQ: packed values and zeros, 16-bit scales."""
    bits, group = scheme.need("bits", "w_bit"), _group(scheme)
    zeros = bits if scheme.flag("zero_point") is not False else 0
    ignored = _listed(scheme, "modules_to_not_convert")
    if ignored is None:
        return None
    return Rules(default=Format(bits=bits, rows=1, columns=group, scale_bits=16 + zeros), ignored=ignored)


def _group(scheme: Config) -> int:
    """The group size; -1 is one group for all inputs."""
    return _WHOLE if scheme.peek("group_size") == -1 else scheme.need("group_size", "q_group_size")


def _bitsandbytes(scheme: Config) -> Rules | None:
    """Blocks of 64 values with a 32-bit maximum; quantised again, 8 bits and a 32-bit maximum for each 256."""
    ignored = _listed(scheme, "llm_int8_skip_modules")
    if ignored is None:
        return None
    if scheme.flag("load_in_8bit"):
        return Rules(default=CHANNEL8, ignored=ignored)
    if not scheme.flag("load_in_4bit"):
        return None
    scale = 8 + 32 / 256 if scheme.flag("bnb_4bit_use_double_quant") else 32
    return Rules(default=Format(bits=4, rows=1, columns=64, scale_bits=scale), ignored=ignored)


def _mxfp4(scheme: Config) -> Rules | None:
    """gpt-oss: only the experts, in blocks of 32 with an 8-bit exponent."""
    ignored = _listed(scheme, "modules_to_not_convert")
    return None if ignored is None else Rules(default=MXFP4, ignored=ignored, experts_only=True)


def _mlx(scheme: Config) -> Rules | None:
    """https://github.com/ml-explore/mlx: linear layers and embeddings, a 16-bit scale and shift for each group."""
    if scheme.text("mode") not in (None, "affine") or any(isinstance(value, dict) for _, value in scheme.unread()):
        return None  # single layers with bits of their own
    bits, group = scheme.need("bits"), scheme.need("group_size")
    return Rules(default=Format(bits=bits, rows=1, columns=group, scale_bits=32), embeddings=True)


def _compressed(scheme: Config) -> Rules | None:
    """https://github.com/neuralmagic/compressed-tensors: groups of targets with one way of storing weights each."""
    groups, ignored = scheme.sub("config_groups"), _listed(scheme, "ignore")
    if groups is None or ignored is None:
        return None
    default, named = None, []
    for key, _ in list(groups.unread()):
        group = groups.sub(key.removeprefix(groups.path).split(".")[0])
        weights = group.sub("weights") if group else None
        if group is None or weights is None:
            return None
        stored, targets = _weights_format(weights), group.items("targets") or []
        listed = names([target for target in targets if target != "Linear"])
        if stored is None or listed is None:
            return None
        if "Linear" in targets:
            default = stored
        else:
            named.append((listed, stored))
    return Rules(default=default, named=tuple(named), ignored=ignored)


def _weights_format(weights: Config) -> Format | None:
    bits, kind, strategy = weights.need("num_bits"), weights.text("type"), weights.text("strategy")
    group = weights.maybe("group_size", least=-1)
    if kind == "float" and bits == 4 and group in (16, 32):
        return NVFP4 if group == 16 else MXFP4
    if strategy == "channel":
        return Format(bits=bits, rows=1, scale_bits=16)
    if strategy == "tensor":
        return Format(bits=bits, scale_bits=64)
    if strategy == "block":
        block = weights.numbers("block_structure") or []
        return Format(bits=bits, rows=block[0], columns=block[1]) if len(block) == 2 and all(block) else None
    if strategy == "group" and kind == "int" and group and group > 0:
        zeros = 0 if weights.flag("symmetric") is not False else bits
        return Format(bits=bits, rows=1, columns=group, scale_bits=16 + zeros)
    return None


_MODELOPT = {
    "FP8": TENSOR8,
    "NVFP4": NVFP4,
    "NVFP4_AWQ": NVFP4,
    "W4A16_NVFP4": NVFP4,
    "FP8_PB_WO": Format(bits=8, rows=128, columns=128),
    "FP8_PER_CHANNEL_PER_TOKEN": CHANNEL8,
    "MXFP8": Format(bits=8, rows=1, columns=32, scale_bits=8),
}


def _modelopt(scheme: Config) -> Rules | None:
    """https://github.com/NVIDIA/TensorRT-Model-Optimizer: one algorithm with exclusions, or a list of layers."""
    algorithm = scheme.text("quant_algo")
    if algorithm == "MIXED_PRECISION":
        return _mixed(scheme)
    if algorithm is None and scheme.has("config_groups"):
        return _compressed(scheme)
    stored = _MODELOPT.get(algorithm or "")
    listed = scheme.items("exclude_modules", "ignore")
    ignored = names(listed)
    # A file without exclusions is abridged: the head at least is always left alone.
    return None if stored is None or ignored is None or not listed else Rules(default=stored, ignored=ignored)


def _mixed(scheme: Config) -> Rules | None:
    layers = scheme.sub("quantized_layers")
    if layers is None:
        return None
    found: dict[str, list[object]] = {}
    for name in [key.removeprefix(layers.path) for key, _ in list(layers.unread())]:
        entry = layers.sub(name)
        algorithm = entry.text("quant_algo") if entry else None
        if algorithm not in _MODELOPT:
            return None
        found.setdefault(algorithm, []).append(name)
    named = [(names(listed), _MODELOPT[algorithm]) for algorithm, listed in found.items()]
    return Rules(default=None, named=tuple((listed, stored) for listed, stored in named if listed is not None))
