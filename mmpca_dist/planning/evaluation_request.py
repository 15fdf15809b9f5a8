"""What the plan of an evaluation follows from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmpca_dist.evaluation.margins import linear_rules
from mmpca_dist.evaluation.scores import Classifiers
from mmpca_dist.evaluation.splits import PartSizes
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import fits_of


@dataclass(frozen=True)
class EvaluationRequest:
    """Facts about an evaluation that its plan follows from."""

    parts: PartSizes
    merged: bool  # whether moments of the parts are merged; else all rows are read into memory
    n_methods: int
    sizes: Sequence[int]  # numbers of components of each method
    classifiers: Sequence[ClassifierSection]
    margins: bool  # whether to measure margins
    n_blocks: int = 0  # blocks of components of all methods, where some have several

    @property
    def n_classes(self) -> int:
        return self.parts.counts.shape[1]

    @property
    def n_train(self) -> int:
        """The fewest rows that train."""
        return int(self.parts.n_train.min())

    @property
    def most_trained(self) -> int:
        """The most rows that train."""
        return int(self.parts.n_train.max())

    @property
    def tested(self) -> int:
        """Rows of the largest part that is held out."""
        return int(self.parts.n_tested.max())

    @property
    def n_held_out(self) -> int:
        """Parts that are held out in turn in each split."""
        return len(self.parts.held_out)

    @property
    def fits(self) -> int:
        """Parts held out, of all splits together: so many times every method is fitted."""
        return self.parts.n_splits * self.n_held_out

    @property
    def width(self) -> int:
        """Columns of the reduced rows of all methods together."""
        return max(self.n_methods, self.n_blocks) * max(self.sizes)

    @property
    def grouped(self) -> Classifiers:
        return Classifiers(self.classifiers)

    @property
    def from_rows(self) -> list[ClassifierSection]:
        """The classifiers that are fitted to rows."""
        return self.grouped.from_rows

    @property
    def each_scatter(self) -> list[str]:
        """The classifiers that need the scatter of each class."""
        return [spec.label for spec in self.classifiers if spec.classifier.each_scatter]

    @property
    def nested(self) -> bool:
        """Whether some of them choose a penalty within the rows that train."""
        return any(spec.C == "nested" for spec in self.from_rows)

    @property
    def decisions(self) -> int:
        """Decisions from moments on every row, of all methods, sizes and classifiers."""
        scores = 1 if self.n_classes == 2 else self.n_classes
        return self.n_methods * len(self.sizes) * len(self.grouped.from_moments) * scores

    @property
    def all_fits(self) -> int:
        """Most fits of classifiers to rows in all splits, including fits that choose a penalty."""
        return self.n_methods * len(self.sizes) * sum(map(fits_of, self.from_rows)) * self.fits

    @property
    def measuring(self) -> list[ClassifierSection]:
        """The classifiers that are known, by their names, to measure margins."""
        if not self.margins:
            return []
        return [spec for spec in self.from_rows if spec.classifier.linear] or linear_rules(self.grouped)
