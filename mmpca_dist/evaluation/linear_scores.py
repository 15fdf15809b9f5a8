"""Scores of linear classifiers: one matrix product for all methods and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reductions import Reduction, Reductions
from mmpca_dist.evaluation.scores import Judges
from mmpca_dist.methods.transform import centred, projected
from mmpca_dist.predictors.classifiers import ClassifierSection, fit_from_moments
from mmpca_dist.predictors.fits import linear_parts
from mmpca_dist.predictors.specification import Rule
from mmpca_dist.statistics.coordinates import Statistics

BLOCK_ROWS = 4096
"""Rows that are judged at once."""


@dataclass(frozen=True)
class _Curved:
    """A rule that is not linear: its number among all, the columns of reduced rows that it takes, and itself."""

    number: int
    columns: NDArray[np.intp]
    rule: Rule


@dataclass(frozen=True)
class Head:
    """Classifiers from moments that judge the rows of a part held out.

    Attributes
    ----------
    part : int
    judged : list of (Reduction, ClassifierSection)
        R of them.
    linear : list of int
        Numbers of those that are linear, L of them.
    weights : array of shape (d, L u)
        Linear decisions are ``(x - centre) @ weights + offsets``: u = 1 for two classes, else one a class.
    curved : list
        The others, for reduced rows ``projected(x, matrix, mean)``.
    """

    part: int
    judged: Sequence[tuple[Reduction, ClassifierSection]]
    linear: list[int]
    centre: NDArray[np.float64]
    weights: NDArray
    offsets: NDArray[np.float64]
    curved: list[_Curved]
    matrix: NDArray[np.float64]
    mean: NDArray[np.float64] | None
    n_classes: int

    def judge(self, X: NDArray, codes: NDArray[np.intp], own: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return how many of the rows ``own`` of X every classifier gets wrong, shape (R,)."""
        wrong = np.zeros(len(self.judged), np.int64)
        for start in range(0, len(own), BLOCK_ROWS):
            block = own[start : start + BLOCK_ROWS]
            rows, true = X[block], codes[block]
            if self.linear:
                wrong[self.linear] += self._wrong_by_products(rows, true)
            if self.curved:
                Z = projected(rows, self.matrix, self.mean, np.dtype(np.float64))
                for one in self.curved:
                    found = one.rule.predict(Z[:, one.columns])
                    wrong[one.number] += np.count_nonzero(found != one.rule.classes[true])
        return wrong

    def _wrong_by_products(self, rows: NDArray, true: NDArray[np.intp]) -> NDArray[np.int64]:
        decisions = centred(rows, self.centre, self.weights.dtype) @ self.weights + self.offsets
        if self.n_classes == 2:
            return np.count_nonzero((decisions > 0) != (true == 1)[:, None], axis=0)
        by_class = decisions.reshape(len(rows), -1, self.n_classes)
        return np.count_nonzero(np.argmax(by_class, axis=2) != true[:, None], axis=0)


Rules = dict[tuple[int, str], Rule]
"""Classifiers from moments by position of the method and size, and label."""


def fit_rules(reductions: Reductions, judges: Judges, meter: Meter) -> Rules:
    """Fit all classifiers from moments, of every method and size, and charge each method.

    Raises
    ------
    InputError
        Where one of them cannot be fitted; see ``mmpca_dist.predictors``.
    """
    rules: Rules = {}
    for position, item in enumerate(reductions.items):
        with meter.charging(item.method):
            for spec in judges.from_moments:
                assert item.moments is not None  # noqa: S101  (merged statistics are of all columns)
                rules[position, spec.label] = fit_from_moments(spec, item.moments())
    return rules


def make_head(
    part: int, statistics: Statistics, reductions: Reductions, judges: Judges, rules: Rules, dtype: Any
) -> Head:
    """Return all classifiers from moments, of every method and size, as they meet rows."""
    judged = [(item, spec) for item in reductions.without_moments().items for spec in judges.from_moments]
    centre = statistics.mean
    weights, offsets, linear, curved = [np.empty((len(centre), 0))], [np.empty(0)], [], []
    for number, ((item, _), rule) in enumerate(zip(judged, rules.values(), strict=True)):
        found = linear_parts(rule)
        if found is None:
            curved.append(_Curved(number, item.columns, rule))
            continue
        coef, intercept = found
        A = reductions.matrix[:, item.columns]
        middle = centre if reductions.mean is None else centre - reductions.mean
        weights.append(A @ coef.T)
        offsets.append(coef @ (A.T @ middle) + intercept)
        linear.append(number)
    return Head(
        part, judged, linear, centre, np.concatenate(weights, axis=1).astype(dtype), np.concatenate(offsets), curved,
        reductions.matrix, reductions.mean, len(statistics.moments.classes),
    )  # fmt: skip
