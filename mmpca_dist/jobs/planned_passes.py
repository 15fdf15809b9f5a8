"""Count the passes of a stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mmpca_dist.jobs.job import Job


@dataclass
class PassCounter:
    """Counts the passes of a stage, and tells the run's callback; ``over_rows`` are those that read rows."""

    job: Job
    stage: str
    names: list[str] = field(default_factory=list)
    over_rows: list[str] = field(default_factory=list)
    n_bytes: int = 0

    def __call__(self, name: str, size: int) -> None:
        self.names.append(name)
        if size:
            self.over_rows.append(name)
        self.n_bytes += size
        self.job.callback.on_pass(self.stage, name)

    def take(self) -> dict[str, Any]:
        """Return the passes that read rows, and the bytes of them, since this was asked before."""
        found = {"passes": self.over_rows, "bytes": self.n_bytes}
        self.over_rows, self.n_bytes = [], 0
        return found
