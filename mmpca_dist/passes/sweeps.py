"""Sweeps: fits that pass over the rows until they converge, with a state of every row that each pass reads and writes.

A sweep writes the states of its rows as tables of their own, one for each reading unit. When all are written and the
fit is updated, it is recorded, and only then the states before it go: another attempt goes on from the last whole
sweep.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import psutil
from numpy.typing import NDArray

from mmpca_dist.passes.centred_rows import CentredRows, RowUnits
from mmpca_dist.passes.label_terms import LabelTerms, Terms
from mmpca_dist.passes.pilot import Pilot
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import OnRows
from mmpca_dist.passes.scratch import Scratch
from mmpca_dist.passes.tree_reduction import added
from mmpca_dist.passes.units import read_batches
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span, reading_edges, spans_of

F = TypeVar("F")
"""The fit: storable."""
S = TypeVar("S", bound=Any)
"""Sums over rows for its update; `added` adds them up."""
Together = tuple[Any, ...]
"""One for each of several sweeps."""
PILOT_SWEEPS = 4
"""Sweeps that a pilot makes of each kind: the first has no states to read, and Newton's method forms matrices later."""
Step = Callable[[Batch, "NDArray | None"], "tuple[S, NDArray | None]"]
"""Takes a data set, the first row of a unit, its rows, dense or CSR, and their states, none in the first sweep; returns
what they leave, and their states afterwards, with as many entries as there are rows, or None where they have none."""


class BlockStep(ABC, Generic[S]):
    """A step that takes a unit block by block: its rows in the units of a fit, with their label terms."""

    terms: LabelTerms
    units: RowUnits

    @property
    @abstractmethod
    def block_rows(self) -> int:
        """Rows of a block, at most."""

    @abstractmethod
    def of_block(self, rows: CentredRows, terms: Terms, state: NDArray | None) -> tuple[S, NDArray | None]:
        """Return what a block leaves, and the states of its rows afterwards; ``state`` are those before."""

    def __call__(self, batch: Batch, state: NDArray | None) -> tuple[S, NDArray | None]:
        total: S | None = None
        after: NDArray | None = None
        terms_of = self.terms.of_unit(batch)
        for block, rows in self.units.blocks(batch, self.block_rows):
            sums, states = self.of_block(rows, terms_of(block), None if state is None else state[block])
            total = sums if total is None else added(total, sums)
            if states is not None:
                after = np.empty((len(batch), *states.shape[1:])) if after is None else after
                after[block] = states
        assert total is not None  # noqa: S101  (a unit has rows)
        return total, after


class Sweep(ABC, Generic[F, S]):
    """A fit by sweeps: what a pass does, and what follows from it."""

    name: str
    """Name of its passes, and of its tables."""
    state_bytes: int
    """Bytes of a row's state; 0 where rows have none."""

    @abstractmethod
    def step(self, fitted: F) -> Step[S]:
        """Return the work on a unit of rows; picklable."""

    @abstractmethod
    def update(self, fitted: F, sums: S) -> F:
        """Return the fit after a pass, given the sums over all rows."""

    @abstractmethod
    def is_done(self, fitted: F) -> bool:
        """Tell whether no further pass is needed."""

    @abstractmethod
    def describe(self, fitted: F) -> str:
        """Say how far the fit is."""


@dataclass(frozen=True)
class OnePass(Sweep[S | None, S]):
    """A single pass: what rows leave for a step."""

    name: str
    work: Step[S]
    state_bytes = 0

    def step(self, fitted: S | None) -> Step[S]:
        return self.work

    def update(self, fitted: S | None, sums: S) -> S:
        return sums

    def is_done(self, fitted: S | None) -> bool:
        return fitted is not None

    def describe(self, fitted: S | None) -> str:
        return "sums over the rows"


@dataclass(frozen=True)
class SweepsTogether(Sweep[Together, Together]):
    """Several sweeps that share one reading of the rows; their states, if any, are joined along the last axis.

    What is fitted and what rows leave has an item a sweep, the latter None for those that are done. Fits tell which of
    their models are done, and how far these may be from their minima, by ``is_done`` and ``gaps`` (m,).
    """

    name: str
    sweeps: tuple[Sweep[Any, Any], ...]

    @property
    def state_bytes(self) -> int:  # type: ignore[override]
        return sum(sweep.state_bytes for sweep in self.sweeps)

    def step(self, fitted: Together) -> Step[Together]:
        pairs = zip(self.sweeps, fitted, strict=True)
        steps = tuple(None if sweep.is_done(fit) else sweep.step(fit) for sweep, fit in pairs)
        return _StepTogether(steps, tuple(sweep.state_bytes for sweep in self.sweeps))

    def update(self, fitted: Together, sums: Together) -> Together:
        parts = zip(self.sweeps, fitted, sums, strict=True)
        return tuple(fit if each is None else sweep.update(fit, each) for sweep, fit, each in parts)

    def is_done(self, fitted: Together) -> bool:
        return all(sweep.is_done(fit) for sweep, fit in zip(self.sweeps, fitted, strict=True))

    def describe(self, fitted: Together) -> str:
        is_done, gaps = (np.concatenate([getattr(fit, name) for fit in fitted]) for name in ("is_done", "gaps"))
        return describe_models(is_done, gaps)


