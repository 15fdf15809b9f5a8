"""Fit classifiers to reduced rows if the original rows do not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.lazy_rows import judge_lazily
from mmpca_dist.evaluation.reductions import Reduction, Reductions
from mmpca_dist.evaluation.scores import Judged, Judges, Part, judge, naming
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.transform import projected
from mmpca_dist.predictors.fits import linear_parts
from mmpca_dist.predictors.specification import CLASSIFIERS
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.units import read_units


@dataclass
class JudgedRows:
    """What classifiers that are fitted to rows did on a part held out.

    Attributes
    ----------
    lines, notes
        As of ``Judged``.
    fitted : dict
        The linear ones of the classifiers, which take no memory to speak of, by position and label.
    """

    lines: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fitted: dict[tuple[int, str], Any] = field(default_factory=dict)

    def add(self, found: Judged, positions: Sequence[int]) -> None:
        """Take in what was found of some methods and sizes, whose positions among all are given."""
        self.lines += found.lines
        self.notes += found.notes
        for (number, label), one in found.fitted.items():
            if linear_parts(one) is not None:
                self.fitted[positions[number], label] = one


def judge_rows(
    rows: Rows, splits: Splits, first: int, reductions: Sequence[Reductions], judges: Judges, meter: Meter
) -> list[JudgedRows]:
    """Judge the parts held out by the classifiers that are fitted to rows.

    A pass over the rows serves as many parts, methods and sizes as memory permits. Where it does not permit one alone,
    those classifiers that learn block by block make passes of their own.

    Parameters
    ----------
    first : int
        Number of the first part held out among those of all splits.
    reductions : sequence of Reductions
        What was fitted while each part was held out.
    meter : Meter
        Charges each method with its classifiers, and the passes of those that learn block by block.

    Raises
    ------
    InputError
        For rows that a classifier cannot use, or too many of them; the message names the split.
    """
    judged = [JudgedRows() for _ in reductions]
    if not judges.from_rows:
        return judged
    for shares in _batches(reductions, rows.dataset.n_rows):
        for done, (share, reduced) in enumerate(_gather(rows, splits, shares), 1):
            with naming(first + share.place):
                judged[share.place].add(judge(share.moved(), judges, judges.from_rows, reduced, meter), share.positions)
            rows.tell_work("fit classifiers", done, len(shares))
    for place, (one, part) in enumerate(zip(reductions, splits.held_out, strict=True)):
        lazy = [at for at, item in enumerate(one.items) if _is_large(item, rows.dataset.n_rows)]
        if lazy:
            with naming(first + place):
                found = judge_lazily(rows, splits, part, one, [one.items[at] for at in lazy], judges, meter)
                judged[place].add(found, lazy)
    return judged


def check_rows(items: Sequence[Reduction], n_rows: int, judges: Judges) -> None:
    """Refuse more reduced rows than a classifier may be fitted to.

    Raises
    ------
    InputError
        With how many there are.
    """
    refusing = [spec.label for spec in judges.from_rows if not spec.classifier.out_of_core]
    large = next((item for item in items if _is_large(item, n_rows)), None)
    if refusing and large is not None:
        moments = ", ".join(one.name for one in CLASSIFIERS.values() if one.rule is not None)
        blocks = ", ".join(one.name for one in CLASSIFIERS.values() if one.out_of_core)
        raise InputError(
            f"{n_rows:,} rows of {large.used} components are more than the {LIMITS.gathered_bytes >> 20:,} MiB of "
            f"reduced rows that {refusing[0]} may be fitted to. Use classifiers from moments ({moments}) "
            f"or those that learn block by block ({blocks}), or fewer components."
        )


def _is_large(item: Reduction, n_rows: int) -> bool:
    return 8 * n_rows * item.used > LIMITS.gathered_bytes


@dataclass(frozen=True)
class _Share:
    """What a pass gathers for one of the parts held out: methods and sizes, by position."""

    place: int
    reductions: Reductions
    positions: list[int]

    @property
    def columns(self) -> NDArray[np.intp]:
        """Columns of the matrix of all that are needed."""
        return np.unique(np.concatenate([self.reductions.items[at].columns for at in self.positions]))

    def moved(self) -> list[Reduction]:
        """Return the methods and sizes as they are among these columns alone."""
        columns, items = self.columns, [self.reductions.items[at] for at in self.positions]
        return [Reduction(i.method, i.n_components, np.searchsorted(columns, i.columns), i.moments) for i in items]


def _batches(reductions: Sequence[Reductions], n_rows: int) -> Iterator[list[_Share]]:
    """Yield what is gathered at once, but for what is too large alone."""
    batch: list[_Share] = []
    for place, one in enumerate(reductions):
        for position, item in enumerate(one.items):
            if _is_large(item, n_rows):
                continue
            together = _with(batch, place, one, position)
            if 8 * n_rows * sum(len(share.columns) for share in together) > LIMITS.gathered_bytes:
                yield batch
                together = _with([], place, one, position)
            batch = together
    if batch:
        yield batch


def _with(batch: list[_Share], place: int, reductions: Reductions, position: int) -> list[_Share]:
    """Return a batch with one method and size more."""
    if batch and batch[-1].place == place:
        return [*batch[:-1], _Share(place, reductions, [*batch[-1].positions, position])]
    return [*batch, _Share(place, reductions, [position])]


def _gather(rows: Rows, splits: Splits, shares: list[_Share]) -> Iterator[tuple[_Share, Part]]:
    """Make a pass, and yield the reduced rows of every part."""
    wanted = [
        _Wanted(splits.held_out[share.place], share.reductions.matrix[:, share.columns], share.reductions.mean)
        for share in shares
    ]
    labels, *found = rows.pass_over(_GatherSpan(rows.dataset, splits, wanted), _join, "gather")
    for share in shares:
        Z, train, found = found[0], found[1], found[2:]  # let go of one after the other
        yield share, Part(Z, labels, train)


@dataclass(frozen=True)
class _Wanted:
    """How rows are reduced while a part is held out."""

    part: int
    matrix: NDArray[np.float64]
    mean: NDArray[np.float64] | None


@dataclass(frozen=True)
class _GatherSpan:
    """The task: labels, and for every part held out the reduced rows and which of them train."""

    dataset: Dataset
    splits: Splits
    wanted: list[_Wanted]

    def __call__(self, span: Span) -> tuple[NDArray, ...]:
        labels = self.dataset.read_labels(span.start, span.stop)
        reduced: list[list[NDArray[np.float64]]] = [[] for _ in self.wanted]
        for _, X in read_units(self.dataset, span):
            for blocks, one in zip(reduced, self.wanted, strict=True):
                # A product for each, so that the bits do not tell how many shared the pass.
                blocks.append(projected(X, one.matrix, one.mean, np.dtype(np.float64)))
        arrays = [labels]
        for blocks, one in zip(reduced, self.wanted, strict=True):
            arrays += [np.concatenate(blocks), self.splits.training(span.start, span.stop, labels, one.part)[0]]
        return tuple(arrays)


def _join(left: tuple[NDArray, ...], right: tuple[NDArray, ...]) -> tuple[NDArray, ...]:
    return tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))
