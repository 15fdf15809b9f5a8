"""Reports of finished runs and evaluations: lines, tables, and what Python calls return."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.errors import AbsentError, InputError
from mmpca_dist.evaluation.tables import REGRESSION
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import finished, load_model, open_projected, open_run, solved_methods
from mmpca_dist.jobs.notes import summaries
from mmpca_dist.jobs.object_records import AGAIN, read_recorded
from mmpca_dist.jobs.records import CompareRecord, ReportRecord, Results, StageName
from mmpca_dist.jobs.run_needs import SEARCH, run_needs
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import reading_own

WRITTEN = {"components": "d", "share": ".1%", "residual": ".0e"}
"""How numbers of the table of components are written."""


def lines(output: str) -> list[str]:
    """Return lines on rows, features and classes, on how numbers of components were chosen, and on each search."""
    run = open_run(output)
    header, count, chosen = run.header(), finished(run, records.COUNT), run.record(records.CHOOSE)
    uri = count.get("uri", header["config"]["dataset"]["uri"])
    outcome = f"to predict: {', '.join(count['targets'])}" if "targets" in count else f"{len(count['classes'])} classes"
    headline = f"{uri}: {count['n_rows']:,} rows, {count['n_features']:,} features, {outcome}"
    choice = [] if chosen is None else [f"components: chosen for each method by the {chosen['how']}"]
    config = run.config
    stages: list[StageName[Any]] = [records.COUNT, records.SOLVE, *(need.stage for need in run_needs(config, SEARCH))]
    results = Results({stage: record for stage in stages if (record := run.record(stage)) is not None})
    return [headline, *choice, *(search.line() for search in summaries(config, results))]


def report_of(output: str) -> ReportRecord | None:
    """Return the record of the run's report, if it has one: its address, and what a reader of the results must know."""
    return open_run(output).record(records.REPORT)


def components_and_legend(output: str) -> tuple[list[dict[str, str]], str]:
    """Return the table of components, as texts, and what its columns mean for the methods in it."""
    run, rows, several = open_run(output), [], []
    for row, model in _all_figures(run):
        rows.append({name: _text(row[name], WRITTEN.get(name, "")) for name in row})
        several += [str(row["method"])] * (model is not None and _n_models(model) > 1)
    return rows, _legend(run.config.methods, any(row["residual"] == "-" for row in rows), several)


def _legend(sections: Sequence[MethodSection], lacks_residuals: bool, several: list[str]) -> str:
    labels: dict[str, list[str]] = {}
    for section in sections:
        labels.setdefault(section.method.shares, []).append(section.label)
    shares = "; ".join(f"{', '.join(labels[share])}: {share}" for share in labels if share)
    residuals = [f"{section.label}: {section.method.residuals}" for section in sections if section.method.residuals]
    if lacks_residuals:
        residuals.insert(0, "none where components are no eigenvectors")
    values = [
        f"{section.label}: {section.method.values}"
        for section in sections
        if section.method.values and not section.method.shares
    ]
    return (
        "share: of the scatter that the method is about" + (f" ({shares})" if shares else "")
        + ", held by the components together. residual: the largest |S v - l v|, divided by the leading eigenvalue l"
        + (f" ({'; '.join(residuals)})." if residuals else ".")
        + (f" In place of eigenvalues: {'; '.join(values)}." if values else "")
        + (f" {', '.join(several)}: a model for each class, with so many components and on average that share; "
           "the leading values are those of the first class." if several else "")
    )  # fmt: skip


def _all_figures(run: RunDirectory) -> Iterator[tuple[dict[str, Any], MomentReducer | None]]:
    """Yield the figures of each method of a run, and its model; None where it has no components."""
    solved = solved_methods(run, run.config.labels)
    for label in run.config.labels:
        model = load_model(run.uri, label) if label in solved else None
        none = {"method": label, "components": 0, "share": np.nan, "residual": np.nan, "leading eigenvalues": ""}
        yield none if model is None else _figures(label, model), model


def _figures(method: str, model: MomentReducer) -> dict[str, Any]:
    """Return the components of a method, the share of the scatter they hold, residual, leading eigenvalues."""
    return {
        "method": method,
        "components": model.fitted().used,
        "share": share_of(model),
        "residual": float(np.max(model.residuals_) / abs(model.eigenvalues_.max())),
        "leading eigenvalues": ", ".join(_text(value, ".3g") for value in model.eigenvalues_[:3]),
    }


def _text(value: Any, form: str) -> str:
    return "-" if isinstance(value, float) and not np.isfinite(value) else format(value, form)


