"""Class moments and medians of any labelled rows, from the passes over them: data sets, arrays, Dask arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.census import check_missing_labels, count_labels, warn_of_missing_labels
from mmpca_dist.passes.dask_rows import lazy_rows
from mmpca_dist.passes.pilot import Pilot
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Scheduler, Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.passes.units import read_batches
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.class_weights import ClassWeight, weights_of
from mmpca_dist.statistics.costs import moments_spans, use_pooled
from mmpca_dist.statistics.median_counts import Brackets, MedianCounts
from mmpca_dist.statistics.medians import all_medians, by_pairing, first_brackets, median_sets
from mmpca_dist.statistics.moments import ClassMoments, join_moments
from mmpca_dist.statistics.precision import DOUBLE, work_type
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.sparse_moments import multiplies_stored, sparse_moments
from mmpca_dist.statistics.widening import Widening, effective_precision
from mmpca_dist.statistics.working_statistics import ColumnStatistics, tall_statistics
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import ForeignTable, as_table, labels_of
from mmpca_dist.tables.labels import encode, label_array, normalize_labels
from mmpca_dist.tables.readers.memory import rows_in_memory, weighted
from mmpca_dist.tables.spans import Span, make_spans

Result = tuple[ClassMoments, MedianCounts | None]
"""The result of a span: moments of the classes that it has seen, and counts for medians where asked for."""


def merge_results(left: Result, right: Result, work: np.dtype = DOUBLE) -> Result:
    """Merge what two neighbouring stretches of spans left; ``work`` is as for `join_moments`."""
    counts = None if left[1] is None or right[1] is None else left[1].merge(right[1])
    return join_moments(left[0], right[0], work), counts


def read_moments(
    dataset: Dataset, span: Span, *, classes: NDArray, precision: str, weights: NDArray | None = None,
    brackets: Brackets | None = None,
) -> Result:  # fmt: skip
    """Read the moments of classes, and what medians need, in a span; ``precision`` is that of the products."""
    if brackets is None and multiplies_stored(dataset):
        moments = sparse_moments(dataset, span, classes, precision, weights)
        if moments is not None:
            return moments, None
    # Blocks of rows are widened once they are near the processor, not rows of a unit.
    widening = dataset.form if isinstance(dataset.form, Widening) else None
    rows = dataset if widening is None else dataset.unwidened
    adder = ChunkAdder(len(classes), dataset.n_features, rows.dtype, precision, weights, widening)
    counter = None if brackets is None else brackets.counter(span)
    for batch in read_batches(rows, span, by_blocks=True):
        codes = batch.codes(classes)
        for block in batch.blocks(adder.block_rows):
            own = codes[block.start - batch.start :][: len(block)]
            adder.add(replace(block, table=dataset), own)
            if counter is not None:
                counter.add(block.X, own, block.weight)
    moments = adder.moments()
    del adder
    return moments, None if counter is None else counter.result()


def take_moments(
    rows: Rows, *, precision: str, weights: NDArray | None = None, medians_of: NDArray[np.bool_] | None = None
) -> tuple[ClassMoments, NDArray[np.float64] | None]:
    """Return the class moments, and the coordinate-wise medians (T, d) of sets of classes ``medians_of`` (T, C).

    With ``weights`` (k, C) moments keep k weighted sums of the class scatters in place of every one.
    """
    classes, widening = rows.census.classes, rows.dataset.widening
    brackets = None if medians_of is None else first_brackets(rows, medians_of)
    precision = effective_precision(precision, widening)
    task = partial(read_moments, classes=classes, precision=precision, weights=weights, brackets=brackets)
    merge = partial(merge_results, work=work_type(precision))
    scatters = len(classes) if weights is None else len(weights)
    spans = moments_spans(rows.spans, len(classes), rows.dataset.n_features, scatters)
    moments, counts = replace(rows, spans=spans).pass_over(task, merge, "moments")
    moments = replace(moments.over(np.arange(len(classes)), weights), classes=classes, widening=widening)
    if isinstance(rows.scheduler, Pilot):  # which may have seen no row of a class
        moments = replace(moments, counts=rows.census.counts, sizes=rows.census.sizes)
    return moments, None if brackets is None else all_medians(rows, brackets, counts)


def moments_of(
    dataset: Dataset,
    *,
    precision: str,
    classes: Any = None,
    scheduler: Scheduler | None = None,
    weightings: Collection[ClassWeighting] = tuple(ClassWeighting),
) -> ClassMoments:
    """Return the class moments of a data set, over ``classes`` or those of its labels.

    Scatters that are pooled determine the sums of these ``weightings``.
    """
    if precision not in ("single", "double"):
        raise InputError(f"precision={precision!r} must be 'single' or 'double'.")
    all_classes = None if classes is None else np.unique(normalize_labels(classes, "classes"))
    scheduler, spans = scheduler or Threads(), make_spans(dataset)
    census = count_labels(dataset, spans, Tasks(scheduler=scheduler))
    check_missing_labels(dataset, census, all_classes)
    warn_of_missing_labels(dataset)
    if all_classes is not None:
        encode(census.classes, all_classes, dataset.uri)
        census = census.over(all_classes)
    rows = Rows(dataset=dataset, census=census, spans=spans, scheduler=scheduler)
    weights = weights_of(census, dataset.n_features, weightings)
    return take_moments(rows, precision=precision, weights=weights)[0]


def class_moments(
    X: Any, y: Any = None, *, precision: str = "single", classes: Any = None, sample_weight: Any = None
) -> ClassMoments:
    """Return count, mean and centred scatter of every class, from one pass over the rows.

    Parameters
    ----------
    X : array, scipy.sparse matrix or Dask array of shape (n, d), or Dataset
    y : array or Dask array of shape (n,)
        Labels; left out for a ``Dataset``, which has its own.
    precision : {"single", "double"}
        Precision of the products of rows; their sums are double either way.
    classes : array-like, optional
        All classes, where more may come than are found here.
    sample_weight : array or Dask array of shape (n,), optional
        How often each row counts; rows of weight 0 are left out.

    Returns
    -------
    ClassMoments
        With a d x d scatter of every class up to 256 MiB; beyond, with two sums of them that suffice for all but SAVE.
        ``merge`` them with those of other rows.

    Raises
    ------
    InputError
        For rows that are not finite, or labels that are not classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import MarginPCA, class_moments
    >>> X, y = load_iris(return_X_y=True)
    >>> both = class_moments(X[:80], y[:80], classes=[0, 1, 2]).merge(class_moments(X[80:], y[80:], classes=[0, 1, 2]))
    >>> MarginPCA.from_moments(both, "m-pca0", 2).components_.shape
    (2, 4)
    """
    dataset, scheduler = rows_and_scheduler(X, y, sample_weight)
    return moments_of(dataset, precision=precision, classes=classes, scheduler=scheduler)


def rows_and_scheduler(X: Any, y: Any, sample_weight: Any) -> tuple[Dataset, Scheduler]:
    """Return the rows that ``class_moments`` takes as a data set, and what reads it: threads, or Dask."""
    scheduler: Scheduler = Threads()
    y, X, weights = labels_of(y, X), as_table(X), labels_of(sample_weight, name="sample_weight")
    if isinstance(X, ForeignTable) and X.lazy:
        dataset, scheduler = lazy_rows(X.rows, y, weights)
    else:
        X = X.rows if isinstance(X, ForeignTable) else X
        dataset = rows_in_memory(X, label_array(y, "y"), "the array in memory")
        if weights is not None:
            dataset = weighted(dataset, weights)
    return dataset, scheduler


def n_scatters(n_classes: int, n_features: int, weightings: Collection[ClassWeighting] = ()) -> int:
    """Return how many scatters are kept: one of each class, or sums that determine those of the ``weightings``."""
    return 1 + (ClassWeighting.OTHERS in weightings) if use_pooled(n_classes, n_features) else n_classes


def scatter_bytes(n_classes: int, n_features: int, at_most: bool = False) -> int:
    """Return the bytes of class scatters, pooled or not; ``at_most`` covers fewer columns, too."""
    separate, pooled = 8 * n_classes * n_features**2, 16 * n_features**2
    if not use_pooled(n_classes, n_features):
        return separate
    return max(pooled, LIMITS.pooled_bytes) if at_most else pooled


def gather_statistics(
    rows: Rows,
    *,
    precision: str,
    pairings: Sequence[str] = (),
    standardize: bool = False,
    weightings: Collection[ClassWeighting] = (),
    class_weight: ClassWeight = None,
) -> ColumnStatistics:
    """Return statistics for any method, from one pass over the rows (more only for medians of large data).

    ``pairings`` are the medians of `Needs`, ``weightings`` what is needed in addition to equal weights. Widened rows
    have no medians here: `column_medians` takes them, by the adjustment that follows from the moments.
    """
    is_widened = rows.dataset.widening is not None
    moments, medians = take_moments(
        rows,
        precision=precision,
        medians_of=None if is_widened else median_sets(len(rows.census.classes), *pairings),
        weights=weights_of(rows.census, rows.dataset.n_features, weightings, class_weight),
    )
    return tall_statistics(
        moments, by_pairing(medians, pairings), precision=precision, standardize=standardize, class_weight=class_weight
    )
