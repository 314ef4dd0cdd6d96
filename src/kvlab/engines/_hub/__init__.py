"""Failures that the Hub's client and Transformers report, for engines that load checkpoints with them."""

from __future__ import annotations

import re

from kvlab.core.observation import Failure

MODEL_GATED = Failure(
    code="model_gated",
    title="The model's terms were not accepted",
    pattern=re.compile(r"Cannot access gated repo|GatedRepoError|is a gated repo"),
    why="the Hub gives these weights only to accounts that accepted the licence",
    do=("accept the terms on the model's page", "log in: hf auth login"),
)


def model_not_found(*more: str) -> Failure:
    """No repository and no folder of that name; `more` are patterns of the engine's own words for it."""
    patterns = (
        r"RepositoryNotFoundError|is not a local folder and is not a valid model identifier",
        r"HFValidationError: Repo id must be|does not appear to have a file named config\.json",
    )
    return Failure(
        code="model_not_found",
        title="There is no such model",
        pattern=re.compile("|".join((*patterns, *more))),
        why="the name is neither a folder with a config.json nor a repository of the Hub that this account can see",
        do=("check the path or the id", "log in if the repository is private: hf auth login"),
    )


def remote_code(title: str) -> Failure:
    """A repository with code of its own; `title` is the engine's."""
    return Failure(
        code="remote_code",
        title="The model brings its own code",
        pattern=re.compile(
            r"contains custom code which must be executed|(?:argument|option|setting) `trust_remote_code=True`"
        ),
        why=f"{title} runs code from a model's repository only when told to",
        do=("read that code, then pass --engine-arg trust-remote-code=true",),
    )
