"""What Prefect's logs leave out of our flows: tracebacks of its own that say nothing of the run."""

from __future__ import annotations

import logging

from prefect.exceptions import FailedRun

from mmpca_dist.errors import MmpcaError

STILL_RUNNING = "Finished in state Running()"
"""What the engine logs of a run that its worker is about to put into the state Cancelled."""


def quieten() -> None:
    """Have loggers of flow runs show a refusal as its sentence, and not say that a cancelled run is running."""
    logging.getLogger("distributed").setLevel(logging.WARNING)  # of clusters that grow, shrink and end
    logging.getLogger("prefect.flow_runs").addFilter(_in_one_line)  # once, however often it is called


def _in_one_line(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if isinstance(error, MmpcaError | FailedRun):
        record.msg, record.args, record.exc_info, record.exc_text = str(error), (), None, None
    return record.getMessage() != STILL_RUNNING
