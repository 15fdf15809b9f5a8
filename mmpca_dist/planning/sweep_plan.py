"""Cost of fits by sweeps over the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.sweeps import SweepRound, states_fit_memory, sweep_spans
from mmpca_dist.planning.passes import RowPasses
from mmpca_dist.planning.plan import PassPlan, Resources
from mmpca_dist.statistics.costs import largest_unit

BLOCK_ROWS = 2048
"""Rows that a task converts at once, at most."""
POSTERIORS = 6
"""Arrays of the size of the vectors that coexist while a fit is updated."""


@dataclass(frozen=True)
class SweepPlan:
    """Passes that are expected, how many more there may be, bytes of a process, and states of rows at the output."""

    passes: list[PassPlan] = field(default_factory=list)
    more: int = 0
    memory: int = 0
    states: int = 0


def sweep_in_memory(n_rows: int, state_bytes: int, resources: Resources) -> bool:
    """Tell whether the states of rows may stay in this process; depends on the settings alone."""
    limit = resources.memory_limit * resources.workers
    return resources.in_process and states_fit_memory(n_rows, state_bytes, limit)


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
        rounds = need.rounds(n_classes, min(needs.n_components or 1, d, n), min(n, d))
        in_memory = sweep_in_memory(n, max(each.state_bytes for each in rounds), resources)
        for each in rounds:
            written = 0 if in_memory else n * each.state_bytes
            values = n * min(n, d) if gathered else dataset.nnz
            operations = 2.0 * values * each.columns + n * each.row_operations + each.update_operations
            if gathered:
                passes.append(rows.plan("rows", each.expected * operations))
            else:
                sweep = rows.plan("sweep", operations, written=written)
                passes += [sweep] * each.expected
                more += each.most - each.expected
            memory = max(memory, gathered + _memory(rows, each, in_memory, bool(gathered), keeps_sparse))
            states = max(states, 2 * written)
        if need.takes_rows and dataset.n_bytes <= LIMITS.direct_bytes:
            memory += 2 * dataset.n_bytes
    return SweepPlan(passes, more, memory, states)


def _memory(rows: RowPasses, each: SweepRound, in_memory: bool, gathered: bool, keeps_sparse: bool) -> int:
    """Return the bytes of a process during sweeps: units with their states, blocks, sums, posterior, and states."""
    dataset, resources = rows.dataset, rows.resources
    n, d = dataset.n_rows, dataset.n_features
    spans = sweep_spans(dataset, each.state_bytes)
    unit_rows, unit = largest_unit(dataset, spans)
    unit = 4 * dataset.share_bytes(unit_rows) if keeps_sparse else unit
    width = min(n, d) + 1 if gathered else d
    vectors = 8 * width * each.columns
    sums = vectors + each.sum_bytes
    converted = 0 if keeps_sparse else 8 * BLOCK_ROWS * width
    task = (0 if gathered else unit) + 2 * unit_rows * each.state_bytes + converted + each.block_bytes + 3 * sums
    waiting = math.ceil(math.log2(len(spans) + 1)) + 2
    states = 2 * n * each.state_bytes if in_memory else 0
    posterior = POSTERIORS * sums + (3 * 8 * d * each.columns if gathered else 0)
    return resources.process_threads * task + min(waiting, len(spans)) * sums + states + posterior
