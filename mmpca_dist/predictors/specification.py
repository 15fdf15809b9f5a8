"""``Classifier``, the specification of a classifier, their registry, and ``Rule``, the base of those from moments."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.limits import LIMITS
from mmpca_dist.registry import Registry

SCORE_BYTES = 3 * 8
"""Bytes of the scores of a row for one class, during predictions and measurements of distances."""


def scored_rows(n_classes: int) -> int:
    """Return how many rows are scored at once."""
    return max(LIMITS.score_bytes // (SCORE_BYTES * n_classes), 1)


@dataclass(frozen=True)
class Rule(ABC):
    """A classifier of reduced rows."""

    classes: NDArray  # (C,): sorted labels

    @abstractmethod
    def _scores(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the score of every class for every row, shape (n, C)."""

    def decision_function(self, Z: Any) -> NDArray[np.float64]:
        """Return the scores of the classes for reduced rows, shape (n, C); of two, the second's less the first's, (n,).

        Raises InputError for dense rows that are not finite. Linear rules take CSR rows, too.
        """
        if not issparse(Z):
            Z = np.asarray(Z, dtype=np.float64)
            if not np.isfinite(Z).all():
                row, column = np.argwhere(~np.isfinite(Z))[0]
                raise InputError(f"Found {Z[row, column]} in row {row}, column {column} of the reduced rows.")
        with single_blas_thread():
            scores = self._scores(Z)
        return scores[:, 1] - scores[:, 0] if len(self.classes) == 2 else scores

    def predict(self, Z: NDArray) -> NDArray:
        """Return the class of the largest score, the first of equal ones, for each of the rows ``Z``, shape (n,)."""
        return self.classes[in_blocks(self._predicted_codes, Z, len(self.classes))]

    def _predicted_codes(self, Z: NDArray) -> NDArray[np.intp]:
        scores = self.decision_function(Z)
        return (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)


def in_blocks(predict: Callable[[Any], NDArray], Z: Any, n_classes: int) -> NDArray:
    """Return what ``predict`` returns for rows ``Z`` (n, K), block by block: not all scores need to fit in memory."""
    n, size = np.shape(Z)[0], scored_rows(n_classes)
    if n <= size:
        return predict(Z)
    return np.concatenate([predict(Z[start : start + size]) for start in range(0, n, size)])


DEFAULT_C = 1.0
"""The default of LIBLINEAR."""


@dataclass(frozen=True)
class Training:
    """Rows that a classifier is fitted to, and its settings."""

    Z: Any  # array, CSR matrix or Dask array (n, K); Dask arrays only for classifiers that are ``out_of_core``
    codes: NDArray  # (n,): codes of the classes, from 0
    n_classes: int
    C: float | None  # penalty on errors; None for the classifier's default
    bias: bool
    options: dict[str, Any]
    weights: NDArray[np.float64] | None = None  # (n,): how often each row counts
    on_pass: Callable[[], None] | None = None  # called at the beginning of each pass over a Dask array


def refuse_nothing(*_: Any) -> None:
    """Accept any options."""


@dataclass(frozen=True)
class Classifier:
    """A classifier: made from moments by ``rule``, or fitted to rows by ``fit``."""

    name: str  # in configurations
    description: str  # what it does, and its settings
    rule: Callable[..., Rule] | None = None  # called with `ReducedMoments` and the options
    fit: Callable[[Training], tuple[Any, int]] | None = None
    """Returns a model that predicts codes, and the number of its problems that did not converge."""
    check_options: Callable[[dict[str, Any]], None] = refuse_nothing  # raises `InputError`
    check_classes: Callable[[dict[str, Any], int], None] = refuse_nothing  # of the options, for so many classes
    has_C: bool = False  # noqa: N815
    has_bias: bool = False
    linear: bool = False  # whether its scores are linear, whatever the rows
    out_of_core: bool = False  # whether it takes Dask arrays
    takes_weights: bool = True
    prefers_own: bool = False  # whether it gives way to a method's own classifier, where the method has one
    rotatable: bool = False
    """Whether it does not depend on the coordinates of the rows' span, so that few rows may be rotated."""
    each_scatter: bool = False  # whether its rule needs the scatter of each class, and not only their sum
    summed_scores: bool = False
    """Whether a pass over the rows computes its scores by matrix products: it is listed first."""


def check_names(settings: Iterable[str], names: Sequence[str], owner: str, kind: str = "option") -> None:
    """Raise `InputError` for the first setting of ``owner`` that has none of these names."""
    unknown = next((setting for setting in settings if setting not in names), None)
    if unknown is not None:
        hint = did_you_mean(str(unknown), names) or f" There are {', '.join(names) or 'none'}."
        raise InputError(f"{owner} has no {kind} {unknown!r}.{hint}")


NumberOption = tuple[Callable[[Any], bool], str]
"""An option that is a number: which ones it accepts, and these in words."""
ZERO_OR_MORE: NumberOption = (lambda value: 0 <= value < math.inf, "a number, zero or more")


def check_options(owner: str, numbers: Mapping[str, NumberOption], options: Mapping[str, Any]) -> None:
    """Raise `InputError` for the first option of ``owner`` that is none of ``numbers``, or not a number it accepts."""
    check_names(options, list(numbers), owner)
    for name, value in options.items():
        is_number, (accepts, words) = isinstance(value, Real) and not isinstance(value, bool), numbers[name]
        if not (is_number and accepts(value)):
            raise InputError(f"The option {name} of {owner} must be {words} (found {value!r}).")


CLASSIFIERS = Registry(
    Classifier,
    "mmpca_dist.predictors",
    group="mmpca_dist.classifiers",
    order=lambda entry: (entry.rule is None, not entry.summed_scores, entry.out_of_core),
)
