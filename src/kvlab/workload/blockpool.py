"""A pool of blocks: a queue of free ones, the oldest first, that stay cached until they are taken.

Blocks that a request frees go to the end of the queue, its tail first; those that hold nothing that could be found go
to the front. So vLLM keeps its blocks, and so a radix tree that drops its least recently used leaves first. Of those
that vLLM counts, one is the null block and is never used: leave it out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice


class BlockPool:
    """`size` blocks. A block is a number; its hash stands for its tokens and all before them."""

    def __init__(self, size: int) -> None:
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(size))
        self._uses = [0] * size
        self._hash: list[int | None] = [None] * size
        self._holders: dict[int, dict[int, None]] = {}
        self.size = size
        self.empty = size
        """Free blocks that hold nothing that could be found; they stand at the front of the queue."""

    @property
    def free(self) -> int:
        """Blocks that no request holds."""
        return len(self._free)

    def found(self, hashes: Sequence[int]) -> list[int]:
        """Blocks of the longest leading run of hashes that the cache holds."""
        blocks = []
        for value in hashes:
            holders = self._holders.get(value)
            if not holders:
                break
            blocks.append(next(iter(holders)))
        return blocks

    def unused(self, blocks: Sequence[int]) -> int:
        """How many of these blocks are free, so that taking them leaves fewer free ones."""
        return sum(self._uses[block] == 0 for block in blocks)

    def share(self, blocks: Sequence[int]) -> None:
        """Takes blocks that were found."""
        for block in blocks:
            self._free.pop(block, None)
            self._uses[block] += 1

    def take(self, count: int) -> list[int]:
        """`count` free blocks, whose content is forgotten; there must be as many."""
        taken = []
        for _ in range(count):
            block, _ = self._free.popitem(last=False)
            if self._hash[block] is None:
                self.empty -= 1
            else:
                self._forget(block)
            self._uses[block] = 1
            taken.append(block)
        return taken

    def name(self, block: int, value: int) -> None:
        """The block is full: from now on it can be found."""
        self._hash[block] = value
        self._holders.setdefault(value, {})[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """One request no longer holds these blocks, given in the order of its prompt."""
        for block in reversed(blocks):
            self._uses[block] -= 1
            if self._uses[block] == 0:
                self._free[block] = None
                if self._hash[block] is None:
                    self._free.move_to_end(block, last=False)
                    self.empty += 1

    def evict(self, count: int) -> None:
        """Forgets what the `count` oldest free blocks hold, or all, unless as many hold nothing already."""
        if self.empty >= count:
            return
        oldest = list(islice(self._free, self.empty, self.empty + count))
        for block in oldest:
            self._forget(block)
        self.empty += len(oldest)

    def _forget(self, block: int) -> None:
        value = self._hash[block]
        if value is None:
            return
        holders = self._holders[value]
        del holders[block]
        if not holders:
            del self._holders[value]
        self._hash[block] = None
