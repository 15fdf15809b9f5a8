"""The bases of the estimators in ``models``: those fitted by sweeps, and classifiers, which name the largest output."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self

import dask
import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from mmpca_dist import dask_arrays as da
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.target_reducer import TakesTargets
from mmpca_dist.methods.base.traits import Option, Traits
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.passes.sweeps import SweptNeed
from mmpca_dist.statistics.column_units import target_units
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.covariates import BY_NAME
from mmpca_dist.tables.dataset import Dataset


class SweptReducer(MomentReducer):
    """Base of the reducers that are fitted by sweeps.

    A subclass states the fit as a need, solves by what it leaves (`_swept`), and says where it did not converge
    (`fitted`).
    """

    traits = Traits(
        {"max_iter": Option(ge=1, example=200, description="Passes over the rows at most")}, nested=False, shares=False
    )
    _units: tuple[tuple[float, float], ...] = ()
    """The mean and the standard deviation of each number to predict."""
    # scikit-learn routes what signatures name; a sample_weight there would promise that sweeps take weights.
    __metadata_request__fit: ClassVar = {"sample_weight": None, "covariates": None}

    def __init__(
        self, n_components: int | None, *, tol: float, max_iter: int, scratch: str | None, **shared: Any
    ) -> None:
        super().__init__(n_components, **shared)
        self.tol, self.max_iter, self.scratch = tol, max_iter, scratch

    def fit(self, X: Any, y: Any = None, **others: Any) -> Self:  # type: ignore[override]
        """Fit to labelled rows, as the reducers from moments are fitted.

        ``sample_weight`` is taken where moments suffice for the fit, as for squared losses; sweeps refuse it.
        """
        weights, covariates = (others.pop(name, None) for name in ("sample_weight", "covariates"))
        if others:
            raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {min(others)!r}")
        return self._fit_anew(X, y, weights, covariates)

    @abstractmethod
    def _fit(self) -> SweptNeed:
        """Return the need that parameters make, with what rows told; the latter does not count in equality."""

    def needs(self) -> Needs:
        return Needs(swept=(self._fit(),))

    def _swept(self, statistics: Statistics) -> Any:
        """Return what the sweeps left; raise InputError where class moments alone are known."""
        fits = {size: fit for (need, size), fit in statistics.fits.items() if need == self._fit()}
        if self.n_components in (None, "auto") and fits:
            return next(iter(fits.values()))
        if self.n_components not in fits:
            raise InputError(
                f"{type(self).__name__} passes over the rows several times: class moments do not suffice. Use fit."
            )
        return fits[self.n_components]

    def _transformed(self, X: Any, covariates: Any = BY_NAME, **attributes: Any) -> Any:
        """Return what ``transform`` gives with other attributes, as an array whatever ``set_output`` asks for."""
        check_is_fitted(self, "components_")
        plain = copy(self)
        plain.__dict__.update(attributes, _sklearn_output_config={"transform": "default"})
        return plain.transform(X, covariates)


class SweptRegressor(TakesTargets, RegressorMixin, SweptReducer):
    """Base of the regressors that are fitted by sweeps; their need has the units of the targets, ``targets``."""

    traits = SweptReducer.traits.extended(takes_targets=True)
    _outputs: Callable[..., Any]
    """Returns the outputs of rows, shape (n, q); lazy for rows that are read piece by piece."""

    def _statistics(self, dataset: Dataset, scheduler: Scheduler) -> Statistics:
        rows = Rows.of(dataset, scheduler, scratch=self.scratch)
        self._units = target_units(rows.dataset, rows.spans, rows)
        return super()._statistics(dataset, scheduler)

    def predict(self, X: Any, covariates: Any = BY_NAME) -> Any:
        """Return the outputs, shape (n_samples,), or (n_samples, q) of several targets; lazy for Dask input."""
        outputs = self._outputs(X, covariates)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs


class ClassifiesByScores(ClassifierMixin):
    """Predicts from outputs of models, one for two classes, whose sign decides, or one for each of several."""

    classes_: NDArray
    _outputs: Callable[..., Any]
    """Returns the outputs of rows, shape (n, m); lazy for rows that are read piece by piece."""

    def decision_function(self, X: Any, covariates: Any = BY_NAME) -> Any:
        """Return the output for every class, or of two classes for the second.

        Parameters
        ----------
        X : as in ``transform``
        covariates : as in ``transform``, of estimators that take them

        Returns
        -------
        array of shape (n_samples, C), or (n_samples,) for two classes
            Lazy for Dask input.
        """
        outputs = self._outputs(X) if isinstance(covariates, str) else self._outputs(X, covariates)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def predict(self, X: Any, covariates: Any = BY_NAME) -> Any:
        """Return the class with the largest output, shape (n_samples,); lazy for Dask input."""
        outputs = self._outputs(X) if isinstance(covariates, str) else self._outputs(X, covariates)
        named = partial(_named, classes=self.classes_)
        if not dask.is_dask_collection(outputs):
            return named(outputs)
        return da.map_blocks(named, outputs, dtype=self.classes_.dtype, drop_axis=1)


def _named(outputs: NDArray[np.float64], classes: NDArray) -> NDArray:
    if outputs.shape[1] == 1:
        return classes[(outputs[:, 0] > 0).astype(np.intp)]
    return classes[outputs.argmax(axis=1)]
