"""What all flows share: options, parameters, and the state of a refused run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from prefect import Flow, flow
from prefect.states import Completed, Failed, State
from pydantic import BaseModel

import mmpca_dist
from mmpca_dist.configuration.schema import RunConfig, parse_config, parse_model
from mmpca_dist.errors import MmpcaError

from .hooks import on_cancellation, on_crashed

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


def flow_of(model: type[Model], name: str, description: str) -> Callable[[Callable[[Model], str]], Flow[..., State]]:
    """Return a decorator that makes a flow of a function of one model, which returns the message of the end.

    Parameters are an instance of the model or a dictionary, as deployments pass it. A mistake of the user's ends the
    flow in the failed state ``Refused``, whose message says what to do.
    """

    def decorate(work: Callable[[Model], str]) -> Flow[..., State]:
        @functools.wraps(work)
        def run(config: Any) -> State:
            try:
                return Completed(message=work(as_model(model, config)))
            except MmpcaError as error:
                return refused(error)

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
