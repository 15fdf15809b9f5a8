"""The request of an evaluation: methods, classifiers, and the sizes of its parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sklearn.base import clone

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.evaluation.ranking import RANKED_BYTES
from mmpca_dist.evaluation.splits import PartSizes
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.predictors.classifiers import ClassifierSection, is_from_moments
from mmpca_dist.predictors.fits import FittedRows, choose_C, fit_rows
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.tables.batch import Batch


@dataclass(frozen=True)
class Classifiers:
    """The classifiers of an evaluation."""

    specs: Sequence[ClassifierSection]
    penalties: Mapping[str, float] = field(default_factory=dict)
    """C by the classifier's label, where one was chosen for all splits."""
    seed: int = 0
    """Seed of the folds by which C is chosen within the rows that train."""

    @property
    def from_moments(self) -> list[ClassifierSection]:
        """The classifiers that need no rows to be fitted."""
        return [spec for spec in self.specs if is_from_moments(spec)]

    @property
    def from_rows(self) -> list[ClassifierSection]:
        """The classifiers that are fitted to reduced rows."""
        return [spec for spec in self.specs if not is_from_moments(spec)]

    @property
    def each_scatter(self) -> bool:
        """Whether one of them needs the scatter of each class."""
        return any(spec.classifier.each_scatter for spec in self.specs)

    @property
    def linear_rules(self) -> list[ClassifierSection]:
        """Fisher, or where that is not asked for lda: linear, and from moments."""
        fisher, lda = ([spec for spec in self.specs if spec.name == name] for name in ("fisher", "lda"))
        return fisher or lda

    @property
    def notes(self) -> list[str]:
        """A note on penalties that were chosen, in one sentence."""
        if not self.penalties:
            return []
        return [
            f"C of {', '.join(self.penalties)} was chosen on all rows, those held out included, as in the paper "
            "(C: auto): errors may be too low. C: nested chooses it from the rows that train alone."
        ]

    def fit_rows(self, spec: ClassifierSection, rows: Batch) -> FittedRows:
        """Fit a classifier to reduced rows that train, with its penalty, which is chosen first where it is nested."""
        X, y, penalties = rows.X, rows.label, self.penalties
        if spec.C == "nested":
            penalties = choose_C([spec], X, y, rows.roles.get("group"), rows.weight, seed=self.seed)
        return fit_rows(spec, X, y, penalties.get(spec.label), rows.weight)


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """The methods and classifiers that are evaluated, on which parts, and how."""

    methods: Mapping[str, MomentReducer]
    """Estimators by their labels in results, in order."""
    unreduced: frozenset[str]
    """Those that keep all columns."""
    sizes: Sequence[float]
    """Numbers of components of each method, or shares that they hold, ascending."""
    needs: Needs
    """Needs of all methods together."""
    classifiers: Classifiers
    parts: PartSizes
    merged: bool
    """Whether moments of the parts are merged; else passes over the rows that train serve each part."""
    in_memory: bool
    """Whether all rows are read into memory for these."""
    margins: bool
    width: int
    """Columns of the reduced rows of all methods together, at most."""
    precision: str = "single"
    standardize: bool = False
    class_weight: ClassWeight = None
    solver: SolverOptions = field(default_factory=SolverOptions)
    intervals: bool = False
    """Whether nested folds tell intervals of the errors."""

    def reducer(self, label: str, n_components: float) -> MomentReducer:
        """Return the estimator of a method for so many components."""
        return clone(self.methods[label]).set_params(n_components=n_components)

    @property
    def n_classes(self) -> int:
        return self.parts.counts.shape[1]

    @property
    def n_held_out(self) -> int:
        """Parts that are held out in turn in each split."""
        return len(self.parts.held_out)

    @property
    def tested(self) -> int:
        """Rows of the largest part that is held out."""
        return int(self.parts.n_tested.max())

    @property
    def n_fits(self) -> int:
        """Fits of every method in a split: while each part is held out, and for intervals while each two parts are."""
        return self.n_held_out + (math.comb(self.n_held_out, 2) if self.intervals else 0)

    @property
    def fits(self) -> int:
        """So many times every method is fitted in all splits together."""
        return self.parts.n_splits * self.n_fits

    @property
    def n_models(self) -> int:
        """Methods and sizes; what reduces nothing is scored once."""
        return len(self.unreduced) + (len(self.methods) - len(self.unreduced)) * len(self.sizes)

    @property
    def nested(self) -> bool:
        """Whether a classifier chooses a penalty within the rows that train."""
        return any(spec.C == "nested" for spec in self.classifiers.specs)

    @property
    def decisions(self) -> int:
        """Decisions from moments on every row, of all methods, sizes and classifiers."""
        scores = 1 if self.n_classes == 2 else self.n_classes
        return self.n_models * len(self.classifiers.from_moments) * scores

    @property
    def ranked_bytes(self) -> int:
        """Bytes of the scores of the rows that a split holds out, where classifiers from moments rank these."""
        size = 8 * int(self.parts.n_tested.sum(axis=1).max()) * self.decisions
        return size if self.n_classes == 2 and size <= RANKED_BYTES else 0

    @property
    def measuring(self) -> list[ClassifierSection]:
        """The classifiers that are known, by their names, to measure margins."""
        if not self.margins:
            return []
        classifiers = self.classifiers
        return [spec for spec in classifiers.from_rows if spec.classifier.linear] or classifiers.linear_rules
