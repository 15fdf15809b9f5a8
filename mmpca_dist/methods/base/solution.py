"""The solution of a method: components, eigenvalues, residuals, certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.eigen.dense import Eigenpairs, fix_signs
from mmpca_dist.errors import InputError, NoComponentsError
from mmpca_dist.statistics.working_statistics import Statistics

IMPRECISE = 1e-2
"""Components whose relative rounding error exceeds this are marked."""
CLASS_LIMIT = "the number of classes less one"
"""The limit of methods that tell classes apart by a linear function, in words."""


@dataclass(frozen=True)
class Solution:
    """Components of one method, the strongest first."""

    components: NDArray[np.float64]  # (K, d)
    # (K,) each, as in ``Eigenpairs``, or, for Fisher's problem, ``discriminants``
    eigenvalues: NDArray[np.float64]
    residuals: NDArray[np.float64]  # NaN where components are no eigenvectors
    relative_errors: NDArray[np.float64]
    total: float  # sum of all eigenvalues
    limit: str  # what bounds the number of components, in words
    # what is proved of components from a solver in passes, and measured of the search behind them (M-PCA2)
    certificate: dict[str, Any] | None = None

    def telling(self, shrinkages: Mapping[Any, float], names: Sequence[Any]) -> Solution:
        """Return the same, with the shrinkage that rows held out chose for the one name, where there is one."""
        told = {**(self.certificate or {}), "shrinkage": shrinkages[names[0]]} if names else self.certificate
        return replace(self, certificate=told)

    @classmethod
    def of_pairs(
        cls, statistics: Statistics, pairs: Eigenpairs, limit: str, certificate: dict[str, Any] | None = None
    ) -> Solution:
        """Return the solution that eigenpairs are, whose vectors are in the coordinates of the statistics."""
        components = fix_signs(statistics.loadings(pairs.vectors))
        return cls(components, pairs.values, pairs.residuals, pairs.relative_errors, pairs.total, limit, certificate)

    @classmethod
    def of_directions(
        cls, components: NDArray[np.float64], values: NDArray[np.float64], relative_errors: NDArray[np.float64],
        total: float, limit: str,
    ) -> Solution:  # fmt: skip
        """Return the solution of components, shape (K, d), that are no eigenvectors, so that they have no residuals."""
        return cls(fix_signs(components), values, np.full(len(components), np.nan), relative_errors, total, limit)

    @classmethod
    def of_models(
        cls, components: NDArray[np.float64], values: NDArray[np.float64], total: float, limit: str
    ) -> Solution:
        """Return the solution of components of models, whose signs stay, and whose rounding is not known."""
        nothing = np.full(len(values), np.nan)
        return cls(components, values, nothing, np.zeros(len(values)), total, limit)

    def refuse_share(self, share: float, name: str, at_most: bool) -> None:
        """Raise InputError where components have no shares of a total; or, unless ``at_most``, hold less than one."""
        known, held = 0 < self.total < np.inf and (self.eigenvalues >= 0).all(), self.eigenvalues.sum() / self.total
        if not known or (held < share and not at_most):
            why = f"{len(self.eigenvalues)} components hold {held:.3g} of it" if known else "total is not known"
            raise InputError(f"n_components={share} is a share of what {name} is about, and its {why}: give a number.")

    def refuse_too_few(self, asked: int | None, name: str, statistics: Statistics) -> None:
        """Raise InputError where there are fewer components than ``asked`` for of the estimator ``name``, or none."""
        count, precision, d = len(self.eigenvalues), statistics.precision, statistics.n_features
        if count and (asked is None or count >= asked):
            return
        rounded, lost, where = "", count, f"in {statistics.moments.n_rows} rows of {d} features"
        variances = statistics.column_variances() if statistics.knows_columns else None
        constant = 0 if variances is None else d - int(np.count_nonzero(variances))
        if constant and self.limit.endswith(f" {d}"):
            rounded, lost = f", less {constant} constant column{'s' * (constant > 1)}", count + constant
        if not self.limit.endswith(f" {lost}"):
            rounded += f", less what is zero up to rounding ({precision} precision)"
            drowned = (
                variances is None or variances[variances > 0].min(initial=np.inf) < statistics.unit * variances.sum()
            )
            if precision == "single" and self.total > 0 and drowned:
                rounded += ". Columns of very different scale lose some: standardise them, or set precision to double"
        if count:
            raise InputError(
                f"n_components={asked} is more than the {count} components that {name} finds {where}: its limit is "
                f"{self.limit}{rounded}."
            )
        why = f"its limit is {self.limit}{rounded}"
        of_means = self.limit.startswith(CLASS_LIMIT)
        if of_means and variances is not None and variances.any() and not statistics.column_deviations().any():
            why = "the class means are equal"
        raise NoComponentsError(f"{name} finds no component {where}: {why}.")


def rank_limit(largest: int) -> str:
    """Return what bounds the components of methods that find no more than the rows have dimensions."""
    return f"the rank of its rows, at most min(n_features, n_samples - 1) = {largest}"


def class_limit(n_classes: int) -> str:
    """Return that limit for a number of classes."""
    return f"{CLASS_LIMIT}, {n_classes - 1}"


def certificate_of_means(statistics: Statistics) -> dict[str, Any] | None:
    """Return the certificate of components that class means determine; None where there were no passes to doubt."""
    approximation = statistics.approximation
    if approximation is None:
        return None
    return {"solver": approximation.solver, "passes": approximation.passes, "exact": True}
