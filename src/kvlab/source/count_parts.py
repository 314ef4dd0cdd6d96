"""The matrices and vectors that a checkpoint holds, named as Hugging Face names them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Part(msgspec.Struct, frozen=True):
    """One tensor, or `copies` of one shape: a matrix of `out` x `into`, or a vector when `into` is 1."""

    name: str
    """Dotted; in a layer it starts with `layers.N.`, whatever the model calls the way there."""
    out: int
    into: int = 1
    copies: int = 1
    plain: bool = True
    """Norms, biases, routers, embeddings: no quantisation converts them."""
    always16: bool = False
    """Towers for images and sound: no published quantised checkpoint converts them."""
    embedding: bool = False
    """Embeddings and the head, which only MLX converts."""
    experts: bool = False

    @property
    def parameters(self) -> int:
        """Numbers in the tensor, all copies together."""
        return self.out * self.into * self.copies


def linear(name: str, out: int, into: int, bias: bool = False) -> list[Part]:
    """A projection from `into` to `out` values, with its bias."""
    weight = [Part(name, out, into, plain=False)]
    return [*weight, Part(f"{name}.bias", out)] if bias else weight


def norm(name: str, width: int, bias: bool = False) -> list[Part]:
    """A norm's scale, and its shift where it has one."""
    return [Part(name, width * (2 if bias else 1))]


def total(parts: Iterable[Part]) -> int:
    """Parameters of all the parts."""
    return sum(part.parameters for part in parts)
