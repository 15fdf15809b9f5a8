"""Reduced rows larger than memory: Dask arrays for classifiers that learn block by block."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.datasets.labels import encode
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reductions import Reduction, Reductions
from mmpca_dist.evaluation.scores import Judged, Judges, entry
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.methods.transform import projected
from mmpca_dist.predictors import out_of_core
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.schedulers import Cluster, Scheduler, Threads
from mmpca_dist.statistics.units import read_unit, read_units

DOUBLE = np.dtype(np.float64)


def judge_lazily(
    rows: Rows,
    splits: Splits,
    part: int,
    reductions: Reductions,
    items: Sequence[Reduction],
    judges: Judges,
    meter: Meter,
) -> Judged:
    """Fit the classifiers that learn block by block to rows that train, and count their errors on a part held out.

    Every fit makes passes of its own over the rows, told one by one and charged to its method; the errors of all take
    one more. Blocks are those of rows in memory, and so is what comes of them.
    """
    judged = Judged()
    codes, sizes = _training_codes(rows, splits, part)
    for position, item in enumerate(items):
        with meter.charging(item.method), _computing_on(rows.scheduler):
            Z = _training_rows(rows, splits, part, reductions, item, sizes)
            for spec in judges.from_rows:
                fitted = judges.fit_rows(spec, Z, codes, on_pass=lambda: rows.begins("fit", rows.dataset.n_bytes))
                judged.fitted[position, spec.label] = replace(fitted, classes=splits.classes)
    tasks = [(position, spec) for position in range(len(items)) for spec in judges.from_rows]
    models = [(items[position].columns, judged.fitted[position, spec.label]) for position, spec in tasks]
    errors = rows.pass_over(_CountErrors(rows.dataset, splits, part, reductions, models), np.add, "judge")
    judged.lines += [
        entry(items[position], spec, int(count)) for (position, spec), count in zip(tasks, errors, strict=True)
    ]
    return judged


def _computing_on(scheduler: Scheduler) -> AbstractContextManager:
    """Let Dask arrays be computed where the other passes are."""
    if isinstance(scheduler, Threads):
        return out_of_core.computing_on("threads", scheduler.n_threads)
    return out_of_core.computing_on(scheduler.client) if isinstance(scheduler, Cluster) else nullcontext()


def _training_codes(rows: Rows, splits: Splits, part: int) -> tuple[NDArray, list[int]]:
    """Return the classes of the rows that train, and how many of them each reading unit has."""
    task = _CodeLabels(rows.dataset, splits, part)
    return replace(rows, progress=None).reduce(task, _join_codes, "codes")


def _join_codes(left: tuple[NDArray, list[int]], right: tuple[NDArray, list[int]]) -> tuple[NDArray, list[int]]:
    return np.concatenate([left[0], right[0]]), left[1] + right[1]


@dataclass(frozen=True)
class _CodeLabels:
    dataset: Dataset
    splits: Splits
    part: int
    labels_only = True

    def __call__(self, span: Span) -> tuple[NDArray, list[int]]:
        found, small = [], np.min_scalar_type(len(self.splits.classes))
        for start, stop in span.units:
            labels = self.dataset.read_labels(start, stop)
            train = self.splits.training(start, stop, labels, self.part)[0]
            found.append(encode(labels[train], self.splits.classes, self.dataset.uri).astype(small))
        return np.concatenate(found), [len(codes) for codes in found]


def _training_rows(
    rows: Rows, splits: Splits, part: int, reductions: Reductions, item: Reduction, sizes: Sequence[int]
) -> da.Array:
    """Return the reduced rows that train, shape (n, K): a pass reads every unit once."""
    read = _ReadUnit(rows.dataset, splits, part, reductions.matrix[:, item.columns], reductions.mean)
    shared = dask.delayed(read, pure=False, traverse=False)
    units = [unit for span in rows.spans for unit in span.units]
    pieces = [
        da.from_delayed(shared(start, stop), (size, item.used), dtype=DOUBLE)
        for (start, stop), size in zip(units, sizes, strict=True)
        if size
    ]
    return da.concatenate(pieces).rechunk((out_of_core.BLOCK_ROWS, -1))


@dataclass(frozen=True)
class _ReadUnit:
    """Reads those rows of a unit that train, reduced."""

    dataset: Dataset
    splits: Splits
    part: int
    matrix: NDArray[np.float64]
    mean: NDArray[np.float64] | None

    def __call__(self, start: int, stop: int) -> NDArray[np.float64]:
        X = read_unit(self.dataset, start, stop)
        train = self.splits.training(start, stop, self.dataset.read_labels(start, stop), self.part)[0]
        with single_blas_thread():
            return projected(X, self.matrix, self.mean, DOUBLE)[train]


@dataclass(frozen=True)
class _CountErrors:
    """The task: errors of fitted classifiers on the rows held out."""

    dataset: Dataset
    splits: Splits
    part: int
    reductions: Reductions
    models: list[tuple[NDArray[np.intp], Any]]

    def __call__(self, span: Span) -> NDArray[np.int64]:
        errors = np.zeros(len(self.models), np.int64)
        for start, X in read_units(self.dataset, span):
            labels = self.dataset.read_labels(start, start + len(X))
            held_out = ~self.splits.training(start, start + len(X), labels, self.part)[0]
            if not held_out.any():
                continue
            Z = projected(X, self.reductions.matrix, self.reductions.mean, DOUBLE)[held_out]
            for number, (columns, fitted) in enumerate(self.models):
                errors[number] += np.count_nonzero(fitted.predict(Z[:, columns]) != labels[held_out])
        return errors
