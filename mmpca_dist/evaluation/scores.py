"""Fit classifiers to reduced training rows, and count errors on held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.ranking import ranking_scores, ranks
from mmpca_dist.evaluation.reductions import Reduction, Reductions
from mmpca_dist.evaluation.request import Classifiers
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import FittedClassifier, FittedRows, convergence_notes
from mmpca_dist.tables.batch import Batch

MAX_CLASSES, MAX_CONFUSED = 50, 20
"""Errors are counted by class, too, where there are at most so many; and by the class they are taken for."""


@dataclass(frozen=True)
class Part:
    """Reduced rows of a split, ``X`` (n, M) of a batch, and which of them train and which are held out, (n,)."""

    rows: Batch
    train: NDArray[np.bool_]
    test: NDArray[np.bool_]


Fitted = Mapping[tuple[int, str], FittedClassifier]
"""Classifiers by position of the method and size, and label."""


@dataclass
class Scores:
    """Errors of classifiers on a split."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    fitted: dict[tuple[int, str], FittedClassifier] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def error_line(item: Reduction, spec: ClassifierSection, errors: NDArray, n_classes: int) -> dict[str, Any]:
    """Return the line of a record: how many of the rows held out a classifier gets wrong, or their weights.

    ``errors`` are as of `count_wrong`. Weights are rounded: sums over the same rows are then equal, in whatever order
    they are added.
    """
    total, *others = [float(f"{n:.12g}") if isinstance(n, float) else n for n in errors.tolist()]
    by_class, confused = others[:n_classes], others[n_classes:]
    return {
        "method": item.method,
        "n_components": item.n_components,
        "used": item.used,
        "classifier": spec.label,
        "errors": total,
        **({"errors_by_class": by_class} if by_class else {}),
        **({"confused": confused} if confused else {}),
    }


def split_record(
    splits: Splits, index: int, lines: list[dict[str, Any]], reductions: Reductions, **others: Any
) -> dict[str, Any]:
    """Return the record of a split: errors on the part held out of this index, of ``splits``, which are one.

    ``lines`` are as of `error_line`.
    """
    part, totals, items = splits.held_out[index], splits.totals[0].sum(axis=0), reductions.items
    by_class = {"rows_by_class": splits.totals[0][:, part].tolist()} if "errors_by_class" in lines[0] else {}
    return {
        "split": splits.first + index,
        "rows": totals[part].item(),
        **by_class,
        "training": (totals @ splits.trains(part)).item(),
        "guessed": splits.baseline_errors(part),
        "errors": _for_all_sizes(lines, reductions),
        "unconverged": [item.method for item in items if not item.converged],
        "edges": [item.method for item in items if item.at_edge],
        "cautions": {item.method: " ".join(item.cautions) for item in items if item.cautions},
        **others,
    }


def _for_all_sizes(lines: list[dict[str, Any]], reductions: Reductions) -> list[dict[str, Any]]:
    """Return lines of errors, with those of a method that reduces nothing for every size asked for."""
    sizes = {item.method: item.sizes for item in reductions.items if item.sizes}
    repeated = [
        {**line, "n_components": size}
        for method in sizes
        for size in sizes[method]
        for line in lines
        if line["method"] == method
    ]
    return [line for line in lines if line["method"] not in sizes] + repeated


def score(items: Sequence[Reduction], classifiers: Classifiers, part: Part, meter: Meter) -> Scores:
    """Fit classifiers to the rows of a split that train, count errors on those held out, and charge each method.

    ``items`` are methods at sizes, whose columns are those of the reduced rows.
    """
    scores, trained, tested = Scores(), part.rows.take(part.train), part.rows.take(part.test)
    classes, codes = np.unique(part.rows.label, return_inverse=True)
    for position, item in enumerate(items):
        with meter.charging(item.method):
            Z = part.rows.X[:, item.columns]
            trained, Z_test = replace(trained, X=Z[part.train]), Z[part.test]
            for spec in classifiers.from_rows:
                fitted: FittedClassifier
                if item.own is not None and (spec.classifier.prefers_own or not item.used):
                    fitted = item.own
                else:
                    fitted = classifiers.fit_rows(spec, trained)
                scores.fitted[position, spec.label] = fitted
                taken_for = np.searchsorted(classes, fitted.predict(Z_test))
                errors = count_wrong(taken_for, tested.weight, codes[part.test], len(classes))
                line = error_line(item, spec, errors, len(classes))
                if len(classes) == 2:
                    line |= ranks(ranking_scores(fitted, Z_test), codes[part.test] == 1, tested.weight)
                scores.lines.append(
                    {**line, "C": fitted.C} if isinstance(fitted, FittedRows) and spec.C == "nested" else line
                )
    scores.notes = convergence_notes(scores.fitted.values())
    return scores


def error_counts(shape: tuple[int, ...], n_classes: int, weighted: bool) -> NDArray:
    """Return zeros that results of `count_wrong` are added to: of all rows, of each class, and of each pair of classes.

    The shape is (..., 1 + C + C C), (..., 1 + C) with more than `MAX_CONFUSED` classes, and (..., 1) with many.
    """
    by_class = n_classes * (n_classes <= MAX_CLASSES)
    pairs = n_classes**2 * (n_classes <= MAX_CONFUSED)
    return np.zeros((*shape, 1 + by_class + pairs), np.float64 if weighted else np.int64)


def count_wrong(
    taken_for: NDArray[np.integer], weights: NDArray[np.float64] | None, codes: NDArray[np.intp], n_classes: int
) -> NDArray:
    """Return how many rows are wrong, or the sum of their weights, of each column of ``taken_for`` (n, ...).

    These are codes of the classes that rows are taken for; ``codes`` (n,) are those of their own. The shape is that of
    `error_counts`; pairs are of the own class and the other.
    """
    columns = taken_for.reshape(len(codes), -1)
    errors = error_counts((columns.shape[1],), n_classes, weights is not None)
    wrong = columns != codes[:, None]
    errors[:, 0] = np.count_nonzero(wrong, axis=0) if weights is None else weights @ wrong
    if errors.shape[-1] > 1:
        rows, column = np.nonzero(wrong)
        own, counted = codes[rows], None if weights is None else weights[rows]
        places = [(1, own, n_classes)]
        if n_classes <= MAX_CONFUSED:
            places.append((1 + n_classes, own * n_classes + columns[rows, column], n_classes**2))
        for start, place, count in places:
            sums = np.bincount(column * count + place, counted, len(errors) * count)
            errors[:, start : start + count] = sums.reshape(-1, count)
    return errors.reshape(*taken_for.shape[1:], -1)


@contextmanager
def naming(split: int | str) -> Iterator[None]:
    """Say in errors of input in which split they were."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"In split {split}: {{fault}}", fault=error.faults[0]) from error
