"""All columns: no reduction, the baseline of evaluations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.methods.base.traits import Fitted, Traits
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics


class AllColumns(MomentReducer):
    """Rows as they are; of fewer rows than columns, their coordinates in an orthonormal basis of their span.

    Classifiers that depend on lengths and angles alone, as support vector machines do, are the same either way.
    ``n_components`` has no effect. Other parameters are as in ``MarginPCA``.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal: the columns themselves, or a basis of the span of the rows and of their mean.
    eigenvalues_ : array of shape (K,)
        NaN.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import AllColumns
    >>> X, y = load_iris(return_X_y=True)
    >>> AllColumns().fit(X, y).transform(X)[0].round(1)
    array([5.1, 3.5, 1.4, 0.2])
    """

    traits = Traits(ignores_labels=True)

    keeps_all = True

    def needs(self) -> Needs:
        return Needs(frozenset(), full_scatter=("all-columns",))

    def _solve(self, statistics: Statistics) -> Solution:
        if isinstance(statistics, ColumnStatistics):
            components = np.eye(statistics.n_features)
            if statistics.adjustment is not None:  # of constant columns, adjusted rows have rounding errors
                components[~statistics.unweighted.in_columns.varies] = 0
        else:
            mean = statistics.mean if statistics.scale is None else statistics.mean / statistics.scale
            outside = mean - statistics.basis @ (statistics.basis.T @ mean)
            length = float(np.linalg.norm(outside))
            extra = (outside / length)[None] if length > 0 else np.empty((0, len(mean)))
            components = np.concatenate([statistics.basis.T, extra])
        nothing = np.full(len(components), np.nan)
        return Solution.of_directions(
            components, nothing, np.zeros(len(components)), float("nan"), f"the columns, {statistics.n_features}"
        )

    def fitted(self) -> Fitted:
        return replace(super().fitted(), used=self.components_.shape[1])


METHOD = Method(
    "all-columns",
    "All columns",
    "baselines",
    "everything: rows are not reduced",
    "d",
    AllColumns,
    ordered=False,
    blocks=lambda n_components, n_classes, n_features: -(-n_features // n_components),
    reduces=False,
    sections=("choice",),
)
