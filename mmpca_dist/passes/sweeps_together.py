"""Several fits by sweeps that share their passes over the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.array_sums import ArraySums
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import Step, Sweep, describe_models
from mmpca_dist.tables.dataset import Dataset


@storable
@dataclass(frozen=True)
class FitsTogether:
    """What is fitted by each sweep."""

    fits: tuple[Any, ...]


@dataclass(frozen=True)
class SumsTogether(ArraySums):
    """What rows leave for each sweep; None for those that are done."""

    sums: tuple[Any, ...]


@dataclass(frozen=True)
class SweepsTogether(Sweep[FitsTogether, SumsTogether]):
    """Sweeps whose states, if any, are alike up to the length of their last axis; the rows are read once for all.

    Fits tell which of their models are done, and how far these may be from their minima, ``is_done`` and ``gaps`` (m,).
    """

    name: str
    sweeps: tuple[Sweep[Any, Any], ...]

    @property
    def state_bytes(self) -> int:  # type: ignore[override]
        return sum(sweep.state_bytes for sweep in self.sweeps)

    @property
    def keeps_sparse(self) -> bool:  # type: ignore[override]
        return all(sweep.keeps_sparse for sweep in self.sweeps)

    def step(self, fitted: FitsTogether) -> Step[SumsTogether]:
        pairs = zip(self.sweeps, fitted.fits, strict=True)
        steps = tuple(None if sweep.is_done(fit) else sweep.step(fit) for sweep, fit in pairs)
        return _StepTogether(steps, tuple(sweep.state_bytes for sweep in self.sweeps))

    def update(self, fitted: FitsTogether, sums: SumsTogether) -> FitsTogether:
        parts = zip(self.sweeps, fitted.fits, sums.sums, strict=True)
        return FitsTogether(tuple(fit if each is None else sweep.update(fit, each) for sweep, fit, each in parts))

    def is_done(self, fitted: FitsTogether) -> bool:
        return all(sweep.is_done(fit) for sweep, fit in zip(self.sweeps, fitted.fits, strict=True))

    def describe(self, fitted: FitsTogether) -> str:
        return describe_models(
            np.concatenate([fit.is_done for fit in fitted.fits]), np.concatenate([fit.gaps for fit in fitted.fits])
        )


@dataclass(frozen=True)
class _StepTogether:
    steps: tuple[Step[Any] | None, ...]
    state_bytes: tuple[int, ...]

    def __call__(
        self, dataset: Dataset, start: int, X: Any, state: NDArray | None
    ) -> tuple[SumsTogether, NDArray | None]:
        sums, states = [], []
        for step, before in zip(self.steps, self._states(state), strict=True):
            result, after = (None, before) if step is None else step(dataset, start, X, before)
            sums.append(result)
            states.append(after)
        kept = [each for each in states if each is not None]
        return SumsTogether(tuple(sums)), np.concatenate(kept, axis=-1) if kept else None

    def _states(self, state: NDArray | None) -> list[NDArray | None]:
        """Return the states of the sweeps, which share the last axis by their sizes."""
        if state is None:
            return [None] * len(self.steps)
        ends = np.cumsum(self.state_bytes) * state.shape[-1] // sum(self.state_bytes)
        return list(np.split(state, ends[:-1], axis=-1))
