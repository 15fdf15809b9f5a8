"""Classifiers that are fitted to reduced rows, where the rows themselves are not in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.judging import Judged, Judges, Part, judge
from mmpca_dist.evaluation.lazy_rows import judge_lazily
from mmpca_dist.evaluation.reductions import Reduction, Reductions
from mmpca_dist.evaluation.source import Source
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.predictors import OUT_OF_CORE, linear_parts
from mmpca_dist.reducers.base import projected
from mmpca_dist.statistics.reduction import read_units

GATHERED_BYTES = 1 << 30
"""Reduced rows that are held at once for classifiers that are fitted to rows."""


@dataclass
class JudgedRows:
    """What classifiers that are fitted to rows did on a part held out.

    Attributes
    ----------
    lines, seconds, notes
        As of ``Judged``.
    fitted : dict
        The linear ones of the classifiers, which take no memory to speak of, by position and label.
    """

    lines: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    fitted: dict[tuple[int, str], Any] = field(default_factory=dict)

    def add(self, found: Judged, positions: Sequence[int]) -> None:
        """Take in what was found of some methods and sizes, whose positions among all are given."""
        self.lines += found.lines
        self.notes += found.notes
        for method, seconds in found.seconds.items():
            self.seconds[method] = self.seconds.get(method, 0.0) + seconds
        for (number, label), one in found.fitted.items():
            if linear_parts(one) is not None:
                self.fitted[positions[number], label] = one


def judge_rows(source: Source, splits: Splits, part: int, reductions: Reductions, judges: Judges) -> JudgedRows:
    """Judge a part held out by the classifiers that are fitted to rows.

    A pass over the rows serves as many methods and sizes as memory permits. Where it does not permit one alone, those
    classifiers that learn block by block make passes of their own.

    Raises
    ------
    InputError
        For rows that a classifier cannot use, or too many of them.
    """
    judged = JudgedRows()
    if not judges.from_rows:
        return judged
    items, n_rows = reductions.items, source.dataset.n_rows
    check_rows(items, n_rows, judges)
    lazy = [position for position, item in enumerate(items) if _is_large(item, n_rows)]
    for positions in _batches(items, n_rows):
        own = [items[position] for position in positions]
        columns = np.unique(np.concatenate([item.columns for item in own]))
        task = _GatherSpan(source.dataset, splits, part, reductions.matrix[:, columns], reductions.mean)
        rows = Part(*source.reduce(task, _join, "gather"))
        moved = [Reduction(i.method, i.n_components, np.searchsorted(columns, i.columns), i.moments) for i in own]
        judged.add(judge(moved, judges, judges.from_rows, rows), positions)
    if lazy:
        judged.add(judge_lazily(source, splits, part, reductions, [items[at] for at in lazy], judges), lazy)
    return judged


def check_rows(items: Sequence[Reduction], n_rows: int, judges: Judges) -> None:
    """Refuse more reduced rows than a classifier may be fitted to.

    Raises
    ------
    InputError
        With how many there are.
    """
    refusing = [spec.label for spec in judges.from_rows if spec.name not in OUT_OF_CORE]
    large = next((item for item in items if _is_large(item, n_rows)), None)
    if refusing and large is not None:
        raise InputError(
            f"{n_rows:,} rows of {large.used} components are more than the {GATHERED_BYTES >> 20:,} MiB of reduced "
            f"rows that {refusing[0]} may be fitted to. Use classifiers from moments (fisher, lda, qda, naive-bayes) "
            f"or those that learn block by block ({', '.join(OUT_OF_CORE)}), or fewer components."
        )


def _is_large(item: Reduction, n_rows: int) -> bool:
    return 8 * n_rows * item.used > GATHERED_BYTES


def _batches(items: Sequence[Reduction], n_rows: int) -> Iterator[list[int]]:
    """Yield stretches of methods and sizes whose reduced rows are held at once, by position, but for large ones."""
    batch: list[int] = []
    for position, item in enumerate(items):
        if _is_large(item, n_rows):
            continue
        together = [*batch, position]
        if 8 * n_rows * len(np.unique(np.concatenate([items[at].columns for at in together]))) > GATHERED_BYTES:
            yield batch
            together = [position]
        batch = together
    if batch:
        yield batch


@dataclass(frozen=True)
class _GatherSpan:
    """The task: reduced rows, their labels, and which of them train."""

    dataset: Dataset
    splits: Splits
    part: int
    matrix: NDArray[np.float64]
    mean: NDArray[np.float64] | None

    def __call__(self, span: Span) -> tuple[NDArray, NDArray, NDArray[np.bool_]]:
        labels = self.dataset.read_labels(span.start, span.stop)
        units = read_units(self.dataset, span)
        Z = [projected(X, self.matrix, self.mean, np.dtype(np.float64)) for _, X in units]
        return np.concatenate(Z), labels, self.splits.training(span.start, span.stop, labels, self.part)[0]


def _join(left: tuple[NDArray, ...], right: tuple[NDArray, ...]) -> tuple[NDArray, ...]:
    return tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))