def share_of(model: MomentReducer) -> float:
    """Return the share of the scatter that the components hold; NaN where the method has none."""
    return float(model.eigenvalues_.sum() / (model.total_ * _n_models(model))) if model.total_ > 0 else np.nan


def _n_models(model: MomentReducer) -> int:
    """Return how many models a fitted estimator has: one, or one for each class."""
    return len(model.components_) if model.components_.ndim == 3 else 1


def comparison(output: str) -> CompareRecord:
    """Return the record of a finished evaluation: its verdict in words, notes, and where its report is."""
    return finished(RunDirectory(storage.normalize(output)), records.COMPARE)


def error_rows(output: str) -> list[dict[str, str]]:
    """Return the errors of a finished evaluation as a table: a row for each method and number of components.

    Rows of one method that used as many components and have the same errors are shown once.
    """
    rows: dict[tuple[str, int], dict[str, str]] = {}
    used: dict[tuple[str, int], int] = {}
    for cell in stored_table(RunDirectory(storage.normalize(output)), "cells").to_pylist():
        method, size = key = cell["method"], cell["n_components"]
        used[key] = cell["used"]
        components = f"{cell['used']} of {size}" if cell["used"] < size else str(cell["used"])
        row = rows.setdefault(key, {"method": method, "components": components})
        deviation = "" if cell["deviation"] is None else f" ({cell['deviation']:.1f})"
        row[cell["classifier"]] = f"{cell['mean']:.2f}{deviation}"
    distinct: dict[tuple[Any, ...], dict[str, str]] = {}
    for key, row in rows.items():
        errors = tuple((name, text) for name, text in row.items() if name != "components")
        distinct.setdefault((used[key], *errors), row)
    return list(distinct.values())


def stored_table(run: RunDirectory, name: str) -> pa.Table:
    """Return a table of a finished evaluation: ``errors``, ``cells`` of mean errors, or ``classes``."""
    path = f"tables/{name}.parquet"
    # Not read_table: Arrow's data set reader may drop the Python bytes from a thread of its own while the interpreter
    # ends, which aborts the process after all is done.
    source = pa.BufferReader(read_recorded(run.uri, finished(run, records.COMPARE), path))
    with reading_own(run.path(path), AGAIN), pq.ParquetFile(source) as file:
        return file.read(use_threads=False)


class Outcome(Results):
    """Base of results: records by name, the ``folder`` that they are of, a ``summary`` in words, and a table."""

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
    """A result that has a report."""

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
        run = open_run(self.folder)
        return pd.DataFrame([row for row, _ in _all_figures(run)]).set_index("method")

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
        rows = open_projected(folder, method, suffix)
        frame = pd.DataFrame(rows.read(0, rows.n_rows), columns=rows.feature_names)
        return frame if rows.label is None else frame.assign(label=rows.column(None, "label").read(0, rows.n_rows)[0])


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
        """Mean errors in percent, the lowest first: a row for each method, number of components and classifier.

        For numbers to predict also ``r2`` and ``rmse``, means over the splits.
        """
        lines, keys = self._lines("cells"), ["method", "n_components", "classifier"]
        if REGRESSION in lines["classifier"].to_numpy():
            splits = self._lines("errors", "split").groupby(keys, sort=False)[["r2", "rmse"]].mean()
            lines = lines.join(splits, on=keys)
        return lines.sort_values(["mean", "used"], kind="stable", ignore_index=True)

    def _lines(self, name: str, *keys: str) -> pd.DataFrame:
        """Return a stored table; all columns, which are the same for each number asked for, are in it once."""
        lines = stored_table(RunDirectory(self.folder), name).to_pandas()
        lines["n_components"] = lines[["n_components", "used"]].max(axis=1)
        return lines.drop_duplicates(["method", "n_components", "classifier", *keys], ignore_index=True)

    @property
    def classes(self) -> pd.DataFrame:
        """Mean errors in percent of the rows of each class: a row for each row of ``errors`` and class.

        ``rows`` are held out, in all splits together. Raises AttributeError where errors are not counted by class: with
        more than 50 classes, and for numbers to predict.
        """
        if "tables/classes.parquet" not in comparison(self.folder)["outputs"]:
            raise AbsentError(f"{self.folder} has no errors by class: classes are too many, or numbers are predicted.")
        return self._lines("classes", "class")

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
        adata.varm[name] = model.fitted().directions.T
        adata.uns[name] = {"eigenvalues": model.eigenvalues_}
    return adata
