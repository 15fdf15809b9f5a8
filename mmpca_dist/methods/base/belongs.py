"""``TellsBelonging``: what a model of a run tells of rows beyond their coordinates."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.transform import BY_NAME, gaps_allowed
from mmpca_dist.tables.foreign import asked_by, check_rows
from mmpca_dist.tables.readers.memory import encoded_covariates


class TellsBelonging:
    """Tells of rows whether they are like those that trained, where a run kept what that takes."""

    _belonging: Any = None
    """A function that loads it."""

    def belongs(self, X: Any, covariates: Any = BY_NAME) -> pd.DataFrame:
        """Tell of rows whether they are like those that trained.

        Parameters
        ----------
        X : as in ``transform``
        covariates : as in ``transform``; those of Dask arrays and Dask data frames are columns of these

        Returns
        -------
        pandas.DataFrame
            A lazy one for Dask input. A line for each row, with the index of a data frame: ``t2``, ``q``,
            ``nearest_class``, ``distance``, or those that the run asked for; ``t2_p``, ``q_p``, ``distance_p``, the
            shares of held-out rows that are as far out; ``p``, the smallest of these times their number, and
            ``belongs``, whether it is above the run's alpha.

        Raises
        ------
        InputError
            (a ValueError) For a model of no run, or of one without ``belonging`` in its configuration.

        Notes
        -----
        p is right for rows that are exchangeable with those of the run (Vovk 2015, "Cross-conformal predictors"), not
        for rows that follow each other in time.
        """
        if dask.is_dask_collection(X):
            return self._lazily(X)
        belonging, rows = self._scored(X, covariates)
        return pd.DataFrame(belonging.columns(rows), index=getattr(X, "index", None))

    def contributions(self, X: Any, score: str = "q", covariates: Any = BY_NAME) -> Any:
        """Return what each column adds to ``t2`` or ``q`` of rows in memory, shape (n_samples, n_features).

        A data frame for a data frame. Raises as ``belongs``.
        """
        belonging, rows = self._scored(X, covariates)
        found = belonging.contributions(rows, score)
        return pd.DataFrame(found, X.index, self.feature_names_in_) if isinstance(X, pd.DataFrame) else found  # type: ignore[attr-defined]

    def _lazily(self, X: Any) -> Any:
        import dask.dataframe as dd  # slow to import

        if hasattr(X, "map_partitions"):
            return X.map_partitions(self.belongs, meta=self.belongs(X._meta_nonempty).iloc[:0])
        meta = self.belongs(np.zeros((1, X.shape[1]), X.dtype)).iloc[:0]
        blocks = X.rechunk({1: -1}).to_delayed().ravel()
        return dd.from_delayed([dask.delayed(self.belongs)(block) for block in blocks], meta=meta)

    def _scored(self, X: Any, covariates: Any) -> tuple[Any, NDArray]:
        check_is_fitted(self, "components_")
        if self._belonging is None:
            raise InputError(
                f"This {type(self).__name__} keeps nothing that tells whether rows belong to those that trained: run "
                "it with belonging: {} in the configuration, and take the model of that run by load_model."
            )
        X, covariates = self._apart(X, covariates)  # type: ignore[attr-defined]
        with asked_by(self):
            rows = check_rows(self, self._table(X), reset=False, **gaps_allowed(self))  # type: ignore[attr-defined]
            belonging = self._belonging()
        if not issparse(rows):
            rows = np.where(np.isnan(rows), self.mean_, rows) if rows.dtype.kind == "f" else rows  # type: ignore[attr-defined]
            rows = np.asarray(rows, np.float64)
        if covariates is not None:
            numbers = encoded_covariates(covariates, self.covariates_, rows.shape[0])  # type: ignore[attr-defined]
            rows = self.adjustment_.without(rows.toarray() if issparse(rows) else rows, numbers)  # type: ignore[attr-defined]
        return belonging, rows