@dataclass(frozen=True)
class _StepTogether:
    steps: tuple[Step[Any] | None, ...]
    state_bytes: tuple[int, ...]

    def __call__(self, batch: Batch, state: NDArray | None) -> tuple[Together, NDArray | None]:
        sums, states = [], []
        parts: Sequence[NDArray | None] = [None] * len(self.steps)
        if state is not None:  # those of the sweeps share the last axis by their sizes
            ends = np.cumsum(self.state_bytes) * state.shape[-1] // sum(self.state_bytes)
            parts = np.split(state, ends[:-1], axis=-1)
        for step, before in zip(self.steps, parts, strict=True):
            result, after = (None, before) if step is None else step(batch, before)
            sums.append(result)
            states.append(after)
        kept = [each for each in states if each is not None]
        return tuple(sums), (np.concatenate(kept, axis=-1) if len(kept) > 1 else kept[0]) if kept else None


@dataclass(frozen=True)
class Sweeper:
    """The rows that sweeps pass over, and the tables for their states."""

    rows: Rows
    tables: Scratch
    prefix: str = ""
    """Prefix of the names of tables, where several fits share them."""
    keeps_sparse: bool = False
    """Whether CSR rows are read as they are: where solvers in passes do so. Else their bits are those of dense rows."""

    def run(self, sweep: Sweep[F, S], fitted: F) -> F:
        """Return what is fitted after as many sweeps as it takes; it goes on where an earlier attempt ended."""
        name = self.prefix + sweep.name
        number, fitted = self.tables.value(name) or (0, fitted)
        dataset = self.rows.dataset
        spans = sweep_spans(dataset, sweep.state_bytes)
        most = PILOT_SWEEPS if isinstance(self.rows.scheduler, Pilot) else math.inf
        while not sweep.is_done(fitted) and number < most:
            before, after = (f"{name}-{i}" for i in (number, number + 1))
            sparse = dataset.sparse and self.keeps_sparse
            stored = before if number and sweep.state_bytes else None
            task = partial(
                _sweep_span, step=sweep.step(fitted), tables=self.tables, name=after, before=stored, sparse=sparse
            )
            self.rows.begins(sweep.name, dataset.n_bytes)
            # States are in no checkpoint.
            sums = self.rows.run(OnRows(dataset, task), spans, added, sweep.name, kept=False)
            number, fitted = number + 1, sweep.update(fitted, sums)
            self.tables.put_value(name, (number, fitted))
            if self.rows.on_sweep is not None:
                self.rows.on_sweep(f"{sweep.name} {number}: {sweep.describe(fitted)}")
            if sweep.state_bytes:
                self._drop(before, spans)
        if sweep.state_bytes:
            self._drop(f"{name}-{number}", spans)
        return fitted

    def _drop(self, name: str, spans: list[Span]) -> None:
        for span in spans:
            for start, _ in span.units:
                self.tables.drop(f"{name}-{start}")


def describe_models(is_done: NDArray[np.bool_], gaps: NDArray[np.float64]) -> str:
    """Say how many models have yet to reach their minimum, and how far they may be from it."""
    return f"{np.count_nonzero(~is_done)} of {len(is_done)} models to go, gaps up to {gaps.max():.2g}"


def states_fit_memory(n_rows: int, state_bytes: int, limit: int | None = None) -> bool:
    """Tell whether the states of all rows, twice during a sweep, fit an eighth of ``limit`` (of what is free)."""
    limit = psutil.virtual_memory().available if limit is None else limit
    return 2 * n_rows * state_bytes <= limit // 8


def sweep_spans(dataset: Dataset, state_bytes: int) -> list[Span]:
    """Return the spans of sweeps: their reading units hold states in addition to the rows."""
    return spans_of(reading_edges(dataset, state_bytes))


def _sweep_span(
    dataset: Dataset, span: Span, *, step: Step[S], tables: Scratch, name: str, before: str | None, sparse: bool
) -> S:
    """Take the step with every unit of a span, and write the states."""
    total: S | None = None
    # Steps that share a reading need all of its rows at once.
    for batch in read_batches(dataset, span, sparse=sparse, by_blocks=not isinstance(step, _StepTogether)):
        state = None if before is None else tables.get(f"{before}-{batch.start}", ("state",))[0]
        sums, state = step(batch, state)
        if state is not None:
            tables.put(f"{name}-{batch.start}", {"state": state})
        total = sums if total is None else added(total, sums)
    assert total is not None  # noqa: S101  (a span has units)
    return total


class SweptNeed(ABC):
    """A fit by sweeps as a need of a method; hashable, and all that determines the fit but its size."""

    is_nested = False
    """Whether a fit for more components has those of a fit for fewer, so that one fit serves all sizes."""

    @abstractmethod
    def fit(self, statistics: Any, sweeper: Sweeper, n_components: int) -> Any:
        """Return the fit, which is storable, of so many components; ``statistics`` are those of the same rows."""

    @abstractmethod
    def largest(self, statistics: Any) -> int:
        """Return the largest number of components that there can be for rows with these statistics."""

    @property
    def takes_rows(self) -> bool:
        """Whether rows are taken into memory, where they fit (``LIMITS.direct_bytes``)."""
        return False

    def state_bytes(self, n_classes: int, n_components: int, n_features: int) -> int:
        """Return the bytes of the largest state of a row; 0 where rows have none."""
        return 0
