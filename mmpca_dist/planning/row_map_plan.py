"""Cost of fitting row maps."""

from __future__ import annotations

from dataclasses import replace

from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.datasets.mapped_rows import MappedRows
from mmpca_dist.datasets.row_maps.sampling import sample_plan
from mmpca_dist.planning.passes import RowPasses
from mmpca_dist.planning.plan import PassPlan, Plan, Resources
from mmpca_dist.planning.run_plan import SLACK


def with_row_maps(plan: Plan, dataset: Dataset, spans: list[Span], resources: Resources) -> Plan:
    """Return the plan of a job that fits the row maps of its data set before all else; others stay as they are."""
    if not isinstance(dataset, MappedRows) or not dataset.needs_fit:
        return plan
    passes: list[PassPlan] = []
    memory, before = 0, dataset.source
    for number, row_map in enumerate(dataset.maps):
        count = row_map.sample_rows(before.row_bytes)
        n_read = 0
        if count:
            plan_of_sample = sample_plan(dataset.n_rows, count, row_map.sample_seed)
            n_read = sum(stop - start for start, stop, _ in plan_of_sample)
            passes.append(RowPasses(before, spans, resources).plan("row maps", 0, n_rows=n_read))
        # The sample as it is drawn and joined, and in double precision.
        sample = count * (2 * before.row_bytes + 8 * before.n_features) + before.reading_bytes(n_read)
        memory = max(memory, sample + row_map.fitting_bytes(before.n_features))
        before = MappedRows(dataset.source, dataset.maps[: number + 1])
    held = int((plan.base + memory) * SLACK)
    return replace(plan, passes=[*passes, *plan.passes], memory=max(plan.memory, held))
