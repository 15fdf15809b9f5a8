"""Results of finished runs and evaluations, as Python calls return them."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mmpca_dist.errors import AbsentError, InputError
from mmpca_dist.evaluation.tables import REGRESSION
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import finished, load_model, open_projected, open_run
from mmpca_dist.jobs.records import COMPARE, CompareRecord, Results
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.results.evaluation_result import result_in, stored_table
from mmpca_dist.results.result import Result
from mmpca_dist.stores import storage

Shown = tuple[str, Sequence[Mapping[str, Any]], str, str]


class Outcome(Results):
    """Base of results: records by name, the ``folder`` that they are of, a ``summary`` in words, and a table."""

    def __init__(self, records: Mapping[str, Any], folder: str) -> None:
        super().__init__(records)
        self.folder = folder

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self.folder}>"

    def __str__(self) -> str:
        return f"{self.summary}\n{self!r}"

    @property
    def summary(self) -> str:
        return self._shown()[0]

    def _shown(self) -> Shown:
        """Return the summary, the rows of the table, and as HTML its caption and a link."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        summary, rows, caption, link = self._shown()
        words, folder = html.escape(summary).replace("\n", "<br>"), html.escape(self.folder)
        table = pd.DataFrame(list(rows)).to_html(border=0, index=False)
        return f"<p>{words}</p>{caption}{table}<p>Folder: <code>{folder}</code>{link}</p>"


class Reported(Outcome):
    """A result that has a report."""

    @property
    def _result(self) -> Result:
        """The result that all renderers show."""
        return result_in(self.folder)

    @property
    def report(self) -> str:
        """The address of the report."""
        return open_run(self.folder).path("report", "index.html")

    def _shown(self) -> Shown:
        result, address = self._result, Path(self.report).as_uri() if storage.is_local(self.report) else self.report
        shown = html.escape(self.report)  # notebooks in a browser do not follow links to files
        link = f'<br>Report: <a href="{html.escape(address)}" target="_blank"><code>{shown}</code></a>'
        return "\n".join([*result.lead, *result.words]), result.rows, f"<p>{html.escape(result.title)}</p>", link


class FinishedRun(Reported):
    """A finished or refreshed run, with models that are loaded as they are asked for.

    It is a dict of the records of the stages, such as ``result["reduce"]["seconds"]``; of ``refresh``, of what was
    done: ``taken``, ``rows``, ``left_out``.

    Attributes
    ----------
    folder : str
        Where the run is.
    report : str
        The address of its page.
    summary : str
        Rows, features and classes, how numbers of components were chosen, and what searches proved.
    methods : pandas.DataFrame
        A row for each method, by its label: ``components``, ``share`` of the scatter, ``residual``,
        ``leading eigenvalues``, ``switched off`` and ``close to rounding``.

    Examples
    --------
    >>> import tempfile
    >>> from mmpca_dist import run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     settings = {"methods": ["pca", "fisher"], "n_components": 2, "output": folder}
    ...     result = run({"dataset": {"uri": "bundled:iris"}, **settings})
    ...     result.methods["components"].to_dict(), result.model("pca").components_.shape
    ({'pca': 2, 'fisher': 2}, (2, 4))
    """

    @property
    def methods(self) -> pd.DataFrame:
        """The table that ``mmpca show`` prints, with numbers: a row for each method."""
        return pd.DataFrame(list(self._result.numbers)).set_index("method")

    def model(self, method: str, n_components: int | None = None) -> MomentReducer:
        """Return a fitted estimator, as ``load_model`` does."""
        return load_model(self.folder, method, n_components)


class TransformedRows(Outcome):
    """Transformed rows.

    It is a dict of what was done: ``dataset``, ``rows`` (their number), ``methods``, ``destination``, ``outputs``
    (addresses of what was written), ``written`` (bytes), ``labels`` (whether there are any) and ``seconds``.

    Attributes
    ----------
    folder : str
        Where they are.
    summary : str
        How many rows, and by which methods.

    Examples
    --------
    >>> import tempfile
    >>> from mmpca_dist import run, transform
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     settings = {"methods": "pca", "n_components": 2, "output": f"{folder}/run"}
    ...     first = run({"dataset": {"uri": "bundled:iris"}, **settings})
    ...     transform(first, "bundled:iris", f"{folder}/new").rows("pca").shape  # two components and the label
    (150, 3)
    """

    def _shown(self) -> Shown:
        words = f"{self['rows']} rows projected by {', '.join(self['methods'])}"
        return words, [{"written": path} for path in self["outputs"]], "", ""

    def rows(self, method: str) -> pd.DataFrame:
        """Read the rows of a method, and their labels, into memory."""
        folder = storage.join(self.folder, "projected")
        suffix = "zarr" if storage.exists(storage.join(folder, f"{method}.zarr")) else "parquet"
        rows = open_projected(folder, method, suffix)
        frame = pd.DataFrame(rows.read(0, rows.n_rows), columns=rows.feature_names)
        return frame if rows.label is None else frame.assign(label=rows.column(None, "label").read(0, rows.n_rows)[0])


class FinishedEvaluation(Reported):
    """A finished evaluation, with its errors.

    It is a dict of the records of the stages.

    Attributes
    ----------
    folder : str
        Where the evaluation is.
    report : str
        The address of its page.
    summary : str
        Which method to use with how many components, how sure that is, and whether more are worth a try.
    verdict : str
        The lowest mean error, and how it differs from the others, with all tests.
    errors, classes : pandas.DataFrame
        Mean errors in percent, over the splits; also of each class.
    best, recommended : pandas.Series
        The row of ``errors`` with the lowest mean, and that which ``summary`` says to use.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import evaluate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = evaluate(X, y, methods="pca", n_components=[1, 2], splits="folds")
    >>> result.errors["method"].tolist(), result.classes["class"].unique().tolist()
    (['all-columns', 'pca', 'pca'], ['0', '1', '2'])
    """

    @property
    def _record(self) -> CompareRecord:
        return finished(RunDirectory(self.folder), COMPARE)

    def _shown(self) -> Shown:
        return " ".join(self._result.lead), *super()._shown()[1:]

    @property
    def verdict(self) -> str:
        """The lowest mean error, and how it differs from the others, with all tests."""
        return self._record["verdict"]

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
        run = RunDirectory(self.folder)
        lines, kept = stored_table(run, name).to_pandas(), [*run.config.unreduced, "all-columns"]
        lines["n_components"] = lines["n_components"].mask(lines["method"].isin(kept), lines["used"])
        return lines.drop_duplicates(["method", "n_components", "classifier", *keys], ignore_index=True)

    @property
    def classes(self) -> pd.DataFrame:
        """Mean errors in percent of the rows of each class: a row for each row of ``errors`` and class.

        ``rows`` are held out, in all splits together. Raises AttributeError where errors are not counted by class: with
        more than 50 classes, and for numbers to predict.
        """
        if "tables/classes.parquet" not in self._record["outputs"]:
            raise AbsentError(f"{self.folder} has no errors by class: classes are too many, or numbers are predicted.")
        return self._lines("classes", "class")

    @property
    def best(self) -> pd.Series:
        """The first row of ``errors``: the lowest mean, and of equal means the one with the fewest components."""
        return self.errors.iloc[0]

    @property
    def recommended(self) -> pd.Series | None:
        """The row of ``errors`` that ``summary`` says to use; None where nothing is learned."""
        use, errors = self._record.get("recommended"), self.errors
        return None if use is None else errors[(errors[list(use)] == pd.Series(use)).all(axis=1)].iloc[0]


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
