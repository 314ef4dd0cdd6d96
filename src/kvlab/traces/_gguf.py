"""The tokenizer that a GGUF file holds: SentencePiece vocabularies with scores ("llama"), as llama.cpp applies them.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#ggml. Pieces merge in the order of the score of what they
become, so the merges of an equal BPE model are all pairs of pieces that make a piece, best score first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kvlab.core.errors import BadInput
from kvlab.traces._tokens import Source

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CONTROL, _DEFINED = 3, 4
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
        from gguf import GGUFReader
    except ImportError:
        raise BadInput(f"reading {path} needs the package gguf: pip install 'kvlab[traffic]'") from None
    if not path.is_file():
        raise BadInput(f"{path} is not there; give the model's GGUF file")
    try:
        fields = GGUFReader(path).fields
        values = {name: field.contents() for name, field in fields.items() if name.startswith("tokenizer.")}
    except Exception as problem:  # the library raises what its parsing comes upon
        raise BadInput(f"{path} cannot be read as GGUF ({type(problem).__name__}); copy it again") from None
    kind = values.get("tokenizer.ggml.model")
    if kind != "llama":
        raise BadInput(f"{path} holds a vocabulary of kind {kind!r}; give the model's tokenizer.json instead")
    ids = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    at = {name: values.get(f"tokenizer.ggml.{key}_token_id") for name, key in ids.items()}
    return Vocabulary(
        tokens=values["tokenizer.ggml.tokens"],
        scores=values["tokenizer.ggml.scores"],
        kinds=values["tokenizer.ggml.token_type"],
        special={name: value for name, value in at.items() if isinstance(value, int)},
        space_first=bool(values.get("tokenizer.ggml.add_space_prefix", True)),
        begins=bool(values.get("tokenizer.ggml.add_bos_token", True)),
        template=values.get("tokenizer.chat_template"),
    )


def _built(vocabulary: Vocabulary, special: dict[str, str]) -> Tokenizer:
    from tokenizers import AddedToken, Tokenizer, models, normalizers, processors

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
