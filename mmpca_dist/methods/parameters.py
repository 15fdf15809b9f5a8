"""Parameters of estimators: declared once, for the constructor, for configurations and for the check of bounds."""

from __future__ import annotations

import inspect
import math
import numbers
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, dataclass_transform

import numpy as np

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.settings import setting

COMPARISONS = {
    "ge": (operator.ge, "at least"),
    "gt": (operator.gt, "more than"),
    "le": (operator.le, "at most"),
    "lt": (operator.lt, "less than"),
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator: its default, and how a configuration describes and bounds it."""

    default: Any
    kw_only: bool = True
    setting: Any = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    integral: bool = False
    words: tuple[str, ...] = ()
    """What it may be in place of a number."""


def parameter(default: Any, *, words: tuple[str, ...] = (), kw_only: bool = True) -> Any:
    """Return a parameter, which may be passed by position (``kw_only=False``), or be one of the ``words``."""
    return Parameter(default, kw_only, words=words)


def option(default: Any, *, words: tuple[str, ...] = (), kw_only: bool = True, **described: Any) -> Any:
    """Return a parameter that configurations may set, too; described as by ``settings.setting``.

    The estimator checks the bounds (``ge``, ``gt``, ``le``, ``lt``) of a number when it is fitted; ``words`` may stand
    in place of one.
    """
    bounds = {name: bound for name, bound in described.items() if name in COMPARISONS}
    if words:  # bounds of a field would be asked of words, too
        described = {name: value for name, value in described.items() if name not in bounds}
    return Parameter(default, kw_only, setting=setting(default, **described), bounds=bounds, words=words)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter, option))
def estimator(cls: type) -> Any:
    """Make the public annotated attributes of a class parameters: its constructor stores them, and does no more.

    The class is no data class: of those Dask sees the fields only, and would take two fits for one.
    """
    parameters: dict[str, Parameter] = dict(getattr(cls, "_parameters", {}))
    for name, annotation in inspect.get_annotations(cls).items():
        if not name.startswith("_"):
            value = vars(cls)[name]
            described = value if isinstance(value, Parameter) else Parameter(value)
            is_integral = "int" in str(annotation) and "float" not in str(annotation)
            parameters[name] = replace(described, integral=is_integral)
            setattr(cls, name, described.default)
    by_position = sorted(parameters, key=lambda name: parameters[name].kw_only)
    kinds = {True: inspect.Parameter.KEYWORD_ONLY, False: inspect.Parameter.POSITIONAL_OR_KEYWORD}
    itself = inspect.Parameter("self", kinds[False])
    signature = inspect.Signature(
        [itself]
        + [
            inspect.Parameter(name, kinds[parameters[name].kw_only], default=parameters[name].default)
            for name in by_position
        ]
    )

    def __init__(self: Any, *values: Any, **named: Any) -> None:  # noqa: N807
        try:
            bound = signature.bind(self, *values, **named)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}.__init__() {error}") from None
        bound.apply_defaults()
        for name in parameters:
            setattr(self, name, bound.arguments[name])

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    cls.__init__, cls._parameters = __init__, parameters  # type: ignore[misc, attr-defined]
    return cls


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise InputError(f"{name}={value!r} must be one of {some_names(choices)}.{did_you_mean(str(value), choices)}")


def check_number(
    name: str, value: Any, bounds: Mapping[str, float], integral: bool, words: tuple[str, ...] = ()
) -> None:
    """Refuse a value that is no number (no whole one, ``integral``), or out of bounds; messages name ``words``, too."""
    number = int | np.integer if integral else numbers.Real
    is_number = isinstance(value, number) and not isinstance(value, bool) and math.isfinite(float(value))
    if is_number and all(COMPARISONS[kind][0](value, bound) for kind, bound in bounds.items()):
        return
    what = " and ".join(f"{COMPARISONS[kind][1]} {limit:g}" for kind, limit in bounds.items())
    choices = "".join(f", or {word!r}" for word in words)
    raise InputError(f"{name}={value!r} must be a {'whole ' if integral else ''}number of {what}{choices}.")
