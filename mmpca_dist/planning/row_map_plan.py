"""Cost of fitting row maps."""

from __future__ import annotations

from dataclasses import replace

from mmpca_dist.planning.passes import RowPasses
from mmpca_dist.planning.plan import PassPlan, Plan, Resources
from mmpca_dist.planning.run_plan import SLACK
from mmpca_dist.tables.dataset import Dataset, Span
from mmpca_dist.tables.mapped_rows import MappedRows
from mmpca_dist.tables.row_maps.sampling import by_chunk, sample_plan


def with_row_maps(plan: Plan, dataset: Dataset, spans: list[Span], resources: Resources) -> Plan:
    """Return the plan of a job that fits the row maps of its data set before all else; others stay as they are."""
    if not isinstance(dataset, MappedRows) or not dataset.needs_fit:
        return plan
    passes: list[PassPlan] = []
    source = before = dataset.source
    memory, counts = 0, set[tuple[int, int]]()
    for number, row_map in enumerate(dataset.maps):
        count, seed = row_map.sample_rows(before.row_bytes), row_map.sample_seed
        reading = 0
        if count and (count, seed) not in counts:
            counts.add((count, seed))
            sizes = [
                stop - start
                for start, stop, _ in by_chunk(sample_plan(dataset.n_rows, count, seed), source.chunk_edges)
            ]
            passes.append(RowPasses(source, spans, resources).plan("row maps", 0, n_rows=sum(sizes)))
            read = source.sparse_bytes if source.sparse else source.reading_bytes
            reading = resources.process_threads * read(max(sizes))
        # The sample as it is stored, drawn and joined, and its mapped rows in double precision.
        sample = count * (2 * source.row_bytes + 8 * source.n_features + 16 * before.n_features)
        memory = max(memory, sample + max(reading, row_map.fitting_bytes(before.n_features)))
        before = MappedRows(source, dataset.maps[: number + 1])
    held = int((plan.base + memory) * SLACK)
    return replace(plan, passes=[*passes, *plan.passes], memory=max(plan.memory, held))
