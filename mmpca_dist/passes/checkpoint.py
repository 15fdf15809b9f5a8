"""Checkpoints keep the results of groups of spans, so that a killed run repeats no more than the groups in flight.

A group is a node of the merge tree. The tree depends on the spans alone, so a pass that reads some nodes back gives
the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.schedulers import Finding
from mmpca_dist.passes.serialization import decode, encode, is_contiguous, size_of
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import reading_own

GROUPS = 64
"""A pass keeps at most so many groups of the smallest size."""
LEVELS = 2
"""Kept groups lie so many levels of the tree apart."""
SHARE = 16
"""A result is kept if it is at most this fraction (1/16) of the bytes that were read for it."""
SMALL = 64 << 10
"""Results of up to so many bytes are always kept."""


@dataclass
class Checkpoint:
    """The folder of a stage, for its passes one after the other; their order is the same in every attempt."""

    uri: str  # a path or URL that all workers reach
    n_bytes: int  # what a pass reads
    _passes: int = 0

    @functools.cached_property
    def paths(self) -> list[str]:
        """Results that an earlier attempt has left."""
        return [path for path, *_ in storage.list_objects(self.uri)]

    def within(self, name: str) -> Checkpoint:
        """Return the folder of a part of the stage, which another attempt may find done and skip."""
        return Checkpoint(storage.join(self.uri, name), self.n_bytes)

    def next_pass(self, name: str, n_spans: int) -> PassCheckpoint:
        """Return the checkpoint of the next pass."""
        self._passes += 1
        folder = f"{self._passes:03d}-{name}"
        names = frozenset(path.removeprefix(f"{folder}/") for path in self.paths if path.startswith(f"{folder}/"))
        return PassCheckpoint(storage.join(self.uri, folder), n_spans, self.n_bytes, names)


@dataclass(frozen=True)
class PassCheckpoint:
    """The checkpoint of one pass. A node of its tree has a depth, counted from the spans up, and a number."""

    uri: str
    n_spans: int
    n_bytes: int
    names: frozenset[str]

    @property
    def top(self) -> int:
        """Depth of the root."""
        return (self.n_spans - 1).bit_length()

    def keeps(self, depth: int) -> bool:
        """Tell whether nodes of this depth are kept."""
        lowest = max(self.top - GROUPS.bit_length() + 1, 0)
        return depth == self.top or (depth >= lowest and (depth - lowest) % LEVELS == 0)

    def has(self, depth: int, number: int) -> bool:
        """Tell whether an earlier attempt has kept this node."""
        return _name(depth, number) in self.names

    def uri_of(self, depth: int, number: int) -> str:
        """Return where a node is kept."""
        return storage.join(self.uri, _name(depth, number))

    def largest(self, depth: int) -> int:
        """Return the largest size of a result that is kept, in bytes."""
        share = min(2**depth / self.n_spans, 1.0)
        return max(int(self.n_bytes * share) // SHARE, SMALL)


def most_kept(n_bytes: int, n_spans: int, size: Callable[[int], int]) -> int:
    """Return how many bytes a pass over ``n_bytes`` keeps at most; results of so many spans take ``size`` bytes."""
    if n_bytes < LIMITS.resumable_bytes:
        return 0
    kept = PassCheckpoint("", n_spans, n_bytes, frozenset())
    depths = [depth for depth in range(kept.top + 1) if kept.keeps(depth)]
    return sum(-(-n_spans // 2**depth) * min(size(2**depth), kept.largest(depth)) for depth in depths)


def _name(depth: int, number: int) -> str:
    return f"{depth}-{number}.npz"


def keep(result: Any, uri: str, largest: int) -> Any:
    """Keep a result of up to so many bytes, and return what a later attempt will read."""
    if isinstance(result, Finding) or size_of(result) > largest:
        return result
    data = encode(result)
    storage.create_bytes(uri, data)  # an earlier one, of a worker that was taken for lost, is the same
    return result if is_contiguous(result) else decode(data)


def read_back(uri: str) -> Any:
    """Return what `keep` has kept.

    Raises DamageError where it is damaged.
    """
    with reading_own(uri, ""):
        return storage.undamaged(uri, lambda: decode(storage.read_bytes(uri)))
