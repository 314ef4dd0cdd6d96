"""Models on the Hugging Face Hub, without downloading weights."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import replace

from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt, Origin, Weights
from kvlab.source.loaded import Loaded
from kvlab.source.parse import MAX_CONFIG_BYTES

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")
_TIMEOUT = 10.0
"""Seconds to wait for the Hub's answer."""
_FILES = (".json", ".gguf", ".safetensors")


def looks_like_id(text: str) -> bool:
    """Whether `text` can be `org/name` or `org/name@revision` rather than a path."""
    return _ID.fullmatch(text) is not None and not text.lower().endswith(_FILES) and not Path(text).parent.is_dir()


def load_hub(text: str, revision: str | None) -> Loaded:
    """The config of a Hub model and the bytes of its tensors, from their headers alone.

    Raises BadInput, one line, for a model that is not there, gated, or cannot be reached. The token (HF_TOKEN) is used
    by huggingface_hub and never appears in a message.
    """
    from kvlab.source import files

    name, _, suffix = text.partition("@")
    revision = revision or suffix or None
    config = files.read_config(_fetch(name, "config.json", revision), f"{name}/config.json")
    # Only ModelOpt's checkpoints have the file.
    found = _fetch_if_there(name, "hf_quant_config.json", revision)
    quant = None if found is None else files.read_config(found, f"{name}/hf_quant_config.json")
    loaded = files.from_config(config, Origin(name, "hub", revision), name, quant)
    weights, failure = _weights(name, revision)
    if weights is not None:
        return replace(loaded, weights=weights)
    loaded = files.counted(loaded, config, quant)
    if failure is None:
        return loaded
    instead = "the weights are counted from the config" if loaded.weights else "give --weights-gib X"
    text = f"the Hub's safetensors headers could not be read ({failure}); {instead}"
    return replace(loaded, doubts=(*loaded.doubts, Doubt("weights", text)))


def _fetch_if_there(name: str, file: str, revision: str | None) -> Path | None:
    """As `_fetch`; None for a file that the model does not have."""
    from huggingface_hub import errors

    try:
        return _fetch(name, file, revision)
    except BadInput as refusal:
        cause = refusal.__cause__
        missing = isinstance(cause, errors.EntryNotFoundError)
        offline = not isinstance(cause, errors.HfHubHTTPError)
        if missing or offline:
            # Offline, a cached model is read from what was downloaded; a file that was not is taken as not there.
            return None
        raise


def _fetch(name: str, file: str, revision: str | None) -> Path:
    """The file, downloaded, or from huggingface_hub's cache when the Hub cannot be reached."""
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache

    try:
        # Asked first, because a download repeats a failed connection for half a minute.
        told = get_hf_file_metadata(hf_hub_url(name, file, revision=revision), timeout=_TIMEOUT)
        if told.size is not None and told.size > MAX_CONFIG_BYTES:
            raise BadInput(f"{name} has a {file} of {told.size:,} bytes, which is no config; check the name")
        return Path(hf_hub_download(name, file, revision=revision, etag_timeout=_TIMEOUT))
    except errors.HfHubHTTPError as error:
        raise _line(error, name, file, revision) from error
    except BadInput:
        raise
    except Exception as error:
        cached = try_to_load_from_cache(name, file, revision=revision)
        if isinstance(cached, str):
            return Path(cached)
        raise _line(error, name, file, revision) from error


def _weights(name: str, revision: str | None) -> tuple[Weights | None, str | None]:
    """Bytes of the tensors, or the class of the error that kept them from being read (None: there are no headers)."""
    from huggingface_hub import HfApi, errors

    from kvlab.source import safetensors

    try:
        found = HfApi().get_safetensors_metadata(name, revision=revision)
    except errors.NotASafetensorsRepoError:
        return None, None
    except Exception as error:
        return None, type(error).__name__
    tensors = [
        safetensors.shaped(name, tensor.data_offsets[1] - tensor.data_offsets[0], tensor.shape)
        for file in found.files_metadata.values()
        for name, tensor in file.tensors.items()
    ]
    return safetensors.summed(tensors, f"{len(found.files_metadata)} safetensors headers"), None


def _line(error: Exception, name: str, file: str, revision: str | None) -> BadInput:
    """One line for whatever huggingface_hub raises; unknown errors are named by their class only."""
    from huggingface_hub import errors

    at = f"{name}@{revision}" if revision else name
    if isinstance(error, errors.GatedRepoError):
        return BadInput(f"{at} is gated: accept its licence on the Hub and set HF_TOKEN, or give a local config.json")
    if isinstance(error, errors.RevisionNotFoundError):
        return BadInput(f"{name} has no revision {revision!r}; check the branch, tag or commit")
    if isinstance(error, errors.RepositoryNotFoundError):
        return BadInput(
            f"{at} is neither a file or folder here nor a model on the Hub (a private one needs HF_TOKEN);"
            " check the name"
        )
    if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
        return BadInput(f"{at} has no {file} on the Hub (a GGUF-only model? download its .gguf and give the file)")
    return BadInput(
        f"{at} is not here and the Hub cannot be reached ({type(error).__name__}); check the network, or give a local"
        " config.json"
    )
