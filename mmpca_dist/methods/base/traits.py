"""The public contract of estimators: ``Traits`` of a class, and ``Fitted``, what a fit tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from numpy.typing import NDArray

from mmpca_dist.methods.base.parameters import Option


@dataclass(frozen=True)
class Traits:
    """Facts that hold for all estimators of a class."""

    # of parameters that a configuration may set, or that have bounds
    options: Mapping[str, Option] = field(default_factory=dict)
    stored: tuple[str, ...] = ()  # arrays and finite scalars that models keep in addition to those of all
    nested: bool = True  # whether the components of a smaller fit are the first of these
    by_classes: bool = False  # whether there are at most as many components as classes less one
    takes_targets: bool = False  # whether it is solved for numbers to predict, too
    ignores_labels: bool = False  # whether the components are the same for any labels

    def extended(self, options: Mapping[str, Option] | None = None, **others: Any) -> Self:
        """Return the traits of a subclass, with further options and other values."""
        return replace(self, options={**self.options, **(options or {})}, **others)


@dataclass(frozen=True)
class Fitted:
    """Facts of a fitted estimator and its K components, whatever blocks they come in."""

    directions: NDArray  # (K, d): the components one below the other
    used: int  # how many components there are, as they are asked for
    active: NDArray  # (K,): which directions have an influence; all, unless the method switches some off
    # coefficients (C, K), or (1, K) for two classes, and intercepts of the method's own classifier
    classifier: tuple[NDArray, NDArray] | None = None
    # sentences: how far passes ended from where they were to go; what a reader of the components must know; where a
    # choice among values ended on an edge of them; what makes the components poor, and what to do about it
    unconverged: Sequence[str] = ()
    remarks: Sequence[str] = ()
    edges: Sequence[str] = ()
    cautions: Sequence[str] = ()
