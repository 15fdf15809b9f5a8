"""Interior points for hinge losses: slacks and multipliers of every row, and the step of a sweep that moves them.

Newton's method for products mu of slacks and multipliers moves the multiplier a of a row by D (pull + du + mu push)
where u = 1 - y f changes by du: the rows act as if they had squared losses with weights D.

Source: Ferris & Munson 2002, "Interior-point methods for massive support vector machines", SIAM J. Optimization 13.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.optimise.loss_sums import outer_sums
from mmpca_dist.passes.centred_rows import Array, CentredRows, RowUnits
from mmpca_dist.passes.label_terms import LabelTerms, Terms
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import BlockStep
from mmpca_dist.passes.tree_reduction import ArraySums
from mmpca_dist.passes.units import block_rows

START = 1.0
"""mu before the first pass."""
LEFT = 0.1
"""Share of slacks and multipliers that a step leaves, where each row holds back for itself."""


@dataclass(frozen=True)
class Interior(ABC):
    """Slacks and multipliers of rows, arrays of shape (m, n), for max(u, 0) or its square; u = 1 - y f = xi - s."""

    a: Array  # multiplier of s: the derivative of the loss that it tends to
    s: Array  # slack, xi - u

    @classmethod
    @abstractmethod
    def central(cls, m: int, n: int) -> Self:
        """Return the point of w = 0 and b = 0, where u = 1, whose products are all ``START``."""

    @property
    @abstractmethod
    def u(self) -> Array:
        """1 - y f."""

    @abstractmethod
    def newton(self) -> tuple[Array, Array, Array]:
        """Return D, pull and push, (m, n): Newton's step of a to products mu, where u changes by du, follows from them.

        It is D (pull + du + mu push).
        """

    @abstractmethod
    def values(self) -> tuple[Array, Array, Array]:
        """Return for every row, (m, n): slacks times multipliers, added up; the loss at u; and a - L*(a)."""

    @abstractmethod
    def change(self, du: Array, mu: Array) -> tuple[Array, ...]:
        """Return Newton's step of every part to products mu (m, 1) where u changes by du."""

    def _change_of_a(self, du: Array, mu: Array) -> Array:
        width, pull, push = self.newton()
        return width * (pull + du + mu * push)

    @property
    def parts(self) -> tuple[Array, ...]:
        return tuple(vars(self).values())

    def moved(self, change: tuple[Array, ...], step: Array) -> Self:
        return type(self)(*(value + step * moves for value, moves in zip(self.parts, change, strict=True)))

    def moved_apart(self, change: tuple[Array, ...]) -> Self:
        """Return the rows after a whole step of u; each holds back what would come near zero."""
        raise NotImplementedError


def longest_step(parts: Sequence[Array], change: Sequence[Array]) -> Array:
    """Return the longest step along changes that leaves all parts positive, for every entry; inf where all do."""
    steps = [
        np.divide(-value, moves, out=np.full_like(value, np.inf), where=moves < 0)
        for value, moves in zip(parts, change, strict=True)
    ]
    return np.minimum.reduce(steps)


def products_of(parts: Sequence[Array], m: int) -> Array:
    """Return slacks, the first half of the parts, times multipliers, the second half, shape (m, number of them)."""
    half = len(parts) // 2
    pairs = zip(parts[:half], parts[half:], strict=True)
    return np.concatenate([np.empty((m, 0)), *(slack * multiplier for slack, multiplier in pairs)], axis=1)


@dataclass(frozen=True)
class HingeInterior(Interior):
    """The loss max(u, 0): the smallest xi with xi >= 0 and s >= 0, whose multipliers are rest = 1 - a and a."""

    xi: Array
    rest: Array

    @classmethod
    def central(cls, m: int, n: int) -> Self:
        a = 0.5 + 1 / (2 * (np.sqrt(1 + 4 * START**2) + 2 * START))
        return cls(*(np.full((m, n), value) for value in (a, START / a, START / (1 - a), 1 - a)))

    @property
    def u(self) -> Array:
        return self.xi - self.s

    def newton(self) -> tuple[Array, Array, Array]:
        return 1 / (self.xi / self.rest + self.s / self.a), self.u, 1 / self.a - 1 / self.rest

    def values(self) -> tuple[Array, Array, Array]:
        return self.a * self.s + self.rest * self.xi, np.maximum(self.u, 0), self.a

    def change(self, du: Array, mu: Array) -> tuple[Array, ...]:
        a, s, xi, rest = self.parts
        da = self._change_of_a(du, mu)
        return da, (mu - s * da) / a - s, (mu + xi * da) / rest - xi, -da

    def moved_apart(self, change: tuple[Array, ...]) -> Self:
        da, ds, dxi, drest = change
        step = np.minimum((1 - LEFT) * longest_step((self.a, self.rest), (da, drest)), 1.0)
        s, xi = self.s + ds, self.xi + dxi
        lift = np.maximum(np.maximum(LEFT * self.s - s, LEFT * self.xi - xi), 0.0)  # of both: u = xi - s stays
        return type(self)(self.a + step * da, s + lift, xi + lift, self.rest + step * drest)


