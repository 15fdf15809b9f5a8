"""What all flows share: options, parameters, and the state of a refused run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any, TypeVar

from prefect import Flow, flow
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Completed, Failed, State
from pydantic import BaseModel

import mmpca_dist
from mmpca_dist.configuration.schema import RunConfig, parse_config, parse_model
from mmpca_dist.errors import MmpcaError
from mmpca_dist.jobs.events import Callback, Callbacks

from .artifacts import ArtifactCallback, MetricsCallback
from .hooks import on_cancellation, on_crashed
from .outbox import Outbox

REFUSED = "Refused"
"""Name of the state of a run that ended by the user's mistake, in data or settings."""

WHERE = "The parameters of this run"

COMMON: dict[str, Any] = {
    "version": mmpca_dist.__version__,
    "persist_result": False,
    # Our flows validate parameters themselves: Prefect would log a traceback for a mistake, and end as "Failed".
    "validate_parameters": False,
    "on_cancellation": [on_cancellation],
    "on_crashed": [on_crashed],
}
"""Options of every flow."""

Model = TypeVar("Model", bound=BaseModel)
Work = Callable[[Model, Outbox, Callbacks], str]


class FlowEnd:
    """How the work of a flow ended, whether or not the server sees it."""

    def __init__(self, settings: ExitStack | None = None, callbacks: Sequence[Callback] = ()) -> None:
        self.state: State | None = None
        self.failure = ""
        """Why the server did not receive all; empty where it did."""
        self.callbacks = callbacks
        """The callbacks of the process that runs the flow, such as its terminal's."""
        self._settings = settings

    def wait(self, outbox: Outbox) -> None:
        """Wait for what is still to be sent; let Prefect not wait again for a server that does not answer."""
        self.failure = outbox.close()
        if self.failure and self._settings is not None:
            self._settings.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}))


_end: ContextVar[FlowEnd | None] = ContextVar("end", default=None)


def ended(flow: Flow[..., State], config: Any, *callbacks: Callback) -> FlowEnd:
    """Run a flow that tells callbacks of this process, too, and return how its work ended.

    Raises what ended it, unless that is a server that has gone.
    """
    with ExitStack() as settings:
        end = FlowEnd(settings, callbacks)
        token = _end.set(end)
        settings.callback(_end.reset, token)
        try:
            end.state = flow(config, return_state=True)
        except Exception as error:
            if end.state is None:
                raise
            end.failure = end.failure or str(error)
    return end


def flow_of(model: type[Model], name: str, description: str) -> Callable[[Work[Model]], Flow[..., State]]:
    """Return a decorator that makes a flow of a function of one model, which returns the message of the end.

    Parameters are an instance of the model or a dictionary, as deployments pass it. A mistake of the user's ends the
    flow in the failed state ``Refused``, whose message says what to do. The function sends what it tells Prefect by
    its second argument, for which the flow waits at its end, but not for long. It tells its third of its events.
    """

    def decorate(work: Work[Model]) -> Flow[..., State]:
        @functools.wraps(work)
        def run(config: Any) -> State:
            end, outbox = _end.get() or FlowEnd(), Outbox()
            try:
                callbacks = Callbacks([ArtifactCallback(outbox), MetricsCallback(), *end.callbacks])
                end.state = Completed(message=work(as_model(model, config), outbox, callbacks))
            except MmpcaError as error:
                end.state = refused(error)
            finally:
                end.wait(outbox)
            return end.state

        # Prefect reads the parameters of a flow from its signature.
        del run.__wrapped__
        run.__annotations__ = {"config": model, "return": State}
        return flow(name=name, description=description, **COMMON)(run)

    return decorate


def as_model(model: type[Model], parameters: Any) -> Model:
    """Return the parameters of a flow as its model; raise ConfigError, with the text for a file, if they do not fit."""
    if isinstance(parameters, model):
        return parameters
    if issubclass(model, RunConfig):
        return parse_config(parameters, WHERE)  # type: ignore[return-value]
    return parse_model(model, parameters, WHERE)


def refused(error: MmpcaError) -> State:
    """Return the state of a run that ended by the user's mistake; a raised exception would log a traceback."""
    return Failed(message=str(error), name=REFUSED)
