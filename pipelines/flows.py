"""Shared by all flows: parameters, and the states of refused and crashed runs."""

from __future__ import annotations

from typing import Any, TypeVar

from prefect.states import Failed, State
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
    # The flows do that themselves: Prefect logs a traceback for a mistake, and ends as "Failed".
    "validate_parameters": False,
    "on_cancellation": [on_cancellation],
    "on_crashed": [on_crashed],
}
"""Options of every flow."""

Model = TypeVar("Model", bound=BaseModel)


def as_model(model: type[Model], given: Any) -> Model:
    """Return parameters as the model that the flow names, from the dictionary that a deployment passes on.

    Raises
    ------
    ConfigError
        For what does not fit, in the same words as for a file.
    """
    if isinstance(given, model):
        return given
    if issubclass(model, RunConfig):
        return parse_config(given, WHERE)  # type: ignore[return-value]
    return parse_model(model, given, WHERE)


def refused(error: MmpcaError) -> State:
    """Return the state of a run that ended by the user's mistake; a raised exception would log a traceback."""
    return Failed(message=str(error), name=REFUSED)
