"""The base of all flows: stages as tasks, options, parameters, the states in which runs end, and cleaning up."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from prefect import Flow, flow, get_client, runtime, task
from prefect.assets import Asset, materialize
from prefect.blocks.system import Secret
from prefect.exceptions import FailedRun, TerminationSignal
from prefect.logging.loggers import flow_run_logger, get_run_logger
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Cancelled, Completed, Failed, State
from pydantic import BaseModel

import mmpca_dist
from mmpca_dist.configuration.parsing import parse_model
from mmpca_dist.errors import InputError, MmpcaError, OutageError, OutputError, instead_of
from mmpca_dist.ingest.destination import Destination
from mmpca_dist.jobs.directory import EVALUATION, RunDirectory, transform_folder
from mmpca_dist.jobs.events import Callback, Callbacks
from mmpca_dist.jobs.journal import traceback_kept
from mmpca_dist.stores import storage

from .artifacts import ArtifactCallback, Artifacts, MetricsCallback, Outbox, serve_metrics
from .results import DRAWN, slug

if TYPE_CHECKING:
    from mmpca_dist.jobs.job import Job, Stage

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
        from mmpca_dist.jobs.job import run_stage

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
        self,
        name: str,
        title: str,
        work: Callable[[], Any],
        makes: Sequence[Asset] = (),
        of: Sequence[Asset] = (),
        reused: Callable[[Any], bool] = lambda returned: False,
    ) -> Any:
        """Run a function as a task that makes assets of others, and return what it returns.

        Where that shows that all was there already (``reused``), the task ends as ``Cached``, and Prefect tells of no
        asset that was made. Raises what ended it. A refusal comes back from the task as a state, since an exception
        would log a traceback.
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
            if isinstance(returned[0], State):
                return returned[0]
            return Completed(message=title, name="Cached" if reused(returned[0]) else "Completed")

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


def on_broken_off(flow: Any, flow_run: Any, state: State) -> None:
    """Clean up once the process of a cancelled or crashed flow is gone: a worker calls this.

    Everything of a run stays, scratch included: Retry, or the next run with the same parameters, goes on from it. Half
    an ingested table goes. Others may work in the same folder by now: what they hold the lease of is left alone.
    """
    logger = flow_run_logger(flow_run, flow)
    uri = folder_of_flow(flow.name, (flow_run.parameters or {}).get("config"))
    if uri is None:
        return
    if flow.name == "ingest":
        with suppress(OutputError):  # another ingest works there
            if Destination.of(uri).recover():
                logger.info("Removed what was half-written for %s; what was there before is there.", uri)
    elif RunDirectory(uri).exists:
        logger.warning(
            "The run %s. Retry it, or start it again with the same parameters: it goes on in %s. To give up its "
            "unfinished stage and free the disk: mmpca clean %s",
            "crashed" if state.is_crashed() else "was cancelled", uri, uri,
        )  # fmt: skip


def written_to(flow: str, config: Any) -> str | None:
    """Return where a flow writes, if its parameters, which may be mistaken, say that."""
    name = "destination" if flow in ("ingest", "transform") else "output"
    value = config.get(name) if isinstance(config, dict) else getattr(config, name, None)
    return value if isinstance(value, str) and value else None


def folder_of_flow(flow: str, config: Any) -> str | None:
    """Return the folder that a flow writes to, if its parameters name one."""
    value = written_to(flow, config)
    if value is None:
        return None
    uri = storage.normalize(value)
    uri = transform_folder(uri) if flow == "transform" else uri
    return storage.join(uri, EVALUATION) if flow == "evaluate" else uri


METRICS_PORT = serve_metrics()
"""Where this process serves counters, from before Prefect would; None if it does not."""
WHERE = "The parameters of this run"
STILL_RUNNING = "Finished in state Running()"
"""The log line of the engine of a run that its worker is about to put into the state Cancelled."""

