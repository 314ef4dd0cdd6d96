"""GGUF files -> the same Model and Layout as a config.json."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kvlab.core.config import Config
from kvlab.core.errors import BadInput
from kvlab.core.layout import Layout
from kvlab.core.model import Model, Origin, Weights
from kvlab.core.roofline import Work
from kvlab.families import understand
from kvlab.source import gguf_keys
from kvlab.source.gguf_file import Header, read_header
from kvlab.source.loaded import Loaded

_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


def load_gguf(path: Path) -> Loaded:
    """The model in a GGUF file, or in the shards of which `path` is the first."""
    shard = _SHARD.search(path.name)
    if shard and int(shard[1]) != 1:
        first = _SHARD.sub(f"-00001-of-{shard[2]}.gguf", path.name)
        raise BadInput(f"{path} is shard {int(shard[1])} of {int(shard[2])}; give the first one, {first}")
    header = read_header(path)
    config = gguf_keys.config(header.metadata, str(path))
    understood = understand(config)
    shards = [header, *_others(path, int(shard[2]) if shard else 1)]
    title = header.metadata.get("general.name")
    name = title if isinstance(title, str) and title.strip() else path.stem
    model = Model(
        name=name,
        model_type=gguf_keys.architecture(header.metadata, str(path)),
        context=config.maybe("context_length"),
        layers=config.need("block_count") - (config.maybe("nextn_predict_layers", least=0) or 0),
        hidden=config.maybe("embedding_length"),
        heads=max(config.numbers_or_one("attention.head_count")) if config.has("attention.head_count") else None,
        vocab=config.maybe("vocab_size"),
        weight_format="gguf",
    )
    return Loaded(
        origin=Origin(path.name, "gguf"),
        model=model,
        layout=understood.layout,
        weights=_weights(shards),
        doubts=understood.doubts,
        work=lambda read: _work(shards, model, understood.layout, config),
    )


def _work(shards: list[Header], model: Model, layout: Layout, config: Config) -> Work | None:
    from kvlab.source import gguf_work

    return gguf_work.work((size for shard in shards for size in shard.sizes), model, layout, config)


def _others(path: Path, shards: int) -> Iterator[Header]:
    """The headers of the shards after the first. Raises BadInput for one that is not there."""
    for number in range(2, shards + 1):
        name = _SHARD.sub(f"-{number:05}-of-{shards:05}.gguf", path.name)
        if not path.with_name(name).is_file():
            raise BadInput(f"{path} is the first of {shards} shards and {name} is not beside it; fetch all of them")
        yield read_header(path.with_name(name))


def _weights(shards: list[Header]) -> Weights:
    total, tensors = sum(shard.tensor_bytes for shard in shards), sum(shard.tensors for shard in shards)
    parts = f" in {len(shards)} shards" if len(shards) > 1 else ""
    return Weights(total, "computed", f"sum of the {tensors} tensors{parts} by shape and type")
