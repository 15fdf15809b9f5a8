"""From rows and needs to statistics: the one way for estimators, runs and evaluations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.eigen.block_passes import statistics_in_passes
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions, choose_solver
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.shrinkage import FOLDS, statistics_of_parts, with_shrinkages
from mmpca_dist.neighbors.options import Search, fits_memory
from mmpca_dist.passes.folds import folds_of
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.scratch import Scratch, open_scratch
from mmpca_dist.passes.sweeps import Sweeper, SweptNeed, states_fit_memory
from mmpca_dist.statistics.cells import cells_of
from mmpca_dist.statistics.class_weights import ClassWeight, weighted_by_class
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.fold_moments import class_fold_moments
from mmpca_dist.statistics.from_rows import gather_statistics
from mmpca_dist.statistics.medians import column_medians
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.row_space import in_row_space, row_space_statistics
from mmpca_dist.statistics.widened_rows import adjusted_rows, adjustment_from_pass
from mmpca_dist.statistics.widening import effective_precision
from mmpca_dist.statistics.working_statistics import Statistics, tall_statistics
from mmpca_dist.tables.dataset import Dataset


def statistics_for(
    rows: Rows,
    needs: Needs,
    solver: SolverOptions,
    *,
    precision: str,
    standardize: bool,
    class_weight: ClassWeight = None,
    sizes: Sequence[int] = (),
    charging: Callable[[Hashable], AbstractContextManager] = nullcontext,
) -> Statistics:
    """Return what methods need of the rows, by the solver that fits their shape.

    Sweeps fit so many components as ``sizes`` say, by default those of the needs; ``charging`` is entered for each
    search and for each need of sweeps.
    """
    if rows.census.totals is not None or class_weight is not None:
        refuse_weights(needs, class_weight=class_weight)
    statistics = class_statistics(
        rows, needs, solver, precision=precision, standardize=standardize, class_weight=class_weight
    )
    if needs.searches:
        rows = weighted_by_class(rows, class_weight)
    for search in needs.searches:
        with charging(search):
            statistics = with_nearest_pairs(statistics, rows, search, needs.n_components, solver)
    for need in needs.swept:
        with charging(need):
            statistics = with_sweeps(statistics, rows, need, sizes or [needs.n_components or 1])
    return statistics


def no_scatter(dataset: Dataset) -> InputError:
    """Return the error for what needs the scatter where a solver in passes would never form it."""
    return InputError(
        f"Numbers to predict, and evaluations without labels, need the whole scatter of the {dataset.n_columns:,} "
        "columns, and a solver in passes finds only its leading part. Use the solver 'dense' (solver.kind of a run), "
        "or choose fewer columns."
    )


def refuse_weights(needs: Needs, who: str = "", class_weight: ClassWeight = None) -> None:
    """Raise InputError for needs that rows with weights do not meet; the message begins with ``who`` has them."""
    if needs.medians and class_weight is not None:
        raise InputError(f"{who}Medians take no class_weight: choose m-pca1a, or give the rows weights.")
    if needs.swept:
        raise InputError(
            f"{who}Methods that pass over their rows until they converge take no weights: repeat the rows."
        )
    if any(search.mutual == "once" for search in needs.searches):
        raise InputError(f"{who}mutual='once' takes no weights of rows: leave it out, or repeat the rows.")


def class_statistics(
    rows: Rows,
    needs: Needs,
    solver: SolverOptions,
    *,
    precision: str,
    standardize: bool,
    class_weight: ClassWeight = None,
) -> Statistics:
    """Return what follows from the classes of the rows: all but nearest rows of other classes."""
    choice = choose_solver(solver, rows.dataset.n_rows, rows.dataset.n_columns, needs, rows.dataset.held)
    if choice.in_passes and rows.dataset.targets:
        raise no_scatter(rows.dataset)
    if choice.kind == "dense":
        parts, chosen = _parts(rows, needs, precision, class_weight), needs.shrinkages
        options: Any = {"precision": precision, "standardize": standardize, "class_weight": class_weight}
        if rows.dataset.columns_into("axes"):
            cells = cells_of(rows, precision=effective_precision(precision, rows.dataset.widening))
            tall = replace(tall_statistics(cells.by_class(), **options), cells=cells)
            tall = with_shrinkages(tall, parts, chosen)
            return tall.with_medians(column_medians(rows, tall.adjustment, needs.medians)) if needs.medians else tall
        if parts and not (needs.medians or parts[0].pooled):
            tall = statistics_of_parts(parts, chosen, **options)
        else:
            tall = gather_statistics(rows, pairings=needs.medians, weightings=needs.scatters, **options)
            tall = with_shrinkages(tall, parts, chosen)
        if tall.adjustment is None:
            return tall
        return tall.with_medians(column_medians(rows, tall.adjustment, needs.medians))
    if rows.dataset.columns_into("axes"):
        raise InputError(
            f"dataset.groups keeps moments of cells, with scatters of columns, and the solver is {choice.kind}. Choose "
            "solver.kind: dense, or leave out the groups."
        )
    rows = weighted_by_class(rows, class_weight)
    if choice.kind == "dual":
        wide = row_space_statistics(
            rows, pairings=needs.medians, standardize=standardize, columns=needs.columns, weightings=needs.scatters
        )
        within = in_row_space(wide, adjusted_rows(rows, wide.adjustment)) if needs.shrinkages else rows
        return with_shrinkages(wide, _parts(within, needs, "double", class_weight), needs.shrinkages)
    adjustment, precision = adjustment_from_pass(rows), effective_precision(precision, rows.dataset.widening)
    statistics = statistics_in_passes(
        # Dense rows are adjusted as they are read, sparse ones never: the solver adjusts its vectors.
        rows if rows.dataset.sparse else adjusted_rows(rows, adjustment), needs, replace(solver, kind=choice.kind),
        precision=precision, standardize=standardize, adjustment=adjustment,
    )  # fmt: skip
    return replace(statistics, adjustment=adjustment)


def _parts(rows: Rows, needs: Needs, precision: str, class_weight: ClassWeight) -> list[ClassMoments]:
    """Return the moments of folds of the rows, where these choose a shrinkage.

    Scatters of single classes are kept where some are named or weighted, as long as those of all rows are.
    """
    if not needs.shrinkages:
        return []
    folds = folds_of(rows, min(FOLDS, rows.dataset.n_rows))
    single = class_weight is not None or any(name[0] == "class" for name in needs.shrinkages)
    pools = not single or use_pooled(len(rows.census.classes), rows.dataset.n_features)
    return class_fold_moments(rows.keeping_apart("folds"), folds, precision=precision, pools=pools)


def with_nearest_pairs(
    statistics: Statistics,
    rows: Rows,
    search: Search,
    n_components: int | None,
    solver: SolverOptions,
    tables: Scratch | None = None,
) -> Statistics:
    """Return statistics with the differences of nearest rows of other classes, which are searched for.

    ``tables`` is where the search lays out the rows; by default memory, or a folder of its own where they do not fit.
    """
    from mmpca_dist.neighbors.pair_statistics import with_pairs  # compiles: slow to import

    rows = adjusted_rows(rows, statistics.adjustment)
    summarize, approximation = None, statistics.approximation
    if approximation is not None:
        from mmpca_dist.eigen.pair_passes import pairs_in_passes

        options = replace(solver, kind=approximation.solver)
        summarize = partial(pairs_in_passes, solver=options, n_components=n_components or 1, seed=approximation.seed)
    in_memory = rows.scheduler.in_process and fits_memory(rows.dataset)
    with open_scratch(in_memory, rows.scratch) if tables is None else nullcontext(tables) as scratch:
        return with_pairs(statistics, rows, search, scratch, summarize)


def with_sweeps(
    statistics: Statistics, rows: Rows, need: SweptNeed, sizes: Sequence[int], tables: Scratch | None = None
) -> Statistics:
    """Return statistics with the fits of a need by sweeps over the rows, one for each number of components asked for.

    ``tables`` is where states of rows are kept between sweeps; by default memory, or a folder of its own where they do
    not fit.
    """
    rows = adjusted_rows(rows, statistics.adjustment)
    counts = {size: min(max(sizes) if need.is_nested else size, need.largest(statistics)) for size in sizes}
    n, d = rows.dataset.n_rows, rows.dataset.n_features
    state = max(need.state_bytes(len(rows.census.classes), min(size, d), min(n, d)) for size in sizes)
    in_memory = rows.scheduler.in_process and states_fit_memory(n, state)
    scratch_for = open_scratch(in_memory, rows.scratch) if tables is None else nullcontext(tables)
    with scratch_for as scratch, single_blas_thread():  # its number of threads decides on last bits
        fits = {
            count: need.fit(statistics, Sweeper(rows, scratch, f"{count}-"), count)
            for count in sorted(set(counts.values()))
        }
    of_sizes = {(need, size): fits[count] for size, count in counts.items()}
    return replace(statistics, fits={**statistics.fits, **of_sizes})