COMMON: dict[str, Any] = {
    "version": mmpca_dist.__version__,
    # Our flows validate parameters themselves: Prefect would log a traceback for a mistake, and end as "Failed".
    "validate_parameters": False,
    "on_cancellation": [on_broken_off],
    "on_crashed": [on_broken_off],
}
"""Options of every flow. Whether results are kept is Prefect's setting, which deployments turn on."""

PARAMETERS = """Run a flow.

Args:
    config: The settings, as in a file.
    credentials: Name of a Secret block with variables of an object store, such as AWS_ACCESS_KEY_ID, as JSON; without
        it, those of the environment.
"""
"""Descriptions of the parameters in forms; Prefect reads them from the flow's docstring."""

Model = TypeVar("Model", bound=BaseModel)

PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")
"""Variables that a block may set in the environment: none that says which code runs."""


Done = tuple[str, dict[str, Any]]
"""The work of a flow, in words, and the small value that it returns to other flows."""
Work = Callable[[Model, Artifacts, Callbacks], Done]


@dataclass
class FlowEnd:
    """How the work of a flow ended, whether or not the server sees it."""

    settings: ExitStack | None = None
    callbacks: Sequence[Callback] = ()
    """The callbacks of the process that runs the flow, such as its terminal's."""
    announce: Callable[[str], None] = lambda page: None
    state: State | None = None
    failure: str = ""
    """Why the server did not receive all; empty where it did."""

    def wait(self, outbox: Outbox) -> None:
        """Wait for what is still to be sent; let Prefect not wait again for a server that does not answer."""
        self.failure = outbox.close()
        if self.failure and self.settings is not None:
            self.settings.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}))


_end: ContextVar[FlowEnd | None] = ContextVar("end", default=None)


def ended(
    flow: Flow[..., State], config: Any, *callbacks: Callback, announce: Callable[[str], None] = lambda page: None
) -> FlowEnd:
    """Run a flow that tells callbacks of this process, too, and return how its work ended.

    ``announce`` is called with the address of its page. Raises what ended it, unless that is a server that has gone.
    """
    with ExitStack() as settings:
        end = FlowEnd(settings, callbacks, announce)
        token = _end.set(end)
        settings.callback(_end.reset, token)
        try:
            end.state = flow(config, return_state=True)
        except Exception as error:
            if end.state is None:
                raise
            end.failure = end.failure or str(error)
    if end.state.is_cancelled():
        raise KeyboardInterrupt
    return end


