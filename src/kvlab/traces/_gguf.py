"""The tokenizer that a GGUF file holds: SentencePiece vocabularies with scores ("llama"), as llama.cpp applies them.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#ggml. Pieces merge in the order of the score of what they
become, so the merges of an equal BPE model are all pairs of pieces that make a piece, best score first.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from kvlab.core.errors import BadInput
from kvlab.store import open_regular
from kvlab.traces._tokens import Source

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CONTROL, _DEFINED = 3, 4
_STRING, _ARRAY = 8, 9
_FORMS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"
}  # fmt: skip
"""Kinds of metadata values as struct writes them."""
_SPACE = "\u2581"


class Vocabulary(NamedTuple):
    """tokenizer.ggml.* of a file."""

    tokens: list[str]
    scores: list[float]
    kinds: list[int]
    special: dict[str, int]
    space_first: bool
    begins: bool
    template: str | None


def load(path: Path) -> Source:
    """Raises BadInput for a file that is no GGUF, or whose vocabulary is of another kind."""
    vocabulary = _read(path)
    words = {name: vocabulary.tokens[at] for name, at in vocabulary.special.items() if at < len(vocabulary.tokens)}
    special = {f"{name}_token": words.get(name, "") for name in ("bos", "eos", "unk", "pad")}
    return Source(_built(vocabulary, special), vocabulary.template, special)


def _read(path: Path) -> Vocabulary:
    try:
        with os.fdopen(open_regular(path, "GGUF file"), "rb") as file, _mapped(file) as content:
            values = _metadata(content)
    except (struct.error, ValueError, UnicodeDecodeError, KeyError, OverflowError):
        raise BadInput(f"{path} cannot be read as GGUF; copy it again") from None
    kind, tokens = values.get("tokenizer.ggml.model"), values.get("tokenizer.ggml.tokens")
    scores, kinds = values.get("tokenizer.ggml.scores"), values.get("tokenizer.ggml.token_type")
    if kind != "llama" or not isinstance(tokens, list) or not isinstance(scores, list) or not isinstance(kinds, list):
        raise BadInput(f"{path} holds a vocabulary of kind {kind!r}; give the model's tokenizer.json instead")
    if not len(tokens) == len(scores) == len(kinds):
        raise BadInput(f"{path} has {len(tokens):,} tokens and {len(scores):,} scores; copy it again")
    ids = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    at = {name: values.get(f"tokenizer.ggml.{key}_token_id") for name, key in ids.items()}
    template = values.get("tokenizer.chat_template")
    return Vocabulary(
        tokens=tokens,
        scores=scores,
        kinds=kinds,
        special={name: value for name, value in at.items() if isinstance(value, int) and value < len(tokens)},
        space_first=bool(values.get("tokenizer.ggml.add_space_prefix", True)),
        begins=bool(values.get("tokenizer.ggml.add_bos_token", True)),
        template=template if isinstance(template, str) else None,
    )


def _mapped(file: IO[bytes]) -> mmap.mmap:
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _metadata(content: mmap.mmap) -> dict[str, object]:
    """The keys that begin with "tokenizer."; the others are passed over."""
    magic, version, _, count = struct.unpack_from("<4sIQQ", content)
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError
    at, found = 24, dict[str, object]()
    for _ in range(count):
        key, at = _string(content, at)
        (kind,) = struct.unpack_from("<I", content, at)
        value, at = _value(content, at + 4, kind)
        if key.startswith("tokenizer."):
            found[key] = value
    return found


def _value(content: mmap.mmap, at: int, kind: int) -> tuple[object, int]:
    if kind == _STRING:
        return _string(content, at)
    if kind != _ARRAY:
        form = _FORMS[kind]
        return struct.unpack_from(form, content, at)[0], at + struct.calcsize(form)
    inner, length = struct.unpack_from("<IQ", content, at)
    at += 12
    if length > len(content):
        raise ValueError
    if inner not in (_STRING, _ARRAY):
        form = f"<{length}{_FORMS[inner][1]}"
        return list(struct.unpack_from(form, content, at)), at + struct.calcsize(form)
    values = []
    for _ in range(length):
        value, at = _value(content, at, inner)
        values.append(value)
    return values, at


def _string(content: mmap.mmap, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", content, at)
    end = at + 8 + length
    if end > len(content):
        raise ValueError
    return content[at + 8 : end].decode("utf-8", "replace"), end


def _built(vocabulary: Vocabulary, special: dict[str, str]) -> Tokenizer:
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

    ranks = {token: at for at, token in enumerate(vocabulary.tokens)}
    model = models.BPE(
        vocab=ranks,
        merges=_merges(vocabulary, ranks),
        unk_token=special["unk_token"] or None,
        fuse_unk=True,
        byte_fallback=True,
    )
    built = Tokenizer(model)
    space: list[object] = [normalizers.Replace(" ", _SPACE)]
    if vocabulary.space_first:
        space.insert(0, normalizers.Prepend(_SPACE))
    built.normalizer = normalizers.Sequence(space)
    back: list[object] = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if vocabulary.space_first:
        back.append(decoders.Strip(" ", 1, 0))
    built.decoder = decoders.Sequence(back)
    marked = [
        AddedToken(token, normalized=False, special=kind == _CONTROL)
        for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
        if kind in (_CONTROL, _DEFINED)
    ]
    built.add_tokens(marked)
    if vocabulary.begins and special["bos_token"]:
        first = special["bos_token"]
        built.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", special_tokens=[(first, vocabulary.special["bos"])]
        )
    return built


def _merges(vocabulary: Vocabulary, ranks: dict[str, int]) -> list[tuple[str, str]]:
    found = [
        (-score, ranks[token[:cut]], token[:cut], token[cut:])
        for token, score, kind in zip(vocabulary.tokens, vocabulary.scores, vocabulary.kinds, strict=True)
        if kind == 1 and len(token) > 1
        for cut in range(1, len(token))
        if token[:cut] in ranks and token[cut:] in ranks
    ]
    found.sort()
    return [(left, right) for _, _, left, right in found]
