"""What runs, evaluations, transforms and refreshes return in Python: records, data frames, and a view in notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mmpca_dist.errors import InputError
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import load_model, open_projected, open_run
from mmpca_dist.jobs.records import Results
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.runs.summary import comparison, figures, lines, stored_table
from mmpca_dist.stores import storage


class Outcome(Results):
    """Records by name, the ``folder`` that they are of, a ``summary`` in words, and a table for notebooks."""

    summary: str
    _table: pd.DataFrame
    _caption = _link = ""

    def __init__(self, records: Mapping[str, Any], folder: str) -> None:
        super().__init__(records)
        self.folder = folder

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self.folder}>"

    def __str__(self) -> str:
        return f"{self.summary}\n{self!r}"

    def _repr_html_(self) -> str:
        summary, folder = html.escape(self.summary).replace("\n", "<br>"), html.escape(self.folder)
        table = f"{self._caption}{self._table.to_html(border=0)}"
        return f"<p>{summary}</p>{table}<p>Folder: <code>{folder}</code>{self._link}</p>"


class Reported(Outcome):
    """What has a report."""

    @property
    def report(self) -> str:
        """The address of the report."""
        return open_run(self.folder).path("report", "index.html")

    @property
    def _link(self) -> str:  # type: ignore[override]
        address = Path(self.report).as_uri() if storage.is_local(self.report) else self.report
        shown = html.escape(self.report)  # notebooks in a browser do not follow links to files
        return f'<br>Report: <a href="{html.escape(address)}" target="_blank"><code>{shown}</code></a>'


class FinishedRun(Reported):
    """A finished or refreshed run, with models that are loaded as they are asked for."""

    @property
    def summary(self) -> str:  # type: ignore[override]
        return "\n".join(lines(self.folder))

    @property
    def methods(self) -> pd.DataFrame:
        """The table that ``mmpca show`` prints, with numbers: a row for each method."""
        return pd.DataFrame(figures(self.folder)).set_index("method")

    _table = methods

    def model(self, method: str, n_components: int | None = None) -> MomentReducer:
        """Return a fitted estimator, as ``load_model`` does."""
        return load_model(self.folder, method, n_components)


class TransformedRows(Outcome):
    """Transformed rows: what was done (``rows``, ``outputs``, ...), and the rows."""

    @property
    def summary(self) -> str:  # type: ignore[override]
        return f"{self['rows']} rows projected by {', '.join(self['methods'])}"

    @property
    def _table(self) -> pd.DataFrame:  # type: ignore[override]
        return pd.DataFrame({"written": self["outputs"]})

    def rows(self, method: str) -> pd.DataFrame:
        """Read the rows of a method, and their labels, into memory."""
        folder = storage.join(self.folder, "projected")
        suffix = "zarr" if storage.exists(storage.join(folder, f"{method}.zarr")) else "parquet"
        dataset = open_projected(folder, method, suffix)
        frame = pd.DataFrame(dataset.read_rows(0, dataset.n_rows), columns=dataset.feature_names)
        return frame.assign(label=dataset.read_values(0, dataset.n_rows)) if dataset.has_labels else frame


class FinishedEvaluation(Reported):
    """A finished evaluation, with its errors."""

    @property
    def summary(self) -> str:  # type: ignore[override]
        """Which method to use with how many components, how sure that is, and whether more are worth a try."""
        return " ".join(comparison(self.folder)["answer"])

    @property
    def verdict(self) -> str:
        """The lowest mean error, and how it differs from the others, with all tests."""
        return comparison(self.folder)["verdict"]

    @property
    def errors(self) -> pd.DataFrame:
        """Mean errors in percent, the lowest first: a row for each method, number of components and classifier."""
        cells = stored_table(RunDirectory(self.folder), "cells").to_pandas()
        whole = cells["used"] > cells["n_components"]  # all columns, which are the same for each number asked for
        cells.loc[whole, "n_components"] = cells["used"]
        cells = cells.drop_duplicates(["method", "n_components", "classifier"])
        return cells.sort_values(["mean", "used"], kind="stable", ignore_index=True)

    @property
    def classes(self) -> pd.DataFrame:
        """Mean errors in percent of the rows of each class: a row for each row of ``errors`` and class.

        ``rows`` are held out, in all splits together. Raises InputError where errors are not counted by class: with
        more than 50 classes, and for numbers to predict.
        """
        if "tables/classes.parquet" not in comparison(self.folder)["outputs"]:
            raise InputError(f"{self.folder} has no errors by class: classes are too many, or numbers are predicted.")
        lines = stored_table(RunDirectory(self.folder), "classes").to_pandas()
        lines["n_components"] = lines[["n_components", "used"]].max(axis=1)  # as in errors, for all columns
        return lines.drop_duplicates(["method", "n_components", "classifier", "class"], ignore_index=True)

    _caption = "<p>Mean errors in percent:</p>"

    @property
    def best(self) -> pd.Series:
        """The first row of ``errors``: the lowest mean, and of equal means the one with the fewest components."""
        return self.errors.iloc[0]

    @property
    def recommended(self) -> pd.Series | None:
        """The row of ``errors`` that ``summary`` says to use; None where nothing is learned."""
        use, errors = comparison(self.folder).get("recommended"), self.errors
        return None if use is None else errors[(errors[list(use)] == pd.Series(use)).all(axis=1)].iloc[0]

    @property
    def _table(self) -> pd.DataFrame:  # type: ignore[override]
        table = self.errors.pivot_table("mean", ["method", "n_components"], "classifier", sort=False)
        return table.sort_index(level="n_components", sort_remaining=False, kind="stable").round(2)


def to_anndata(adata: Any, models: Mapping[str, Any]) -> Any:
    """Write rows and loadings of fitted reducers, by name, into an AnnData object, where scanpy looks for them.

    ``obsm["X_NAME"]`` gets the rows, ``varm["NAME"]`` the loadings, ``uns["NAME"]`` the eigenvalues. Returns the same
    object. Raises ValueError where its genes are not those of the fit.
    """
    if not isinstance(models, Mapping):
        raise InputError(f"models must name the fitted reducers: {{'m-pca0': model}}; it is a {type(models).__name__}.")
    for name, model in models.items():
        adata.obsm[f"X_{name}"] = np.asarray(model.transform(adata))
        adata.varm[name] = model._directions.T
        adata.uns[name] = {"eigenvalues": model.eigenvalues_}
    return adata