@dataclass(frozen=True)
class SquaredHingeInterior(Interior):
    """The loss max(u, 0)^2: the smallest xi^2 with s >= 0, whose multiplier is a = 2 xi."""

    @classmethod
    def central(cls, m: int, n: int) -> Self:
        a = 1 + np.sqrt(1 + 2 * START)  # a (a / 2 - 1) = START
        return cls(np.full((m, n), a), np.full((m, n), a / 2 - 1))

    @property
    def u(self) -> Array:
        return self.a / 2 - self.s

    def newton(self) -> tuple[Array, Array, Array]:
        return self.a / (self.s + self.a / 2), -self.s, 1 / self.a

    def values(self) -> tuple[Array, Array, Array]:
        return self.a * self.s, np.maximum(self.u, 0) ** 2, self.a - self.a**2 / 4

    def change(self, du: Array, mu: Array) -> tuple[Array, ...]:
        da = self._change_of_a(du, mu)
        return da, da / 2 - du


INTERIORS: dict[str, type[Interior]] = {"hinge": HingeInterior, "squared hinge": SquaredHingeInterior}
"""By the name of the loss."""


@storable
@dataclass(frozen=True)
class Longest:
    """The longest step (m,) that leaves slacks and multipliers of all rows positive."""

    step: Array

    def __add__(self, other: Longest) -> Longest:
        return Longest(np.minimum(self.step, other.step))


@storable
@dataclass(frozen=True)
class HingeSums(ArraySums):
    """Sums over the rows for m models of r coordinates, at an interior point."""

    loss: Array  # (m,)
    products: Array  # (m,): of slacks times multipliers
    counts: Array  # (m,): how many such products there are
    moves: Array  # (2, m): of y a, over rows with y = 1 and with y = -1, as the next two
    cross: Array  # (2, m, r): of y a x
    duals: Array  # (2, m): of a - L*(a)
    pull: Array  # (m, r + 1): of y D pull [x; 1]
    push: Array  # (m, r + 1): of y D push [x; 1]
    hessians: Array  # (m, r + 1, r + 1): of D [x; 1] [x; 1]^T


@dataclass(frozen=True)
class MoveInside(BlockStep[Any]):
    """The step of a sweep: moves the rows and sums over them (``moves``), or returns the longest step they can take.

    Rows that move ``apart`` take the whole step, or none where ``step`` is 0; each holds back for itself.
    """

    kind: type[Interior]
    change: Array  # (m, r + 1): change of [w; b]
    mu: Array  # (m,): the target of slacks times multipliers
    step: Array  # (m,): the length of the step
    moves: bool
    terms: LabelTerms
    units: RowUnits
    apart: bool = False

    @property
    def block_rows(self) -> int:
        return block_rows(len(self.change))

    def of_block(self, rows: CentredRows, terms: Terms, state: NDArray | None) -> tuple[Any, NDArray]:
        y = np.ascontiguousarray(terms.signs[:, :, 0].T)
        trains = np.ones_like(y) if terms.trains is None else np.ascontiguousarray(terms.trains.T)
        if state is None:
            inside = self.kind.central(*y.shape)
        else:
            inside = self.kind(*(np.ascontiguousarray(part.T) for part in np.moveaxis(state, 1, 0)))
            du = -y * (rows.images(self.change[:, :-1]) + self.change[:, -1:])
            change = inside.change(du, self.mu[:, None])
            if not self.moves:
                longest = np.where(trains > 0, longest_step(inside.parts, change), np.inf)
                return Longest(longest.min(axis=1)), state
            step = np.where(trains > 0, self.step[:, None], 0.0)
            if self.apart:
                pairs = zip(inside.moved_apart(change).parts, inside.parts, strict=True)
                inside = self.kind(*(np.where(step > 0, new, old) for new, old in pairs))
            else:
                inside = inside.moved(change, step)
        return _sums(inside, rows, y, trains), np.stack([part.T for part in inside.parts], axis=1)


def _sums(inside: Interior, rows: CentredRows, y: Array, trains: Array) -> HingeSums:
    (width, pull, push), (products, losses, duals) = inside.newton(), inside.values()
    width, is_up = width * trains, np.stack([y > 0, y < 0])
    by_class = np.where(is_up, y * inside.a * trains, 0.0)
    (m, n), r = y.shape, rows.X.shape[1]

    def summed(weights: Array) -> Array:
        return np.concatenate([rows.cross(weights), weights.sum(axis=1)[:, None]], axis=1)

    return HingeSums(
        loss=(losses * trains).sum(axis=1),
        products=(products * trains).sum(axis=1),
        counts=len(inside.parts) // 2 * trains.sum(axis=1),
        moves=by_class.sum(axis=2),
        cross=rows.cross(by_class.reshape(2 * m, n)).reshape(2, m, r),
        duals=np.where(is_up, duals * trains, 0.0).sum(axis=2),
        pull=summed(y * width * pull),
        push=summed(y * width * push),
        hessians=outer_sums(rows, width, r),
    )
