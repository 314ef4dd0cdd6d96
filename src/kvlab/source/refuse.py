"""JSON files of a model that are not its config, and configs of models that generate no text."""

from __future__ import annotations

import re

from kvlab.core.config import Config
from kvlab.core.errors import BadInput, UnknownModel

_HEADS = re.compile(
    r"For(MaskedLM|SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice|ImageClassification"
    r"|ObjectDetection|SemanticSegmentation|Pretraining|PreTraining|AudioClassification|CTC)$|VisionModel$"
)
_ENCODERS = frozenset(
    {"bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "deberta", "deberta-v2", "modernbert"}
    | {"nomic_bert", "mpnet", "camembert", "clip", "siglip", "siglip2", "vit", "dinov2", "swin", "convnext", "wav2vec2"}
    | {"hubert", "esm", "layoutlmv3", "chinese_clip", "align", "blip"}
)


def other_files(config: Config) -> None:
    """Raise BadInput for a JSON file that is no model config, UnknownModel for a model that keeps no cache."""
    where = config.where
    if config.has("peft_type", "lora_alpha"):
        raise BadInput(f"{where} is a LoRA adapter's config; give the config of its base model")
    if config.has("tokenizer_class", "added_tokens_decoder", "chat_template") and not config.has("model_type"):
        raise BadInput(f"{where} is a tokenizer's config; give the model's config.json")
    if config.has("_diffusers_version", "_class_name"):
        raise UnknownModel(f"{where} is a diffusers config: image models keep no KV cache; give a language model's")
    if config.has("weight_map") and config.has("metadata"):
        raise BadInput(f"{where} is an index of weights; give the model's config.json or its folder")
    if config.has("modules", "similarity_fn_name") and not config.has("model_type"):
        raise UnknownModel(f"{where} is a sentence-transformers config: embedding models keep no KV cache")
    _not_generative(config)


def _not_generative(config: Config) -> None:
    kind, names = config.peek("model_type"), config.peek("architectures")
    heads = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    for level in (config, config.language()):
        if level.peek("is_encoder_decoder") is True and not level.has("max_source_positions"):
            raise UnknownModel(
                f"{config.where}: model_type {kind!r} is an encoder-decoder; the key is_encoder_decoder says so, and no"
                " key (max_source_positions) how long the encoder's output is"
            )
        if level.peek("use_bidirectional_attention") in (True, "all") or level.peek("is_causal") is False:
            raise UnknownModel(
                f"{config.where}: model_type {kind!r} attends in both directions (an embedding model);"
                " engines keep no KV cache for it"
            )
    encoder = isinstance(kind, str) and kind in _ENCODERS and config.peek("is_decoder") is not True
    if encoder or (heads and all(_HEADS.search(name) for name in heads)):
        raise UnknownModel(
            f"{config.where}: model_type {kind!r} ({', '.join(heads) or 'an encoder'}) generates no text and keeps no"
            " KV cache; give a language model's config"
        )
