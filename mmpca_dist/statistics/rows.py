"""``Rows``: the labelled rows of a job, with their census, spans and tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mmpca_dist.datasets.dataset import Dataset, Span, make_spans
from mmpca_dist.statistics.census import Census, take_census
from mmpca_dist.statistics.schedulers import Scheduler
from mmpca_dist.statistics.tree_reduction import Tasks

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Rows(Tasks):
    """Labelled rows, and the tasks that pass over them.

    Attributes
    ----------
    dataset : Dataset
    census : Census
        How many rows each class has.
    spans : list of Span
        The stretches of rows that tasks read.
    scratch : str, optional
        A folder for tables that do not fit in memory.
    """

    dataset: Dataset
    census: Census
    spans: list[Span]
    scratch: str | None = None

    @classmethod
    def of(cls, dataset: Dataset, scheduler: Scheduler, spans: list[Span] | None = None, **others: Any) -> Rows:
        """Return the rows of a data set, whose labels are counted in a pass; in spans by its chunks, or those given.

        Raises
        ------
        InputError
            For labels that are not at least two classes.
        """
        spans = spans or make_spans(dataset)
        census = take_census(dataset, spans, Tasks(scheduler=scheduler))
        return cls(dataset=dataset, census=census, spans=spans, scheduler=scheduler, **others)

    def reduce(self, task: Callable[[Span], T], merge: Callable[[T, T], T], name: str, kept: bool = True) -> T:
        """Run a task on every span of the rows and merge the results."""
        return self.run(task, self.spans, merge, name, kept)

    def pass_over(self, task: Callable[[Span], T], merge: Callable[[T, T], T], name: str, kept: bool = True) -> T:
        """Tell of a pass over all rows, and make it."""
        self.begins(name, self.dataset.n_bytes)
        return self.reduce(task, merge, name, kept)
