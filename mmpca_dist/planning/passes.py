"""Passes over rows: their cost and expected time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.rows import SAMPLE_BYTES, evenly_chosen, sample_rows
from mmpca_dist.passes.units import BLOCK_ROWS
from mmpca_dist.planning.plan import PassPlan, Resources
from mmpca_dist.statistics.costs import largest_unit, moments_spans, summary_bytes
from mmpca_dist.statistics.median_counts import PIECE_VALUES, key_type
from mmpca_dist.statistics.medians import foreseen_rounds
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.side_columns import VALUE_BYTES
from mmpca_dist.tables.spans import Span, default_chunk_rows, unit_edges

READ_RATES = {"local": 1.5e9, "remote": 1.5e8, "synthetic": 2.5e8, "memory": 1e10}
"""Bytes a second a thread: measured for a warm page cache and for the generators, a guess for object stores."""
WRITE_RATES = {True: 5e8, False: 1e8}
"""Bytes a second a thread, on a local disk (True) or elsewhere: cautious guesses."""
PRODUCT_RATES = {"single": 4e10, "double": 2e10}
"""Multiply-adds a second a thread of dense rows: cautious guesses."""
CSR_RATE = 8e8
"""Multiply-adds a second a thread of CSR rows with a block of vectors: measured on text, 64 vectors."""
COUNT_RATE = 2e8
"""Values a second a thread that are compared with the brackets of medians: measured."""
DRIFT = 1.2
"""Brackets may hold this much more than their share before the plan expects another pass."""


DOUBLE = 8
"""Bytes of a value in products with CSR rows."""


@dataclass(frozen=True)
class RowPasses:
    """Passes over the rows of a data set, in ``spans``, with some resources: their cost and expected time."""

    dataset: Dataset
    spans: list[Span]
    resources: Resources

    def plan(
        self, name: str, operations: float, *, n_rows: int | None = None, counted: int = 0, written: int = 0
    ) -> PassPlan:
        """Return a pass over the rows, or over ``n_rows`` of them.

        ``operations`` are multiply-adds, ``counted`` values that are compared with the brackets of medians, and
        ``written`` bytes.
        """
        dataset, resources = self.dataset, self.resources
        n_rows = dataset.n_rows if n_rows is None else n_rows
        size, operations = dataset.share_bytes(n_rows), operations + n_rows * dataset.facts.row_operations
        seconds = size / READ_RATES[dataset.facts.kind] + counted / COUNT_RATE
        seconds += operations / (CSR_RATE if dataset.sparse else PRODUCT_RATES[resources.precision])
        seconds += written / WRITE_RATES[storage.is_local(resources.output)]
        return PassPlan(name, size, seconds / min(resources.busy_threads, len(self.spans)))

    @property
    def _bracketing_rows(self) -> int:
        """Rows of the sample behind the first brackets of medians."""
        return min(sample_rows(self.dataset.row_bytes), self._sampled_rows)

    @property
    def _sampled_rows(self) -> int:
        """Rows of the reading units that a sample comes from."""
        units = [unit for span in self.spans for unit in span.units]
        return sum(units[i][1] - units[i][0] for i in evenly_chosen(len(units)))

    def sample(self, counted: int = 0) -> PassPlan:
        """Return the pass that draws a sample of the rows, of which so many values bracket medians."""
        return self.plan("sample", 0, n_rows=self._sampled_rows, counted=counted)

    def moments(self, operations: float, *, median_rows: int, n_classes: int) -> tuple[list[PassPlan], int]:
        """Return the passes for moments and medians, and how many more for medians there may be."""
        before, after, more_passes = self.medians(median_rows, n_classes)
        moments = self.plan("moments", operations, counted=median_rows * self.dataset.n_features)
        return [*before, moments, *after], more_passes

    def medians(self, rows: int, n_classes: int) -> tuple[list[PassPlan], list[PassPlan], int]:
        """Return the passes before and after the pass for moments, and how many more there may be.

        ``rows`` is the number of rows in all sets that need medians, together. The forecast is for rows in random
        order; in sorted rows, single spans overflow their share of the budget.
        """
        dataset = self.dataset
        entry = key_type(n_classes, dataset.n_features).itemsize + dataset.dtype.itemsize
        values = rows * dataset.n_features
        if values * entry <= LIMITS.kept_bytes:
            return [], [], 0
        sampled = self._bracketing_rows
        bracketing = values * sampled // dataset.n_rows
        if sampled == dataset.n_rows:
            return [self.sample(bracketing)], [], 0
        n_medians = n_classes * dataset.n_features
        rounds = foreseen_rounds(values, entry, n_medians, sampled)
        max_rounds = foreseen_rounds(DRIFT * values, entry, n_medians, sampled) + 1
        return [self.sample(bracketing)], [self.plan("medians", 0, counted=values)] * (rounds - 1), max_rounds - rounds

    def reducing(self, n_classes: int, *, scatters: int, median_rows: int = 0) -> int:
        """Return what a process holds of data and sums while it takes moments, and medians of sets of so many rows.

        Moments keep so many ``scatters``: one of each class, or fewer that are weighted sums.
        """
        dataset, item, threads = self.dataset, self.resources.item, self.resources.process_threads
        d, c = dataset.n_features, n_classes
        unit_rows, unit = largest_unit(dataset, self.spans)
        indices = unit_rows * 24  # row numbers by class, labels and codes
        # Rows as read, relative to their centres, and weighted; centres; and offsets in double precision.
        kernel = BLOCK_ROWS * d * (dataset.dtype.itemsize + 3 * item + 3 * 8) + d * d * (item + 2 * 8)
        spans = moments_spans(self.spans, c, d, scatters)
        span_rows = max(span.stop - span.start for span in spans)

        def summary(n_spans: int) -> int:
            """Pooled moments know the classes that their rows have, and their weights, the others all."""
            seen = min(c, n_spans * span_rows)
            pooled = summary_bytes(seen, d, scatters) + 8 * scatters * seen
            return pooled if scatters < c else summary_bytes(c, d, scatters)

        # Sums and centres of each thread; a result of every depth of the merge tree, and what the last two merge into.
        adding = threads * (summary(1) + min(c, span_rows) * d * 8)
        depth = (len(spans) - 1).bit_length()
        waiting = sum(summary(2**level) for level in range(depth)) + summary(len(spans))
        census = 16 * sum(min(c, stop - start) for span in spans for start, stop in span.units)
        reducing = threads * (unit + indices + kernel) + adding + waiting + census
        if not median_rows:
            return reducing
        waiting = depth + 3
        sets = c * d * (2 * dataset.dtype.itemsize + 5 * 8)
        members = 3 * c * c  # which classes each set has, while it is made
        # Where the last two halves meet, both are held with their union, which is as large as both, and a thinner one.
        values, entry = median_rows * d, key_type(c, d).itemsize + dataset.dtype.itemsize
        # A sample of all rows leaves no values inside the brackets.
        all_sampled = self._bracketing_rows == dataset.n_rows
        inside = 0 if all_sampled and values * entry > LIMITS.kept_bytes else min(LIMITS.kept_bytes, values * entry)
        kept = 6 * inside + threads * 40 * min(PIECE_VALUES, values)
        sampling = threads * unit + 3 * SAMPLE_BYTES
        return max(reducing + (threads + waiting) * sets + members + kept, sampling)

    def project(self, widths: list[int], formats: int, kept: int) -> PassPlan:
        """Return the pass that projects rows by methods of ``widths`` components, into so many formats.

        So many columns are kept with them.
        """
        operations = 2.0 * self.dataset.nnz * sum(widths)
        return self.plan("project", operations, written=self.projected_bytes(widths, formats, kept))

    def projected_bytes(self, widths: list[int], formats: int, kept: int) -> int:
        """Return the bytes of the projected rows."""
        beside = len(widths) * DOUBLE * (1 + 2 * kept)
        return formats * self.dataset.n_rows * (sum(widths) * self.resources.item + beside)

    def projecting(self, widths: list[int], kept: int) -> int:
        """Return the bytes of a process that projects: units as read and converted, and their coordinates."""
        dataset, item, width = self.dataset, self.resources.item, sum(widths)
        # Coordinates of all methods, and of one method while it is written: its columns, the table and the bytes.
        values = 2 * width + 3 * max(widths, default=0)
        loadings = dataset.n_features * width * item
        rows = min(output_chunk_rows(dataset, width, kept), dataset.n_rows)
        if dataset.sparse:
            unit = dataset.sparse_bytes(rows) + rows * width * DOUBLE
            loadings += dataset.n_features * width * DOUBLE
        else:
            unit = dataset.reading_bytes(rows)
            values += dataset.n_features
        beside = 3 * rows * kept * VALUE_BYTES  # as they are read, as a table and as its bytes
        return self.resources.process_threads * (unit + loadings + rows * values * item + beside)


def output_chunk_rows(dataset: Dataset, width: int, kept: int = 0) -> int:
    """Return rows a chunk of the projected arrays: a reading unit, if all units have equal size.

    CSR rows are projected without making them dense, so that stored values and ``width`` coordinates bound a unit.
    Columns that are ``kept`` with the rows count too.
    """
    size = dataset.share_bytes(1) + width * DOUBLE if dataset.sparse else dataset.row_bytes
    size += kept * VALUE_BYTES
    sizes = np.diff(unit_edges(dataset.chunk_edges, size))
    regular = len(sizes) == 1 or (np.all(sizes[:-1] == sizes[0]) and sizes[-1] <= sizes[0])
    return int(sizes[0]) if regular else default_chunk_rows(size)
