"""The protocol and the registry of solvers in passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.registry import Registry


@dataclass(frozen=True)
class Projected:
    """A scatter G in a basis Q, shape (d, r), of orthonormal columns."""

    basis: NDArray  # (d, r)
    inside: NDArray[np.float64]  # (r, r): Q^T G Q
    outside: NDArray[np.float64]  # (s, r): G Q - Q inside = N outside, with orthonormal columns N


class Basis(Protocol):
    """A basis that grows by the images of its blocks under a scatter."""

    @property
    def block(self) -> NDArray:
        """The vectors to which the scatter is applied next, shape (d, b)."""

    def absorb(self, image: NDArray[np.float64]) -> None:
        """Take in the image of ``block``, which may be overwritten."""

    def grow(self, others: NDArray[np.float64] | None = None) -> bool:
        """Choose the next block, with ``others`` (d, m) in it; return False if there is none."""

    def projected(self) -> Projected:
        """Return the scatter in the basis so far."""


@dataclass(frozen=True)
class BlockSolver:
    """A solver in passes."""

    name: str  # in configurations
    description: str  # what it does, in words
    # called with the orthonormal start block (d, b), its image, other columns (d, m) for the basis, and the limit on
    # passes; returns a `Basis`
    begin: Callable[[NDArray, NDArray[np.float64], NDArray[np.float64], int], Basis]


BLOCK_SOLVERS = Registry(BlockSolver, "mmpca_dist.eigen.blocks", group="mmpca_dist.solvers")
"""All solvers in passes, by name."""
