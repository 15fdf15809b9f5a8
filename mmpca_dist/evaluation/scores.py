"""Fit classifiers to reduced training rows, and count errors on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reductions import Reduction
from mmpca_dist.predictors.classifiers import ClassifierSection, fit_from_moments, is_from_moments
from mmpca_dist.predictors.fits import FittedRows, convergence_note, fit_rows
from mmpca_dist.predictors.penalties import choose_C
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.statistics.gather import class_moments


@dataclass(frozen=True)
class Judges:
    """The classifiers of an evaluation.

    Attributes
    ----------
    specs : list of ClassifierSection
    penalties : dict
        C by the classifier's label, where one was chosen for all splits.
    seed : int
        Of the folds by which C is chosen within the rows that train.
    """

    specs: Sequence[ClassifierSection]
    penalties: dict[str, float] = field(default_factory=dict)
    seed: int = 0

    @property
    def from_moments(self) -> list[ClassifierSection]:
        """Those that need no rows to be fitted."""
        return [spec for spec in self.specs if is_from_moments(spec)]

    @property
    def from_rows(self) -> list[ClassifierSection]:
        """Those that are fitted to reduced rows."""
        return [spec for spec in self.specs if not is_from_moments(spec)]

    @property
    def notes(self) -> list[str]:
        """Return what a reader must know of penalties that were chosen, in one sentence."""
        if not self.penalties:
            return []
        return [
            f"C of {', '.join(self.penalties)} was chosen on all rows, those held out included, as in the paper "
            "(C: auto): errors may be too low. C: nested chooses it from the rows that train alone."
        ]

    def fit_rows(
        self, spec: ClassifierSection, Z: Any, y: NDArray, on_pass: Callable[[], None] | None = None
    ) -> FittedRows:
        """Fit a classifier to reduced rows that train, with its penalty, which is chosen first where it is nested."""
        penalties = choose_C([spec], Z, y, seed=self.seed) if spec.C == "nested" else self.penalties
        return fit_rows(spec, Z, y, C=penalties.get(spec.label), on_pass=on_pass)


@dataclass(frozen=True)
class Part:
    """Reduced rows of a split, by whether they train: ``Z`` (n, M), labels ``y`` (n,), ``train`` (n,)."""

    Z: NDArray
    y: NDArray
    train: NDArray[np.bool_]


def entry(item: Reduction, spec: ClassifierSection, errors: int) -> dict[str, Any]:
    """Return the line of a record: how many of the rows held out a classifier gets wrong."""
    return {
        "method": item.method,
        "n_components": item.n_components,
        "used": item.used,
        "classifier": spec.label,
        "errors": errors,
    }


@dataclass
class Judged:
    """What classifiers did on a split.

    Attributes
    ----------
    lines : list of dict
        A line of the record for each method, size and classifier.
    fitted : dict
        The classifiers by position of the method and size, and label.
    """

    lines: list[dict[str, Any]] = field(default_factory=list)
    fitted: dict[tuple[int, str], Any] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """Return what a reader must know of classifiers that were not fitted to the end."""
        note = convergence_note([one for one in self.fitted.values() if isinstance(one, FittedRows)])
        return [] if note is None else [note]


def judge(
    items: Sequence[Reduction], judges: Judges, specs: Sequence[ClassifierSection], part: Part, meter: Meter
) -> Judged:
    """Fit classifiers to the rows of a split that train, and count their errors on the others; charge each method."""
    judged = Judged()
    test = ~part.train
    held_out = part.y[test]
    for position, item in enumerate(items):
        with meter.charging(item.method):
            Z = part.Z[:, item.columns]
            Z_train, Z_test = Z[part.train], Z[test]
            for spec in specs:
                fitted: Any
                if is_from_moments(spec):
                    fitted = fit_from_moments(spec, _moments(item, Z_train, part.y[part.train]))
                else:
                    fitted = judges.fit_rows(spec, Z_train, part.y[part.train])
                judged.fitted[position, spec.label] = fitted
                chosen = {"C": fitted.C} if spec.C == "nested" else {}
                wrong = int(np.count_nonzero(fitted.predict(Z_test) != held_out))
                judged.lines.append({**entry(item, spec, wrong), **chosen})
    return judged


def _moments(item: Reduction, Z: NDArray, y: NDArray) -> ReducedMoments:
    """Return the moments of reduced rows: from those of all columns, or from the rows where these do not tell them."""
    if item.moments is not None:
        return item.moments()
    return ReducedMoments.of(class_moments(Z, y, precision="double"), np.eye(item.used), precision="double")


@contextmanager
def naming(split: int) -> Iterator[None]:
    """Say in errors of input in which split they were."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"In split {split}: {error}") from error
