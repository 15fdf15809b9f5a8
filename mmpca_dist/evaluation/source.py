"""Rows out of memory, as an evaluation passes over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.statistics.census import Census
from mmpca_dist.statistics.reduction import Progress, Scheduler, reduce_spans
from mmpca_dist.statistics.sample import OnPass


@dataclass(frozen=True)
class Source:
    """Rows out of memory: where they are, how they are read, where the work goes and who watches."""

    dataset: Dataset
    census: Census
    spans: list[Span]
    scheduler: Scheduler
    scratch: str | None = None
    progress: Progress | None = None
    on_pass: OnPass | None = None

    def reduce(self, task: Any, merge: Callable[[Any, Any], Any], name: str) -> Any:
        """Make a pass over the rows."""
        self.tell(name)
        return reduce_spans(task, self.spans, merge, scheduler=self.scheduler, name=name, progress=self.progress)

    def tell(self, name: str) -> None:
        """Tell of a pass over the rows as it begins."""
        if self.on_pass is not None:
            self.on_pass(name, self.dataset.n_bytes)

    def tell_work(self, name: str, done: int, total: int) -> None:
        """Tell how far work is that reads no rows; of what is just done first, what it is."""
        if done == 1 and self.on_pass is not None:
            self.on_pass(name, 0)
        if self.progress is not None:
            self.progress(done, total)
