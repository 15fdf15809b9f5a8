"""What it costs to choose numbers of components in folds, before the methods are fitted to all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.planning.plan import PassPlan, Resources
from mmpca_dist.planning.timing import median_passes, plan_pass, sample_pass
from mmpca_dist.statistics.checkpoint import most_kept
from mmpca_dist.statistics.costs import largest_unit, reducing, summary_bytes
from mmpca_dist.statistics.medians import KEPT_BYTES

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

NAME = "choose: "
"""Before the names of passes."""
TOGETHER = 3
"""Folds from which on one search serves all of them: see `neighbors.pair_folds`."""
WIDE_COPIES = 5
"""Of rows as doubles, where fewer of them than columns train: see `statistics.costs.reading_wide`."""


@dataclass(frozen=True)
class Choosing:
    """How numbers of components are chosen.

    Attributes
    ----------
    folds : int
    merged : bool
        Whether moments of the folds are merged; otherwise all rows are in memory.
    fewest : int
        Rows that train, at least.
    """

    folds: int
    merged: bool
    fewest: int


@dataclass(frozen=True)
class ChoosingCosts:
    """What the choice costs; sizes in bytes.

    Attributes
    ----------
    passes : list of PassPlan
    more_passes : int
        How many more for medians there may be.
    memory : int
        What a process holds.
    kept : int
        What groups of spans leave at the output until the stage is done.
    search : SearchCosts or None
        Of all searches, those of the fit to all rows among them.
    """

    passes: list[PassPlan]
    more_passes: int
    memory: int
    kept: int
    search: SearchCosts | None


def choosing_costs(
    dataset: Dataset,
    spans: list[Span],
    resources: Resources,
    choosing: Choosing,
    *,
    n_classes: int,
    width: int,
    median_rows: int,
    standardize: bool,
    search: SearchCosts | None,
    forming: int,
) -> ChoosingCosts:
    """Return what the choice costs.

    Parameters
    ----------
    width : int
        Components that are tried, of all methods together.
    median_rows : int
        Rows in all sets of classes whose medians are wanted, together, of a fit to all rows.
    search : SearchCosts, optional
        Of the search for nearest rows among all rows.
    forming : int
        Bytes that a fit to all rows holds while it forms scatters.
    """
    n, d, folds, apart = dataset.n_rows, dataset.n_features, choosing.folds, False
    judging = d * width * (8 + resources.item)
    if not choosing.merged:
        one = forming + (WIDE_COPIES * n * d * 8 if choosing.fewest < d else 0)
        one += n * width * 8 + judging + (search.memory if search else 0)
        rows = dataset.sparse_bytes(n) if dataset.sparse else dataset.n_bytes
        found = plan_pass(f"{NAME}rows", dataset, 1.0 * folds * n * d * min(n, d), resources)
        memory = rows + resources.process_threads * (rows + one)
        return ChoosingCosts([found], 0, memory, 0, _searches(search, folds, (folds - 1) ** 2 / folds))
    cells = n_classes * folds
    # Each fold has the medians of the others; without any, nothing is counted.
    before, after, more = median_passes(dataset, spans, resources, rows=(folds - 1) * median_rows, n_classes=cells)
    passes = [*before, plan_pass("moments", dataset, 1.0 * n * d * d, resources), *after]
    sums = summary_bytes(cells, d, pooled=False) + (KEPT_BYTES if median_rows else 0)
    kept = (len(passes) + more) * most_kept(dataset.n_bytes, len(spans), sums)
    held = reducing(
        dataset, spans,
        n_classes=cells, pooled=False, medians=median_rows > 0, item=resources.item,
        threads=resources.process_threads,
    )  # fmt: skip
    # Moments of all folds and merges of them, what is solved of one, and what judges the rows of every fold.
    solving = 3 * summary_bytes(cells, d, pooled=False) + (n_classes + 5) * d * d * 8 + folds * judging
    if search is not None:
        apart = standardize or folds < TOGETHER
        preparing = plan_pass("cells", dataset, search.preparation, resources)
        passes += [sample_pass(dataset, spans, resources), preparing] * (folds if apart else 1)
        solving += search.memory + 40 * search.queries
    passes.append(plan_pass("score", dataset, 1.0 * n * d * width, resources))
    rows, unit = largest_unit(dataset, spans)
    scoring = resources.process_threads * (2 * unit + rows * width * 8 + folds * judging)
    named = [replace(one, name=NAME + one.name) for one in passes]
    searching = _searches(search, folds, (folds - 1) ** 2 / folds if apart else 1)
    return ChoosingCosts(named, more, max(held, solving, scoring), kept, searching)


def _searches(search: SearchCosts | None, folds: int, times: float) -> SearchCosts | None:
    """Return the costs of a search, and of one among the rows that train in every fold: so many times as many pairs."""
    if search is None:
        return None
    return replace(
        search,
        pairs=(1 + times) * search.pairs,
        read=int((1 + times) * search.read),
        products=folds * search.products,
    )
