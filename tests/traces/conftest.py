"""A small tokenizer of real make: byte-level BPE trained on a few lines, with a chat template beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

LINES = [
    "You are a helpful assistant of a railway. Be brief and polite.",
    "What does a ticket from Rome to Milan cost on Monday?",
    "The ticket costs fifty euros; children travel free of charge with their parents.",
]
TEMPLATE = (
    "{% if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a model's repository has it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder = tmp_path_factory.mktemp("tokenizer")
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|tools|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(LINES, trainer)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|end|>"}))
    return folder