def flow_of(model: str, title: Callable[[Any], str]) -> Callable[[Work[Any]], Flow[..., State]]:
    """Return a decorator that makes a flow of a function of one model, which is called NAME_flow and says what it does.

    Parameters are an instance of the model or a dictionary, as deployments pass it. A mistake of the user's ends the
    flow in the failed state ``Refused``, whose message says what to do. The function shows Prefect its results by
    its second argument, for which the flow waits at its end, but not for long. It tells its third of its events.
    The run is named after ``title`` of the model.

    A worker imports the module of a flow for each of its hooks, too. So ``model`` is a name, such as ``module:Model``,
    and the function itself imports what its work needs: both would take seconds.
    """

    def decorate(work: Work[Any]) -> Flow[..., State]:
        name = work.__name__.removesuffix("_flow")

        @functools.wraps(work)
        def run(config: Any, credentials: str | None = None) -> State:
            # Loggers show a refusal as its sentence, and do not say that a cancelled run is running.
            logging.getLogger("distributed").setLevel(logging.WARNING)  # of clusters that grow, shrink and end
            logging.getLogger("prefect.flow_runs").addFilter(_in_one_line)  # once, however often it is called
            end, outbox = _end.get() or FlowEnd(), Outbox()
            prefix = slug(written_to(name, config) or name)
            outbox.send(_tag, runtime.flow_run.id, name, prefix)
            end.announce(str(runtime.flow_run.ui_url))
            if METRICS_PORT is not None:
                get_run_logger().info("Counters for Prometheus: http://localhost:%d/metrics", METRICS_PORT)
            artifacts = Artifacts(outbox, f"{prefix}-evaluation" if name == "evaluate" else prefix)
            shown = ArtifactCallback(artifacts)
            try:
                callbacks = Callbacks([shown, MetricsCallback(), *end.callbacks])
                settings = as_model(resolve_name(model), config)
                with _in_environment(credentials), traceback_kept(folder_of_flow(name, settings)):
                    message, result = work(settings, artifacts, callbacks)
                end.state = Completed(message=message, data=result)
            except MmpcaError as error:
                end.state = refused(error)
            except KeyboardInterrupt:
                end.state = Cancelled(message=STOPPED)
            finally:
                shown.close("stopped" if end.state is None else (end.state.name or "").lower())
                end.wait(outbox)
            if not end.failure:
                return end.state
            lost = f"The Prefect server did not receive all that this page should show: {end.failure}."
            get_run_logger().warning("%s The results do not depend on it.", lost)
            return end.state.model_copy(update={"message": f"{end.state.message} ({lost})"})

        def flow_run_name() -> str:
            given = runtime.flow_run.name
            if given and not DRAWN.fullmatch(given):
                return str(given)
            try:
                return f"{name} {title(as_model(resolve_name(model), runtime.flow_run.parameters.get('config')))}"
            except MmpcaError:
                return f"{name}: refused parameters"

        # Prefect reads the parameters of a flow from its signature.
        del run.__wrapped__
        run.__doc__ = PARAMETERS
        run.__annotations__ = {"config": Any, "credentials": str | None, "return": State}
        made = flow(name=name, description=work.__doc__, flow_run_name=flow_run_name, **COMMON)(run)
        # Evaluated where a deployment is made, whose form shows the fields of the model.
        run.__annotations__["config"] = f"resolve_name({model!r})"
        return made

    return decorate


def _tag(flow_run: str, *names: str) -> None:
    """Give a flow run the tags that those of deployments have, its flow and its folder, next to its own."""
    with get_client(sync_client=True) as client:
        tags = client.read_flow_run(flow_run).tags  # type: ignore[arg-type]
        client.update_flow_run(flow_run, tags=sorted({*tags, "mmpca", *names}))  # type: ignore[arg-type]


def as_model(model: type[Model], parameters: Any) -> Model:
    """Return the parameters of a flow as its model; raise ConfigError, with the text for a file, if they do not fit."""
    if isinstance(parameters, model):
        return parameters
    if model.__name__ == "RunConfig":  # whose import takes seconds
        from mmpca_dist.configuration.schema import parse_config

        return parse_config(parameters, WHERE)  # type: ignore[return-value]
    return parse_model(model, parameters, WHERE)


def _in_one_line(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if isinstance(error, MmpcaError | FailedRun):
        record.msg, record.args, record.exc_info, record.exc_text = str(error), (), None, None
    return record.getMessage() != STILL_RUNNING


@contextmanager
def _in_environment(block: str | None) -> Iterator[None]:
    """Put what a Secret block holds, a JSON object such as ``{"AWS_ACCESS_KEY_ID": ...}``, into the environment.

    Raises InputError where there is no such block, or it holds something else; messages do not show what.
    """
    values = {} if block is None else _credentials(block)
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _credentials(block: str) -> dict[str, str]:
    text = f"credentials: there is no Secret block {block!r} on the Prefect server. 'prefect block ls' lists blocks."
    with instead_of(ValueError, InputError, text):
        held: Any = Secret.load(block).get()  # type: ignore[union-attr]
    if isinstance(held, dict) and all(
        name.startswith(PREFIXES) and isinstance(value, str) for name, value in held.items()
    ):
        return held
    raise InputError(
        f"credentials: the Secret block {block!r} must hold a JSON object of variables whose names begin with "
        f"{', '.join(PREFIXES)} and whose values are text."
    )
