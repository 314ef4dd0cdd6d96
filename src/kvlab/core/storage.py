"""How an engine stores a cached vector: values packed in blocks."""

from __future__ import annotations

import msgspec

from kvlab.core.errors import BadInput


class Storage(msgspec.Struct, frozen=True):
    """A storage format: `block_bytes` bytes hold `block_values` values."""

    name: str
    block_bytes: int
    block_values: int = 1

    def row_bytes(self, values: int) -> int:
        """Bytes of one row of `values` values. Raises BadInput when the row does not divide into blocks."""
        blocks, rest = divmod(values, self.block_values)
        if rest:
            raise BadInput(
                f"{self.name} stores {self.block_values} values a block and cannot hold rows of {values};"
                " choose another cache dtype"
            )
        return blocks * self.block_bytes
