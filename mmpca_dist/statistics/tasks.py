"""The context of passes: scheduler, progress, and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from mmpca_dist.datasets.dataset import Span
from mmpca_dist.statistics.checkpoint import Checkpoint
from mmpca_dist.statistics.tree_reduction import PeakMemory, Progress, Scheduler, reduce_spans

T = TypeVar("T")
OnPass = Callable[[str, int], None]
"""Called with the name of a pass as it begins, and with the bytes of rows that it reads."""


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """Where tasks run, and who watches.

    Attributes
    ----------
    scheduler : Scheduler
    progress : callable, optional
        Called with the number of tasks done and of all.
    on_pass : callable, optional
        Called with the name of each pass as it begins, and the bytes of rows that it reads.
    checkpoint : Checkpoint, optional
        Where passes keep what groups of spans leave, for another attempt.
    memory : PeakMemory, optional
        Told the memory of the processes that ran tasks.
    """

    scheduler: Scheduler
    progress: Progress | None = None
    on_pass: OnPass | None = None
    checkpoint: Checkpoint | None = None
    memory: PeakMemory | None = None

    def run(
        self, task: Callable[[Span], T], spans: Sequence[Span], merge: Callable[[T, T], T], name: str, kept: bool = True
    ) -> T:
        """Run a task on spans and merge the results; see ``reduce_spans``.

        ``kept`` tells whether the checkpoint may keep what groups of spans leave: not where tasks leave more than their
        results, in the memory of this process.
        """
        checkpoint = None if self.checkpoint is None else self.checkpoint.next_pass(name, len(spans))
        return reduce_spans(
            task,
            spans,
            merge,
            scheduler=self.scheduler,
            name=name,
            progress=self.progress,
            checkpoint=checkpoint if kept else None,
            memory=self.memory,
        )

    def without_progress(self) -> Self:
        """Return the same context with nobody who watches how far its passes are."""
        return replace(self, progress=None)

    def keeping_nothing(self) -> Self:
        """Return the same context without a checkpoint."""
        return replace(self, checkpoint=None)

    def keeping_apart(self, part: str) -> Self:
        """Return the context of a part of the stage that another attempt may find done, or not."""
        return replace(self, checkpoint=self.checkpoint and self.checkpoint.within(part))

    def begins(self, name: str, n_bytes: int = 0) -> None:
        """Tell of a pass as it begins, and how many bytes of rows it reads."""
        if self.on_pass is not None:
            self.on_pass(name, n_bytes)

    def tell_work(self, name: str, done: int, total: int) -> None:
        """Tell how far work is that reads no rows."""
        if done == 1:
            self.begins(name)
        if self.progress is not None:
            self.progress(done, total)
