"""A model's tokenizer and chat template: requests -> token ids, as the engine would see them."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvlab.core.errors import BadInput
from kvlab.core.trace import Logged, Reading, Unusable

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
"""What llama.cpp takes for a model without a template."""
_BYTES = 4
"""Of UTF-8 a token, where there is no tokenizer."""
_TIMEOUT = 10.0
_SAMPLE = "the quick brown fox jumps over the lazy dog"


class Source(NamedTuple):
    """A tokenizer as it was found, with the template of its chats (None: it has none) and its special tokens."""

    tokenizer: Tokenizer
    template: str | None
    special: dict[str, str]


class Encoder(Protocol):
    """Text and requests to token ids."""

    note: str | None
    """What is taken for granted in it, if anything."""

    def encode(self, logged: Logged) -> Sequence[int]:
        """The prompt's tokens. Raises Unusable when the chat template refuses the messages."""

    def count(self, text: str) -> int:
        """Tokens of an answer."""


class Model:
    """The model's own tokenizer and chat template."""

    def __init__(self, source: Source) -> None:
        self._tokenizer = source.tokenizer
        self._template = _compiled(source.template or CHATML)
        self._special = source.special
        self._begins = source.template is None
        self.note = (
            None if source.template else "the tokenizer has no chat template; ChatML is taken, as llama.cpp does"
        )
        """Whether the tokens that open a prompt are the tokenizer's to add: a template writes them itself."""

    def encode(self, logged: Logged) -> list[int]:
        """The prompt's tokens."""
        if logged.ids is not None:
            return logged.ids
        if logged.messages is None:
            return self._ids(logged.prompt or "", True)
        return self._ids(self._text(logged), self._begins)

    def count(self, text: str) -> int:
        """Tokens of an answer."""
        return len(self._ids(text, False))

    def _ids(self, text: str, special: bool) -> list[int]:
        # A lone surrogate is valid in JSON and in no text: it would stop the tokenizer.
        plain = text.encode("utf-8", "replace").decode()
        return self._tokenizer.encode(plain, add_special_tokens=special).ids

    def _text(self, logged: Logged) -> str:
        try:
            return self._template(
                messages=logged.messages, tools=logged.tools, add_generation_prompt=True, **self._special
            )
        except Exception as problem:  # a template may raise anything, and its words may hold the log's text
            raise Unusable(f"the chat template refuses its messages ({type(problem).__name__})") from None


