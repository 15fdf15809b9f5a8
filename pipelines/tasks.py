"""Stages as Prefect tasks: named after what they do, each waiting for the one before, with the assets they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from prefect import get_client, runtime, task
from prefect.assets import Asset, materialize
from prefect.exceptions import TerminationSignal
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Cancelled, Completed, Failed, State

from mmpca_dist.errors import MmpcaError, OutageError
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.running import run_stage

REFUSED, UNREACHABLE = "Refused", "Unreachable"
"""Names of the states of runs that ended by the user's mistake, or as a network, store or cluster failed."""
STOPPED = "Stopped. The same command, or Retry, goes on from there."


def refused(error: MmpcaError) -> State:
    """Return the state of a run that ended by an error of one sentence; a raised exception would log a traceback."""
    return Failed(message=str(error), name=UNREACHABLE if isinstance(error, OutageError) else REFUSED, data=error)


class TaskChain:
    """Runs functions as tasks of the present flow, one after another."""

    def __init__(self) -> None:
        self._last: list[State] = []

    def stage(self, job: Job, stage: Stage, title: str, makes: Sequence[Asset] = (), of: Sequence[Asset] = ()) -> None:
        """Run a stage of a job; a stage whose results were there already ends as ``Cached``."""

        def work() -> State:
            seconds = run_stage(job, stage).get("seconds", 0)
            reused = stage.name in job.reused
            message = f"{stage.title}: {seconds:.2f} s" + ", already done" * reused
            return Completed(message=message, name="Cached" if reused else "Completed")

        self.run(stage.name, title, work, makes, of)
        if stage.name not in job.results:
            state = self._last[0]
            raise RuntimeError(f"Prefect did not run the stage {stage.name}: {state.message or state.name}")

    def run(
        self, name: str, title: str, work: Callable[[], Any], makes: Sequence[Asset] = (), of: Sequence[Asset] = ()
    ) -> Any:
        """Run a function as a task that makes assets of others, and return what it returns.

        Raises what ended it. A refusal comes back from the task as a state, since an exception would log a traceback.
        """
        errors: list[BaseException] = []
        returned: list[Any] = []

        def run_one() -> Any:
            try:
                returned.append(work())
            except BaseException as error:
                errors.append(error)
                if isinstance(error, MmpcaError):
                    return refused(error)
                if isinstance(error, KeyboardInterrupt) or (isinstance(error, TerminationSignal) and _cancels()):
                    return Cancelled(message="The flow run was cancelled.")
                raise
            return returned[0] if isinstance(returned[0], State) else Completed(message=title)

        options: dict[str, Any] = {"name": name, "task_run_name": lambda: title, "persist_result": False}
        decorate = materialize(*makes, by="mmpca", asset_deps=list(of), **options) if makes else task(**options)
        self._last = [decorate(run_one)(return_state=True, wait_for=self._last)]
        if errors:
            raise errors[0]
        return returned[0] if returned else None


def _cancels() -> bool:
    """Tell whether the server was asked to cancel this flow run; another signal, such as an eviction's, is a crash."""
    once = temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0})
    with suppress(Exception), once, get_client(sync_client=True) as client:
        state = client.read_flow_run(runtime.flow_run.id).state
        return state is not None and (state.is_cancelling() or state.is_cancelled())
    return False
