"""What an evaluation will cost, before it reads a row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.evaluation.gathered import GATHERED_BYTES
from mmpca_dist.evaluation.heads import BLOCK_ROWS
from mmpca_dist.evaluation.sampled_margins import SAMPLE_BYTES
from mmpca_dist.planning.making import (
    SLACK,
    Request,
    at_once,
    make_plan,
    plan_of_passes,
    search_costs_of,
)
from mmpca_dist.planning.plan import Plan
from mmpca_dist.planning.timing import plan_pass, sample_pass
from mmpca_dist.solvers.options import choose_solver
from mmpca_dist.statistics.checkpoint import most_kept
from mmpca_dist.statistics.costs import largest_unit, reducing, summary_bytes


@dataclass(frozen=True)
class Judging:
    """What the plan of an evaluation must know beside its methods.

    Attributes
    ----------
    counts : int array of shape (C, P)
        Rows of every class in every part of a split.
    n_held_out, n_splits : int
        Parts held out in turn in each of the splits.
    merged : bool
        Whether moments of the parts are merged; else all rows are taken into memory.
    width : int
        Columns of the reduced rows of all methods together.
    decisions : int
        Decisions from moments on every row, of all methods, sizes and classifiers.
    from_rows, margins : bool
        Whether classifiers are fitted to rows, and margins measured.
    """

    counts: NDArray[np.int64]
    n_held_out: int
    n_splits: int
    merged: bool
    width: int
    decisions: int
    from_rows: bool
    margins: bool


def plan_evaluation(dataset: Dataset, spans: list[Span], request: Request, judging: Judging) -> Plan:
    """Return the plan of an evaluation by methods whose ``request`` is that of one fit to all rows.

    Classifiers that learn block by block make passes that nobody can foresee.
    """
    return (_merging if judging.merged else _in_memory)(dataset, spans, request, judging)


def _in_memory(dataset: Dataset, spans: list[Span], request: Request, judging: Judging) -> Plan:
    """Every thread evaluates a split: it fits to rows of its own, beside those of all and the reduced ones."""
    alone = replace(request.resources, workers=1, threads_per_worker=1)
    fit = make_plan(dataset, spans, replace(request, n_projected=0, resources=alone))
    fitting = int(fit.memory / SLACK) - fit.base
    rows = dataset.sparse_bytes(dataset.n_rows) if dataset.sparse else dataset.n_bytes
    a_split = fitting + rows + 8 * dataset.n_rows * (judging.width + 2 * request.largest)
    if judging.margins and not dataset.sparse:  # in the original columns, or turned to where few rows are wide
        a_split += rows + 8 * dataset.n_rows * dataset.n_features * (3 if dataset.n_rows < dataset.n_features else 1)
    held = 2 * rows + request.resources.process_threads * a_split
    passes = [plan_pass("rows", dataset, 0, request.resources)]
    return plan_of_passes(dataset, spans, passes, request.resources, held, solver="split by split")


def _merging(dataset: Dataset, spans: list[Span], request: Request, judging: Judging) -> Plan:
    resources, d = request.resources, dataset.n_features
    n_classes, n_parts = judging.counts.shape
    cells = replace(request, counts=judging.counts.ravel(), median_rows=request.median_rows * judging.n_held_out)
    passes, more = at_once(dataset, spans, cells)
    choice = choose_solver(request.solver, dataset.n_rows, d, request.largest, needed=request.scatters)
    search = search_costs_of(dataset, spans, request, choice)
    if search is not None:
        passes += [sample_pass(dataset, spans, resources), plan_pass("cells", dataset, search.preparation, resources)]
    if judging.decisions or judging.margins:
        operations = 1.0 * dataset.n_rows * d * judging.decisions
        passes.append(plan_pass("score", dataset, operations, resources))
    reduced = 8 * dataset.n_rows * judging.width
    if judging.from_rows:
        gathering = -(-reduced // GATHERED_BYTES) * judging.n_held_out
        passes += [plan_pass("gather", dataset, 1.0 * reduced / 8 * d, resources)] * gathering
    summary = summary_bytes(n_classes * n_parts, d, pooled=False)
    held = [
        reducing(
            dataset, spans, n_classes=n_classes * n_parts, pooled=False, medians=request.median_rows > 0,
            item=resources.item, threads=resources.process_threads,
        ),
        _judging(dataset, spans, request, judging, reduced),
        0 if search is None else search.memory,
    ]  # fmt: skip
    if resources.in_process:
        held.append(2 * summary + (4 * n_classes + 5) * d * d * 8)  # the parts, what is merged of them, and a fit
    kept = len(passes) * most_kept(dataset.n_bytes, len(spans), summary)
    return plan_of_passes(
        dataset, spans, passes * judging.n_splits, resources, max(held),
        more_passes=more * judging.n_splits, solver=f"dense, {d} x {d}, of merged parts", kept=kept,
        advice=" Fewer folds (evaluation.folds) need less.",
    )  # fmt: skip


def _judging(dataset: Dataset, spans: list[Span], request: Request, judging: Judging, reduced: int) -> int:
    """Return what a process holds while errors are counted, and reduced rows gathered: joined, and by classifiers."""
    resources, d = request.resources, dataset.n_features
    rows, unit = largest_unit(dataset, spans)
    columns = judging.decisions + judging.width
    block = BLOCK_ROWS * (d * (dataset.dtype.itemsize + 8 + resources.item) + 3 * 8 * columns)
    scoring = resources.process_threads * (unit + 32 * rows + block) + judging.n_held_out * d * columns * 8
    if judging.margins:
        scoring += 3 * min(SAMPLE_BYTES, 8 * dataset.n_rows * d) * (1 + judging.from_rows)
    if not judging.from_rows:
        return scoring
    gathered = min(reduced, GATHERED_BYTES)
    return max(scoring, resources.process_threads * (unit + 2 * 8 * rows * judging.width) + 4 * gathered)