class Estimate:
    """Four bytes of UTF-8 a token: prefixes stay prefixes, lengths are a rule of thumb."""

    def __init__(self) -> None:
        self._template = _compiled(CHATML)
        self.note: str | None = None

    def encode(self, logged: Logged) -> Sequence[int]:
        """The prompt in pieces."""
        if logged.ids is not None:
            return logged.ids
        text = logged.prompt or ""
        if logged.messages is not None:
            tools = json.dumps(logged.tools) + "\n" if logged.tools else ""
            text = tools + self._template(messages=logged.messages)
        content = text.encode("utf-8", "replace")
        pieces = array("i")
        pieces.frombytes(content + b"\0" * (-len(content) % pieces.itemsize))
        return pieces

    def count(self, text: str) -> int:
        """Pieces of an answer."""
        return -(-len(text.encode("utf-8", "replace")) // _BYTES)


def encoder(reading: Reading) -> Encoder | None:
    """What turns text into tokens; None when none was asked for. Raises BadInput for a tokenizer that is none."""
    if reading.tokenizer is not None:
        return Model(load(reading.tokenizer))
    return Estimate() if reading.estimate else None


def load(named: str) -> Source:
    """The tokenizer of a tokenizer.json, a folder with one, a GGUF file, or a model on the Hub. Raises BadInput."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise BadInput("counting tokens needs the package tokenizers: pip install 'kvlab[traffic]'") from None
    path = Path(named)
    if named.lower().endswith(".gguf"):
        from kvlab.traces import _gguf

        return _gguf.load(path)
    file = path / "tokenizer.json" if path.is_dir() else path
    beside: Callable[[str], Path | None] = lambda name: _there(file.with_name(name))  # noqa: E731
    if not file.exists():
        if path.exists() or named.count("/") != 1 or named.startswith(".") or named.endswith(".json"):
            raise BadInput(f"{file} is not there; --tokenizer takes tokenizer.json, its folder, a GGUF or a Hub model")
        file = _fetched(named, "tokenizer.json")
        beside = lambda name: _fetched_if_there(named, name)  # noqa: E731
    try:
        found = Tokenizer.from_file(str(file))
    except Exception as problem:  # the library raises bare Exception
        raise BadInput(f"{file} is no tokenizer: {' '.join(str(problem).split())[:120]}") from None
    _refuse_lossy(found, file)
    config = _object(beside("tokenizer_config.json"))
    special = {key: _word(config.get(key)) for key in ("bos_token", "eos_token", "unk_token", "pad_token")}
    file_of_template = beside("chat_template.jinja")
    template = file_of_template.read_text("utf-8") if file_of_template else _template(config.get("chat_template"))
    return Source(found, template, special)


def _refuse_lossy(tokenizer: Tokenizer, file: Path) -> None:
    """Raises BadInput for a tokenizer that drops text, as one without a vocabulary for it does: it would count little
    of what the engine reads.
    """
    said = tokenizer.decode(tokenizer.encode(_SAMPLE, add_special_tokens=False).ids)
    letters, kept = Counter(_SAMPLE.lower()), Counter(said.lower())
    if (letters & kept).total() < letters.total() / 2:
        raise BadInput(f"{file} drops most letters of plain English text; give the tokenizer that the engine uses")


def _template(stated: object) -> str | None:
    """The template, or of several the one called "default"."""
    if isinstance(stated, list):
        named = {item.get("name"): item.get("template") for item in stated if isinstance(item, dict)}
        stated = named.get("default")
    return stated if isinstance(stated, str) else None


def _word(stated: object) -> str:
    """A special token, stated as text or as an object with its content."""
    if isinstance(stated, dict):
        stated = stated.get("content")
    return stated if isinstance(stated, str) else ""


def _object(path: Path | None) -> dict[str, object]:
    try:
        found = json.loads(path.read_text("utf-8")) if path is not None else {}
    except (OSError, ValueError, RecursionError) as problem:
        raise BadInput(f"{path} cannot be read: {type(problem).__name__}; give another --tokenizer") from None
    return found if isinstance(found, dict) else {}


def _there(path: Path) -> Path | None:
    return path if path.is_file() else None


def _fetched(name: str, file: str) -> Path:
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache

    repository, _, revision = name.partition("@")
    try:
        cached = try_to_load_from_cache(repository, file, revision=revision or None)
        if isinstance(cached, str):
            return Path(cached)
        # Asked first, because a download repeats a failed connection for half a minute.
        get_hf_file_metadata(hf_hub_url(repository, file, revision=revision or None), timeout=_TIMEOUT)
        return Path(hf_hub_download(repository, file, revision=revision or None, etag_timeout=_TIMEOUT))
    except Exception as problem:
        raise BadInput(
            f"{name} is neither here nor can its {file} be had from the Hub ({type(problem).__name__}); check the name,"
            " or give a local tokenizer.json"
        ) from problem


def _fetched_if_there(name: str, file: str) -> Path | None:
    from huggingface_hub import errors

    try:
        return _fetched(name, file)
    except BadInput as refusal:
        if isinstance(refusal.__cause__, errors.EntryNotFoundError):
            return None
        raise


@cache
def _compiled(text: str) -> Callable[..., str]:
    """The template in a sandbox: it can compute text from what it is given and nothing else. Raises BadInput."""
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    world = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def refuse(message: str) -> None:
        raise TemplateError(message)

    world.globals["raise_exception"] = refuse
    # The day on which a log is read is not the day of its requests; one fixed day keeps their prefixes as equal.
    world.globals["strftime_now"] = lambda form: "2026-01-01"
    world.filters["tojson"] = lambda value, indent=None, **_: json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        return world.from_string(text).render
    except TemplateError as problem:
        raise BadInput(f"the tokenizer's chat template cannot be used: {str(problem)[:120]}") from None
