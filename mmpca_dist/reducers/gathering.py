"""What methods need to know of the rows, gathered at once: moments, or passes of a solver, medians, pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.base import Dataset, make_spans
from mmpca_dist.neighbors.options import PairSearch
from mmpca_dist.neighbors.scratch import fits_memory, open_scratch, row_bytes
from mmpca_dist.solvers.options import SolverOptions, choose_solver
from mmpca_dist.solvers.passes import statistics_in_passes
from mmpca_dist.statistics.census import Census
from mmpca_dist.statistics.gather import gather_statistics
from mmpca_dist.statistics.reduction import Scheduler
from mmpca_dist.statistics.working import Statistics


@dataclass(frozen=True)
class Needs:
    """What methods are made from.

    Attributes
    ----------
    scatters : frozenset of str
        See `solvers.options.choose_solver`.
    medians_of : bool array of shape (T, C) or None
        Sets of classes whose medians are wanted.
    pairs : PairSearch or None
        How nearest rows of other classes are found, where they are wanted.
    n_components : int or None
        The most that is wanted of any method; None for all there are.
    """

    scatters: frozenset[str]
    medians_of: NDArray[np.bool_] | None
    pairs: PairSearch | None
    n_components: int | None


def statistics_for(
    dataset: Dataset,
    census: Census,
    needs: Needs,
    solver: SolverOptions,
    *,
    scheduler: Scheduler,
    precision: str,
    standardize: bool,
    scratch: str | None = None,
) -> Statistics:
    """Return what methods need of the rows, by the solver that fits their shape.

    ``scratch`` is a folder for the tables of a search that does not fit in memory.
    """
    spans = make_spans(dataset)
    choice = choose_solver(solver, dataset.n_rows, dataset.n_features, needs.n_components, needed=needs.scatters)
    if choice.in_passes:
        statistics = statistics_in_passes(
            dataset, census, spans,
            scheduler=scheduler, precision=precision, solver=replace(solver, kind=choice.kind),
            n_components=needs.n_components or 1, needed=needs.scatters, medians_of=needs.medians_of,
            standardize=standardize,
        )  # fmt: skip
    else:
        statistics = gather_statistics(
            dataset, census, spans,
            scheduler=scheduler, precision=precision, medians_of=needs.medians_of, standardize=standardize,
            columns="columns" in needs.scatters,
        )  # fmt: skip
    if needs.pairs is None:
        return statistics
    return with_nearest_pairs(statistics, dataset, census, needs, solver, scheduler=scheduler, scratch=scratch)


def with_nearest_pairs(
    statistics: Statistics,
    dataset: Dataset,
    census: Census,
    needs: Needs,
    solver: SolverOptions,
    *,
    scheduler: Scheduler,
    scratch: str | None = None,
) -> Statistics:
    """Return the same with the differences of nearest rows of other classes, which are searched for."""
    from mmpca_dist.neighbors.pairs import with_pairs  # compiles: slow to import

    assert needs.pairs is not None  # noqa: S101  (for those who call it)
    in_memory = scheduler.in_process and fits_memory(dataset.n_rows * row_bytes(dataset))
    summarize = None
    if statistics.approximation is not None:
        from mmpca_dist.solvers.pair_passes import pairs_in_passes

        choice = choose_solver(solver, dataset.n_rows, dataset.n_features, needs.n_components, needed=needs.scatters)
        options = replace(solver, kind=choice.kind)
        summarize = partial(
            pairs_in_passes, solver=options, n_components=needs.n_components or 1, seed=statistics.approximation.seed
        )
    with open_scratch(in_memory, scratch) as tables:
        return with_pairs(
            statistics, dataset, census, make_spans(dataset), needs.pairs, tables, scheduler=scheduler,
            summarize=summarize,
        )  # fmt: skip
