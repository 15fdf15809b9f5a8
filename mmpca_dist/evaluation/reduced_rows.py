"""Classifiers that are fitted to reduced rows, if the original rows do not fit in memory.

A pass gathers the reduced rows of as many methods and sizes as memory permits. If it does not permit one alone,
classifiers that learn block by block make passes of their own, on Dask arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import dask
import numpy as np
from numpy.typing import NDArray

from mmpca_dist import dask_arrays as da
from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reductions import Reduction, Reductions
from mmpca_dist.evaluation.request import Classifiers, EvaluationRequest
from mmpca_dist.evaluation.scorers import Scorer, score_all
from mmpca_dist.evaluation.scores import Part, Scores, naming, score
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Cluster, Scheduler, Threads
from mmpca_dist.passes.tree_reduction import concatenated
from mmpca_dist.passes.units import blocks, read_batch, read_batches
from mmpca_dist.predictors import out_of_core
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import FittedClassifier, convergence_notes, fit_rows, linear_parts
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.predictors.specification import CLASSIFIERS
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.moments import ClassMoments, join_moments
from mmpca_dist.statistics.precision import DOUBLE
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span


def check_rows(items: Sequence[Reduction], n_rows: int, request: EvaluationRequest) -> None:
    """Refuse more reduced rows than a classifier may be fitted to, with an InputError."""
    refusing = [spec.label for spec in request.classifiers.from_rows if not spec.classifier.out_of_core]
    large = next((item for item in items if _is_large(item, n_rows, request)), None)
    if refusing and large is not None:
        moments = ", ".join(entry.name for entry in CLASSIFIERS.values() if entry.rule is not None)
        blocks = ", ".join(entry.name for entry in CLASSIFIERS.values() if entry.out_of_core)
        raise InputError(
            f"{n_rows:,} rows of {large.used} components are more than the {LIMITS.gathered_bytes >> 20:,} MiB of "
            f"reduced rows that {refusing[0]} may be fitted to. Use classifiers from moments ({moments}) "
            f"or those that learn block by block ({blocks}), or fewer components."
        )


def _is_large(item: Reduction, n_rows: int, request: EvaluationRequest) -> bool:
    """Tell whether the reduced rows of a method and size are too many to gather; of rows in memory none are."""
    return not request.in_memory and 8 * n_rows * item.used > LIMITS.gathered_bytes


def reduced_moments(
    rows: Rows, splits: Splits, reductions: Sequence[Reductions], positions: Sequence[Sequence[int]]
) -> list[list[ReducedMoments]]:
    """Return the moments of the rows that train while each part is held out, reduced by some methods and sizes of each.

    A pass over the rows serves all; ``positions`` are those of the methods and sizes among the items of a part.
    """
    columns = [[one.items[i].columns for i in some] for one, some in zip(reductions, positions, strict=True)]
    bare = [replace(one, items=[]) for one in reductions]
    task = partial(_add_reduced, splits=splits, reductions=bare, columns=columns)
    found, all_classes = rows.pass_over(task, _joined, "reduce"), np.arange(len(splits.classes))
    reduced = []
    for own in found:
        moments = own.over(all_classes, _weights(len(all_classes), own.n_features))
        named = replace(moments, classes=splits.classes)
        reduced.append(ReducedMoments.of(named, np.eye(own.n_features), precision="double"))
    ends = np.cumsum([len(each) for each in columns])
    return [reduced[end - len(each) : end] for end, each in zip(ends.tolist(), columns, strict=True)]


def _weights(n_classes: int, n_columns: int) -> NDArray[np.float64] | None:
    return np.ones((1, n_classes)) if use_pooled(n_classes, n_columns) else None


def _joined(left: list[ClassMoments], right: list[ClassMoments]) -> list[ClassMoments]:
    return [join_moments(*both, DOUBLE) for both in zip(left, right, strict=True)]


def _add_reduced(
    dataset: Dataset, span: Span, *, splits: Splits, reductions: Sequence[Reductions],
    columns: Sequence[Sequence[NDArray[np.intp]]],
) -> list[ClassMoments]:  # fmt: skip
    """Return the moments of all parts, methods and sizes, one after the other."""
    n_classes, found = len(splits.classes), list[list[ClassMoments]]()
    for batch in read_batches(dataset, span, sparse=dataset.sparse):
        batch, moments = splits.valued(batch), []
        for part, reduction, each in zip(splits.held_out, reductions, columns, strict=True):
            (trains,) = splits.training(batch, part)
            Z, rows = reduction.reduced(batch.X[trains]), batch.take(trains)
            codes = rows.codes(splits.classes)
            for some in each:
                adder = ChunkAdder(n_classes, len(some), Z.dtype, "double", _weights(n_classes, len(some)))
                for at in blocks(len(rows), adder.block_rows):
                    adder.add(replace(rows.take(at), X=Z[at, some]), codes[at])
                moments.append(adder.moments())
        found.append(moments)
    return functools.reduce(_joined, found)


def score_rows(
    rows: Rows, splits: Splits, reductions: Sequence[Reductions], request: EvaluationRequest, meter: Meter
) -> list[Scores]:
    """Score the classifiers that are fitted to rows on every part held out.

    Each method is charged with its classifiers, and the passes of those that learn block by block. ``fitted`` of the
    scores has the linear classifiers alone, which take no memory to speak of. Raises InputError for rows that a
    classifier cannot use, or too many of them; the message names the split.
    """
    scores, n_rows, classifiers = [Scores() for _ in reductions], rows.dataset.n_rows, request.classifiers
    if not classifiers.from_rows:
        return scores
    for shares in _batches(reductions, n_rows, request):
        for done, (share, part) in enumerate(_gather(rows, splits, shares), 1):
            with naming(splits.first + share.index):
                gathered = score(share.items(), classifiers, part, meter)
            _add(scores[share.index], gathered, share.positions)
            rows.tell_work("fit classifiers", done, len(shares))
    lazy = []
    for index, (reduction, part_number) in enumerate(zip(reductions, splits.held_out, strict=True)):
        large = [position for position, item in enumerate(reduction.items) if _is_large(item, n_rows, request)]
        if large:
            items = [reduction.items[i] for i in large]
            with naming(splits.first + index):
                scorer = _fit_by_blocks(rows, splits, part_number, reduction, items, classifiers, meter)
            lazy.append((index, large, scorer))
    if lazy:
        errors, _, ranked, _ = score_all(rows, splits, [scorer for _, _, scorer in lazy], "classify")
        for (index, large, scorer), counts, own in zip(lazy, errors, ranked, strict=True):
            models, n_specs = scorer.of_reduced, len(classifiers.from_rows)
            fitted = {(number // n_specs, scorer.scored[number][1].label): model for number, model in models.items()}
            lines = scorer.lines(counts[: len(scorer.scored)], own)
            _add(scores[index], Scores(lines, fitted, convergence_notes(models.values())), large)
    return scores


def _add(scores: Scores, others: Scores, positions: Sequence[int]) -> None:
    """Add the scores of some methods and sizes, by their positions among all."""
    scores.lines += others.lines
    scores.notes += others.notes
    for (number, label), model in others.fitted.items():
        if linear_parts(model) is not None:
            scores.fitted[positions[number], label] = model


@dataclass(frozen=True)
class _GatheredReductions:
    """Methods and sizes, by position, that a pass gathers for the part held out with this index."""

    index: int
    reductions: Reductions
    positions: list[int]

    @property
    def columns(self) -> NDArray[np.intp]:
        """Columns of the matrix of all that are needed."""
        return np.unique(np.concatenate([self.reductions.items[i].columns for i in self.positions]))

    def items(self) -> list[Reduction]:
        """Return the methods and sizes with their positions among these columns alone."""
        columns, items = self.columns, [self.reductions.items[i] for i in self.positions]
        return [replace(item, columns=np.searchsorted(columns, item.columns)) for item in items]


def _batches(
    reductions: Sequence[Reductions], n_rows: int, request: EvaluationRequest
) -> Iterator[list[_GatheredReductions]]:
    """Yield what one pass gathers, as much as fits, without what is too large alone."""
    batch: dict[int, _GatheredReductions] = {}
    each = [(index, one, position) for index, one in enumerate(reductions) for position in range(len(one.items))]
    # What reduces nothing comes last, so that the products of other methods do not depend on it.
    for index, reduction, position in sorted(each, key=lambda one: bool(one[1].items[one[2]].sizes)):
        if _is_large(reduction.items[position], n_rows, request):
            continue
        before = batch[index].positions if index in batch else []
        larger = batch | {index: _GatheredReductions(index, reduction, [*before, position])}
        if batch and 8 * n_rows * sum(len(share.columns) for share in larger.values()) > LIMITS.gathered_bytes:
            yield list(batch.values())
            larger = {index: _GatheredReductions(index, reduction, [position])}
        batch = larger
    if batch:
        yield list(batch.values())


def _gather(
    rows: Rows, splits: Splits, shares: list[_GatheredReductions]
) -> Iterator[tuple[_GatheredReductions, Part]]:
    """Make a pass, and yield the reduced rows of every part."""
    projections = [share.reductions.only(share.columns) for share in shares]
    task = partial(_gather_span, splits=splits, projections=projections)
    arrays = rows.pass_over(task, concatenated, "gather")
    reduced = [arrays.pop(str(number)) for number in range(len(shares))]
    for share in shares:
        batch = Batch.of_arrays(reduced.pop(0), **arrays)  # let go of one after the other
        parts, held_out = batch.roles["part"], splits.held_out[share.index]
        yield share, Part(batch, splits.trains(held_out)[parts], parts == held_out)


def _gather_span(dataset: Dataset, span: Span, *, splits: Splits, projections: list[Reductions]) -> dict[str, NDArray]:
    """Return labels, parts, and groups and weights where there are any, and the rows of every projection by number."""
    reduced: list[list[NDArray[np.float64]]] = [[] for _ in projections]
    for unit in read_batches(dataset, span, (), sparse=dataset.sparse):
        for products, reductions in zip(reduced, projections, strict=True):
            # A product for each, so that the bits do not tell how many shared the pass.
            products.append(reductions.reduced(unit.X))
    batch = splits.valued(dataset.batch(span.start, span.stop, X=False, roles=("label", "weight")))
    roles = {name: batch.roles[name] for name in ("label", "group", "weight") if name in batch.roles}
    (roles["part"],) = splits.codes(batch)
    return roles | {str(number): np.concatenate(products) for number, products in enumerate(reduced)}


def _fit_by_blocks(
    rows: Rows, splits: Splits, part: int, reductions: Reductions, items: Sequence[Reduction], classifiers: Classifiers,
    meter: Meter,
) -> Scorer:  # fmt: skip
    """Fit classifiers that learn block by block to rows that train, for methods and sizes that are too large to gather.

    Every fit makes passes of its own over the rows, reported one by one and charged to its method. Blocks are those of
    rows in memory, and so is what comes of them. Return what counts the errors on the part held out.
    """
    task = partial(_code_labels, splits=splits, part=part)
    codes, sizes = replace(rows, progress=None).pass_over_columns(task, concatenated, "codes")
    scored: list[tuple[Reduction, ClassifierSection]] = []
    models: dict[int, FittedClassifier] = {}
    for item in items:
        read = partial(_read_training, rows.dataset, splits=splits, part=part, reductions=reductions.only(item.columns))
        with meter.charging(item.method), _computing_on(rows.scheduler):
            Z = _training_rows(rows, read, sizes, item.used)
            for spec in classifiers.from_rows:
                C = classifiers.penalties.get(spec.label)
                fitted = fit_rows(spec, Z, codes, C, on_pass=lambda: rows.begins("fit", rows.dataset.n_bytes))
                models[len(models)] = replace(fitted, classes=splits.classes)
                scored.append((item, spec))
    return Scorer(part, scored, models, reductions, splits.classes)


def _training_rows(rows: Rows, read: Callable[..., NDArray], sizes: NDArray[np.intp], width: int) -> da.Array:
    """Return the reduced rows that train, shape (n, K): a pass reads every unit once."""
    shared = dask.delayed(read, pure=False, traverse=False)
    units = [unit for span in rows.spans for unit in span.units]
    pieces = [
        da.from_delayed(shared(start, stop), (size, width), dtype=np.float64)
        for (start, stop), size in zip(units, sizes.tolist(), strict=True)
        if size
    ]
    return da.concatenate(pieces).rechunk((LIMITS.training_block_rows, -1))


def _computing_on(scheduler: Scheduler) -> AbstractContextManager:
    """Compute Dask arrays on the scheduler of this job."""
    if isinstance(scheduler, Threads):
        return out_of_core.computing_on("threads", scheduler.n_threads)
    return out_of_core.computing_on(scheduler.client) if isinstance(scheduler, Cluster) else nullcontext()


def _code_labels(dataset: Dataset, span: Span, *, splits: Splits, part: int) -> tuple[NDArray, NDArray[np.intp]]:
    """Return the classes of the rows that train, and how many of them each reading unit has."""
    codes, dtype = [], np.min_scalar_type(len(splits.classes))
    for start, stop in span.units:
        batch = dataset.batch(start, stop, X=False, roles=("label",))
        codes.append(batch.take(splits.training(batch, part)[0]).codes(splits.classes).astype(dtype))
    return np.concatenate(codes), np.asarray([len(of_unit) for of_unit in codes], np.intp)


def _read_training(
    dataset: Dataset, start: int, stop: int, *, splits: Splits, part: int, reductions: Reductions
) -> NDArray[np.float64]:
    """Read those rows of a unit that train, reduced."""
    batch = read_batch(dataset, start, stop, ("label",), sparse=dataset.sparse)
    with single_blas_thread():
        return reductions.reduced(batch.X)[splits.training(batch, part)[0]]
