"""Cost of fits by sweeps over the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.planning.passes import RowPasses
from mmpca_dist.planning.plan import PassPlan, Resources
from mmpca_dist.solvers.needs import Needs
from mmpca_dist.statistics.costs import largest_unit
from mmpca_dist.statistics.margin_rows import BLOCK_ROWS
from mmpca_dist.statistics.sweeps import SweepCosts, states_fit_memory, sweep_spans

EXPECTED = 15
"""Sweeps that a fit usually takes: 5 to 30 were seen."""
POSTERIORS = 6
"""Arrays of the size of the vectors that coexist while a fit is updated."""


@dataclass(frozen=True)
class SweepPlan:
    """Passes that are expected, how many more there may be, bytes of a process, and states of rows at the output."""

    passes: list[PassPlan] = field(default_factory=list)
    more: int = 0
    memory: int = 0
    states: int = 0


def sweep_in_memory(dataset: Dataset, costs: SweepCosts, resources: Resources) -> bool:
    """Tell whether the states of rows may stay in this process; depends on the settings alone."""
    limit = resources.memory_limit * resources.workers
    return resources.in_process and states_fit_memory(dataset.n_rows, costs.state_bytes, limit)


def plan_sweeps(rows: RowPasses, needs: Needs, n_classes: int, gathered: int, *, in_passes: bool = False) -> SweepPlan:
    """Return the plan of all fits by sweeps, one after the other.

    ``gathered`` is what a process takes that has few rows of many columns in memory; 0 where sweeps read the rows.
    ``in_passes`` is whether a solver in passes serves, which reads sparse rows as they are.
    """
    dataset, resources = rows.dataset, rows.resources
    n, d = dataset.n_rows, dataset.n_features
    passes: list[PassPlan] = []
    keeps_sparse = dataset.sparse and in_passes
    more, memory, states = 0, 0, 0
    for need in needs.swept:
        costs = need.costs(n, n_classes, min(needs.n_components or 1, d, n))
        in_memory = sweep_in_memory(dataset, costs, resources)
        written = 0 if in_memory else n * costs.state_bytes
        for most, columns in costs.rounds:
            expected = min(most, EXPECTED)
            if gathered:
                passes.append(rows.plan("rows", 2.0 * expected * n * min(n, d) * columns))
                continue
            values = dataset.nnz if keeps_sparse else n * d
            sweep = rows.plan("sweep", 2.0 * values * columns, written=written, dense=not keeps_sparse)
            passes += [sweep] * expected
            more += most - expected
        memory = max(memory, gathered + _memory(rows, costs, in_memory, bool(gathered)))
        states = max(states, 2 * written)
    return SweepPlan(passes, more, memory, states)


def _memory(rows: RowPasses, costs: SweepCosts, in_memory: bool, gathered: bool) -> int:
    """Return the bytes of a process during sweeps: units with their states, blocks, sums, posterior, and states."""
    dataset, resources, columns = rows.dataset, rows.resources, costs.columns
    n, d = dataset.n_rows, dataset.n_features
    spans = sweep_spans(dataset, costs.state_bytes)
    unit_rows, unit = largest_unit(dataset, spans)
    width = min(n, d) + 1 if gathered else d
    sums = 8 * width * columns
    block = BLOCK_ROWS * (width * 8 + 24) + 16 * BLOCK_ROWS * 64 + 2 * sums
    task = (0 if gathered else unit) + 2 * unit_rows * costs.state_bytes + block + 2 * sums
    waiting = math.ceil(math.log2(len(spans) + 1)) + 2
    states = 2 * n * costs.state_bytes if in_memory else 0
    posterior = POSTERIORS * sums + (3 * 8 * d * columns if gathered else 0)
    return resources.process_threads * task + min(waiting, len(spans)) * sums + states + posterior
