"""Classifiers whose class is that of the largest output."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin


class ClassifiesByScores(ClassifierMixin):
    """Predicts from outputs of models, one for two classes, whose sign decides, or one for each of several."""

    classes_: NDArray
    _outputs: Callable[..., Any]
    """Returns the outputs of rows, shape (n, m); lazy for rows that are read piece by piece."""

    def decision_function(self, X: Any, covariates: Any = None) -> Any:
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
        outputs = self._outputs(X) if covariates is None else self._outputs(X, covariates)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def predict(self, X: Any, covariates: Any = None) -> Any:
        """Return the class with the largest output, shape (n_samples,); lazy for Dask input."""
        outputs = self._outputs(X) if covariates is None else self._outputs(X, covariates)
        named = partial(_named, classes=self.classes_)
        if not dask.is_dask_collection(outputs):
            return named(outputs)
        return da.map_blocks(named, outputs, dtype=self.classes_.dtype, drop_axis=1)


def _named(outputs: NDArray[np.float64], classes: NDArray) -> NDArray:
    if outputs.shape[1] == 1:
        return classes[(outputs[:, 0] > 0).astype(np.intp)]
    return classes[outputs.argmax(axis=1)]
