"""Fit classifiers to reduced training rows, and count errors on held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reductions import Reduction, Reductions
from mmpca_dist.evaluation.request import Classifiers
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.predictors.classifiers import ClassifierSection, fit_from_moments, is_from_moments
from mmpca_dist.predictors.fits import FittedClassifier, FittedRows, convergence_note
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.statistics.gather import class_moments


@dataclass(frozen=True)
class Part:
    """Reduced rows of a split: ``Z`` (n, M), labels ``y`` (n,), and which rows train and which are held out, (n,).

    ``groups`` (n,) are numbers of groups of rows that belong together, if there are any.
    """

    Z: NDArray
    y: NDArray
    train: NDArray[np.bool_]
    test: NDArray[np.bool_]
    groups: NDArray | None = None

    @property
    def training_groups(self) -> NDArray | None:
        """The groups of the rows that train."""
        return None if self.groups is None else self.groups[self.train]


Fitted = Mapping[tuple[int, str], FittedClassifier]
"""Classifiers by position of the method and size, and label."""


@dataclass
class Scores:
    """Errors of classifiers on a split."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    """A line of the record for each method, size and classifier."""
    fitted: dict[tuple[int, str], FittedClassifier] = field(default_factory=dict)
    """The classifiers."""
    notes: list[str] = field(default_factory=list)


def error_line(item: Reduction, spec: ClassifierSection, errors: Any) -> dict[str, Any]:
    """Return the line of a record: how many of the rows held out a classifier gets wrong."""
    return {
        "method": item.method,
        "n_components": item.n_components,
        "used": item.used,
        "classifier": spec.label,
        "errors": int(errors),
    }


def split_record(
    splits: Splits, index: int, number: int, lines: list[dict[str, Any]], reductions: Reductions, **others: Any
) -> dict[str, Any]:
    """Return the record of a split: errors on the part held out of this index, of ``splits``, which are one.

    ``number`` is that of the part among those held out of all splits; ``lines`` are as of `error_line`.
    """
    return {
        "split": number,
        "rows": int(splits.n_tested[0, index]),
        "training": int(splits.n_train[0, index]),
        "guessed": splits.baseline_errors(splits.held_out[index]),
        "errors": lines,
        "unconverged": reductions.unconverged,
        "edges": reductions.at_edges,
        **others,
    }


def fit_notes(fitted: Fitted) -> list[str]:
    """Return what a reader must know of classifiers that were not fitted to the end."""
    note = convergence_note([model for model in fitted.values() if isinstance(model, FittedRows)])
    return [] if note is None else [note]


def score(
    items: Sequence[Reduction], classifiers: Classifiers, specs: Sequence[ClassifierSection], part: Part, meter: Meter
) -> Scores:
    """Fit classifiers to the rows of a split that train, count errors on those held out, and charge each method."""
    scores, groups = Scores(), part.training_groups
    y_train, y_test = part.y[part.train], part.y[part.test]
    for position, item in enumerate(items):
        with meter.charging(item.method):
            Z = part.Z[:, item.columns]
            Z_train, Z_test = Z[part.train], Z[part.test]
            for spec in specs:
                fitted: FittedClassifier
                if spec.classifier.prefers_own and item.own is not None:
                    fitted = item.own
                elif is_from_moments(spec):
                    fitted = fit_from_moments(spec, _moments(item, Z_train, y_train))
                else:
                    fitted = classifiers.fit_rows(spec, Z_train, y_train, groups)
                scores.fitted[position, spec.label] = fitted
                line = error_line(item, spec, np.count_nonzero(fitted.predict(Z_test) != y_test))
                scores.lines.append(
                    {**line, "C": fitted.C} if isinstance(fitted, FittedRows) and spec.C == "nested" else line
                )
    scores.notes = fit_notes(scores.fitted)
    return scores


def _moments(item: Reduction, Z: NDArray, y: NDArray) -> ReducedMoments:
    """Return the moments of reduced rows: from those of all columns, or from the rows where these do not tell them."""
    if item.moments is not None:
        return item.moments()
    return ReducedMoments.of(class_moments(Z, y, precision="double"), np.eye(Z.shape[1]), precision="double")


@contextmanager
def naming(split: int) -> Iterator[None]:
    """Say in errors of input in which split they were."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"In split {split}: {error}") from error
