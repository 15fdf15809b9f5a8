"""What runs, evaluations, transforms and refreshes return in Python: records, data frames, and a view in notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mmpca_dist.jobs.finished_runs import finished, load_maps, load_model, open_run
from mmpca_dist.jobs.records import COUNT, Results
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.runs.evaluation_summary import comparison, stored_table
from mmpca_dist.runs.summary import components, lines, report_of
from mmpca_dist.stores import storage
from mmpca_dist.tables.readers.formats import open_rows


class Outcome(Results):
    """Records by name, and the ``folder`` that they are of."""

    def __init__(self, records: Mapping[str, Any], folder: str) -> None:
        super().__init__(records)
        self.folder = folder

    @property
    def summary(self) -> str:
        """What was found, in words."""
        raise NotImplementedError

    def _shown(self) -> pd.DataFrame:
        """Return the table that notebooks show."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self.folder}>"

    def _repr_html_(self) -> str:
        table = self._shown().to_html(float_format=lambda number: f"{number:.4g}", border=0)
        return f"<p>{html.escape(self.summary)}</p>{table}<p>Folder: <code>{html.escape(self.folder)}</code></p>"


class FinishedRun(Outcome):
    """A finished run: the records of its stages by name, with models and tables that are read as they are asked for."""

    @property
    def summary(self) -> str:
        return " ".join(lines(self.folder))

    @property
    def report(self) -> str | None:
        """The address of the report."""
        record = report_of(self.folder)
        return record and record["html"]

    @property
    def methods(self) -> pd.DataFrame:
        """The table that ``mmpca show`` prints, as texts: a row for each method."""
        return pd.DataFrame(components(self.folder)).set_index("method")

    def _shown(self) -> pd.DataFrame:
        return self.methods

    def model(self, method: str, n_components: int | None = None) -> MomentReducer:
        """Return a fitted estimator, as ``load_model`` does."""
        return load_model(self.folder, method, n_components)

    def loadings(self, method: str) -> pd.DataFrame:
        """Return the loadings of a method: a row for each feature, a column for each component."""
        directions = self.model(method)._directions
        names = finished(open_run(self.folder), COUNT)["feature_names"]
        index = range(directions.shape[1]) if names is None else names
        columns = [f"component {k + 1}" for k in range(len(directions))]
        return pd.DataFrame(directions.T, pd.Index(index, name="feature"), columns)

    def rows(self, method: str) -> pd.DataFrame:
        """Read the projected rows of a method, and their labels, into memory."""
        return _projected(open_run(self.folder).uri, method)

    def to_anndata(self, adata: Any, methods: Sequence[str] | None = None) -> Any:
        """Write rows and loadings of the methods into an AnnData object, as ``to_anndata`` does."""
        maps, labels = load_maps(self.folder), methods or open_run(self.folder).config.labels
        return to_anndata(adata, {label: self.model(label) for label in labels}, maps if maps.maps_ else None)


class RefreshedRun(FinishedRun):
    """A refreshed run: what ``refresh`` did (``taken``, ``rows``, ``left_out``, ...), with its newest models."""


class TransformedRows(Outcome):
    """Transformed rows: what ``transform`` did (``rows``, ``outputs``, ...), with the rows of each method."""

    @property
    def summary(self) -> str:
        return f"{self['rows']:,} rows projected by {', '.join(self['methods'])}"

    def _shown(self) -> pd.DataFrame:
        return pd.DataFrame({"written": self["outputs"]})

    def rows(self, method: str) -> pd.DataFrame:
        """Read the rows of a method, and their labels, into memory."""
        return _projected(self.folder, method)


class FinishedEvaluation(Outcome):
    """A finished evaluation: the records of its stages by name, with its errors."""

    @property
    def summary(self) -> str:
        """Which method is best, how sure that is, and whether fewer components suffice."""
        return comparison(self.folder)["verdict"]

    @property
    def report(self) -> str:
        """The address of the report."""
        return comparison(self.folder)["html"]

    @property
    def errors(self) -> pd.DataFrame:
        """Mean errors in percent: a row for each method, number of components and classifier, the lowest first."""
        cells = stored_table(self.folder, "cells").to_pandas()
        return cells.sort_values(["mean", "used"], kind="stable", ignore_index=True)

    @property
    def errors_by_split(self) -> pd.DataFrame:
        """Counts of errors: a row for each split, method, number of components and classifier."""
        return stored_table(self.folder, "errors").to_pandas()

    @property
    def best(self) -> pd.Series:
        """The row of ``errors`` with the lowest mean; among equal means the one with the fewest components."""
        return self.errors.iloc[0]

    def _shown(self) -> pd.DataFrame:
        cells = stored_table(self.folder, "cells").to_pandas()
        return cells.pivot_table("mean", ["method", "n_components"], "classifier", sort=False)


def to_anndata(adata: Any, models: Mapping[str, MomentReducer], maps: Any = None) -> Any:
    """Write rows and loadings of fitted reducers into an AnnData object, where scanpy looks for them.

    Parameters
    ----------
    adata : AnnData
        Changed in place: ``obsm["X_NAME"]`` has the rows, ``varm["NAME"]`` the loadings, and ``uns["NAME"]`` the
        eigenvalues.
    models : dict
        Fitted reducers by name, such as ``{"m-pca0": MarginPCA(8).fit(adata, "cell_type")}``.
    maps : transformer, optional
        What rows go through before the models, such as that of ``load_maps``; loadings are then of no genes.

    Returns
    -------
    AnnData
        The same object.

    Raises
    ------
    InputError
        Where the genes are not those of the fit.
    """
    for name, model in models.items():
        adata.obsm[f"X_{name}"] = np.asarray(model.transform(adata if maps is None else maps.transform(adata)))
        if maps is None:
            adata.varm[name] = model._directions.T
        adata.uns[name] = {"eigenvalues": model.eigenvalues_}
    return adata


def _projected(folder: str, method: str) -> pd.DataFrame:
    form = "zarr" if storage.exists(storage.join(folder, "projected", f"{method}.zarr", "zarr.json")) else "parquet"
    dataset = open_rows(storage.join(folder, "projected", f"{method}.{form}"))
    frame = pd.DataFrame(dataset.read_rows(0, dataset.n_rows), columns=dataset.feature_names)
    return frame.assign(label=dataset.read_values(0, dataset.n_rows)) if dataset.has_labels else frame
