"""``NearestOpposite``: the search as a scikit-learn estimator."""

from __future__ import annotations

import itertools
import weakref
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.errors import InputError
from mmpca_dist.neighbors.layout import Layout, is_usable
from mmpca_dist.neighbors.nearest import Neighbors, find_nearest, make_layout
from mmpca_dist.neighbors.options import Search, fits_memory
from mmpca_dist.neighbors.search import queries_from, search_queries
from mmpca_dist.passes.dask_rows import lazy_rows
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import OnRows, Scheduler, Threads
from mmpca_dist.passes.scratch import open_scratch
from mmpca_dist.passes.tree_reduction import Progress, Tasks, concatenated
from mmpca_dist.passes.units import read_batch
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import ForeignTable, as_table, asked_by, check_header, check_rows, labels_of
from mmpca_dist.tables.labels import label_array, normalize_labels
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import Span, make_spans

BLOCK_QUERIES = 4096


class NearestOpposite(BaseEstimator):
    """Nearest row of another class, for every row: proved, or approximate with the recall measured.

    Parameters
    ----------
    search : {"exact", "approximate"}
    recall : float
        What an approximate search aims at; the lower end of the interval measured reaches it.
    max_queries : int, optional
        Search for so many of the fitted rows only, drawn with a fixed seed.
    pairing : {"one-vs-rest", "one-vs-one"}
        The nearest row of all other classes together, or one of each.
    scratch : str, optional
        Folder (path or fsspec URL) for data that does not fit in memory, or that workers of a cluster share; by
        default a temporary folder of this machine.

    Attributes
    ----------
    classes_ : array of shape (C,)
    n_features_in_, n_samples_fit_ : int
    certificate_ : dict
        After ``kneighbors()``: what was proved and measured, and what it cost.

    Notes
    -----
    A ``Dataset`` is searched on the cluster of Dask's default client, where there is one. The distance is the float64
    sum of squared differences in a fixed order; ties go to the lowest row number. Data laid out on disk is removed by
    ``close``, at the end of a ``with`` block, or with the estimator.

    References
    ----------
    Luo & Durrant 2017, "Maximum Margin Principal Components", section 3, M-PCA2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import NearestOpposite
    >>> X, y = load_iris(return_X_y=True)
    >>> distances, rows = NearestOpposite().fit(X, y).kneighbors()
    >>> int(rows[0, 0]), round(float(distances[0, 0]), 2)
    (98, 2.09)
    """

    _layout: Layout
    _scheduler: Scheduler

    def __init__(
        self,
        *,
        search: str = "exact",
        recall: float = 0.98,
        max_queries: int | None = None,
        pairing: str = "one-vs-rest",
        scratch: str | None = None,
    ) -> None:
        self.search = search
        self.recall = recall
        self.max_queries = max_queries
        self.pairing = pairing
        self.scratch = scratch

    def fit(self, X: Any, y: Any = None, *, progress: Progress | None = None) -> Self:
        """Lay the rows out by cell and class.

        Parameters
        ----------
        X, y : as in ``MarginPCA.fit``
        progress : callable, optional
            Called with the number of tasks done and of all.

        Raises
        ------
        InputError
            (a ValueError) For rows that are not finite, or fewer than two classes.
        """
        self._options()
        self.close()
        with asked_by(self):
            dataset, scheduler = self._dataset(X, y, reset=True)
            rows = Rows.of(dataset, scheduler, progress=progress)
        in_memory = scheduler.in_process and fits_memory(dataset)
        stack = ExitStack()
        self._finalizer = weakref.finalize(self, stack.close)
        self._layout = make_layout(rows, stack.enter_context(open_scratch(in_memory, self.scratch)))
        self._scheduler = scheduler
        self.classes_, self.n_samples_fit_ = rows.census.classes, dataset.n_rows
        return self

    def kneighbors(
        self, X: Any = None, y: Any = None, return_distance: bool = True, *, progress: Progress | None = None
    ) -> Any:
        """Return the nearest fitted rows of other classes.

        Parameters
        ----------
        X : as in ``fit``, of shape (n_queries, n_features), optional
            By default the fitted rows themselves (those drawn, with ``max_queries``; see ``find``). Rows of Dask or of
            a ``Dataset`` are read piece by piece; the results are in memory.
        y : as in ``fit``
            Classes of the rows of ``X``.

        Returns
        -------
        distances : array of shape (n_queries, slots)
            One slot, or with ``one-vs-one`` one a class; infinite in that of a row's own class. Left out unless
            ``return_distance``.
        rows : int array of shape (n_queries, slots)
            Row numbers; -1 in the slot of a row's own class.
        """
        check_is_fitted(self, "classes_")
        if X is None:
            _, rows, distances = self.find(progress=progress).arrays()
        else:
            rows, distances = self._of_others(X, y)
        return (distances, rows) if return_distance else rows

    def find(self, *, progress: Progress | None = None) -> Neighbors:
        """Search for the fitted rows.

        Returns
        -------
        Neighbors
            Tables that are read piece by piece, whatever their size. ``arrays()`` has everything at once: row numbers
            of the queries, of their neighbours, and distances.
        """
        check_is_fitted(self, "classes_")
        tasks = Tasks(scheduler=self._scheduler, progress=progress)
        neighbors = find_nearest(self._layout, self.classes_, self._options(), tasks)
        self.certificate_ = neighbors.certificate()
        return neighbors

    def close(self) -> None:
        """Remove what was laid out."""
        if hasattr(self, "_finalizer"):
            self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _options(self) -> Search:
        return Search(self.search, self.recall, self.max_queries, self.pairing)

    def _dataset(self, X: Any, y: Any, *, reset: bool) -> tuple[Dataset, Scheduler]:
        """Return labelled rows as a data set, with their columns checked, and who reads them."""
        if y is None and not isinstance(X, Dataset):
            raise InputError("The labels y are None; they are needed, for neighbours are of other classes.")
        y, X = labels_of(y, X), as_table(X)
        if isinstance(X, ForeignTable) and X.lazy:
            check_header(self, X, reset=reset)
            return lazy_rows(X.rows, y)
        X, y = check_rows(self, X, label_array(y, "y"), reset=reset, ensure_min_samples=2 if reset else 1)
        return rows_in_memory(X, normalize_labels(y, "y"), "X"), Threads()

    def _of_others(self, X: Any, y: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        dataset, scheduler = self._dataset(X, y, reset=False)
        spans = make_spans(dataset)
        if isinstance(scheduler, Threads) and dataset.in_memory:
            edges = [*range(0, dataset.n_rows, BLOCK_QUERIES), dataset.n_rows]
            spans = [Span(i, edge) for i, edge in enumerate(itertools.pairwise(edges))]
        one_vs_one = self.pairing == "one-vs-one"
        task = partial(_search_span, layout=self._layout, classes=self.classes_, one_vs_one=one_vs_one)
        return Tasks(scheduler=scheduler).run(OnRows(dataset, task), spans, concatenated, "queries")


def _search_span(
    dataset: Dataset, span: Span, *, layout: Layout, classes: NDArray, one_vs_one: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Search for rows that are not in the layout."""
    starts = range(span.start, span.stop, BLOCK_QUERIES)
    batches = (read_batch(dataset, a, min(a + BLOCK_QUERIES, span.stop), ("label",)) for a in starts)
    return concatenated(*(_search(batch, layout, classes, one_vs_one) for batch in batches))


def _search(
    batch: Batch, layout: Layout, classes: NDArray, one_vs_one: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    X, codes = batch.X, batch.codes(classes)
    usable = is_usable(X)
    if not usable.all():
        row, column = np.argwhere(~usable)[0].tolist()
        raise InputError(
            f"Found {X[row, column]} in row {batch.start + row}, column {column} of X: squared distances overflow."
        )
    queries = queries_from(layout.cells, X, codes)
    best, _ = search_queries(queries, layout, one_vs_one=one_vs_one)
    rows, squared = np.empty_like(best.rows), np.empty_like(best.squared)
    rows[queries.rows] = np.where(np.isfinite(best.squared), best.rows, -1)
    squared[queries.rows] = best.squared
    return rows, np.sqrt(squared)
