"""The public contract of estimators: ``Traits`` of a class, with options, and ``Fitted``, what a fit tells.

Options have what signatures do not say of parameters; their values are checked here, too.
"""

from __future__ import annotations

import inspect
import math
import numbers
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, did_you_mean

COMPARISONS = {
    "ge": (operator.ge, "at least"),
    "gt": (operator.gt, "more than"),
    "le": (operator.le, "at most"),
    "lt": (operator.lt, "less than"),
}


class Option:
    """Facts of a parameter in addition to its signature, for configurations and the check of bounds.

    A class of estimators declares its own in its ``traits``, by the names of the parameters.

    Attributes
    ----------
    words : tuple of str
        What may stand in place of a number.
    bounds : dict
        ``ge``, ``gt``, ``le`` and ``lt``, which a number is checked for when an estimator is fitted.
    described : dict
        What ``settings.setting`` takes in addition to the default; a parameter that no configuration sets needs none.
    """

    def __init__(self, *, words: tuple[str, ...] = (), **described: Any) -> None:
        self.words = words
        self.bounds = {name: bound for name, bound in described.items() if name in COMPARISONS}
        # Bounds of a field would be asked of words, too.
        self.described = {name: value for name, value in described.items() if not words or name not in COMPARISONS}

    def check(self, value: Any, parameter: inspect.Parameter) -> None:
        """Refuse a value of the parameter that is out of bounds."""
        is_unset = value is None and parameter.default is None
        if self.bounds and not is_unset and value not in self.words:
            kinds = str(parameter.annotation)
            check_number(parameter.name, value, self.bounds, "int" in kinds and "float" not in kinds, self.words)


@dataclass(frozen=True)
class Traits:
    """Facts that hold for all estimators of a class."""

    # of parameters that a configuration may set, or that have bounds
    options: Mapping[str, Option] = field(default_factory=dict)
    stored: tuple[str, ...] = ()  # arrays and finite scalars that models keep in addition to those of all
    nested: bool = True  # whether the components of a smaller fit are the first of these
    shares: bool = True  # whether its components hold shares of a total that is known
    by_classes: bool = False  # whether there are at most as many components as classes less one
    takes_targets: bool = False  # whether it is solved for numbers to predict, too
    ignores_labels: bool = False  # whether the components are the same for any labels

    def extended(self, options: Mapping[str, Option] | None = None, **others: Any) -> Self:
        """Return the traits of a subclass, with further options and other values."""
        return replace(self, options={**self.options, **(options or {})}, **others)


@dataclass(frozen=True)
class Fitted:
    """Facts of a fitted estimator and its K components, whatever blocks they come in."""

    directions: NDArray  # (K, d): the components one below the other
    used: int  # how many components there are, as they are asked for
    active: NDArray  # (K,): which directions have an influence; all, unless the method switches some off
    # coefficients (C, K), or (1, K) for two classes, and intercepts of the method's own classifier
    classifier: tuple[NDArray, NDArray] | None = None
    # sentences: how far passes ended from where they were to go; what a reader of the components must know; where a
    # choice among values ended on an edge of them; what makes the components poor, and what to do about it
    unconverged: Sequence[str] = ()
    remarks: Sequence[str] = ()
    edges: Sequence[str] = ()
    cautions: Sequence[str] = ()


def check_options(estimator: Any) -> None:
    """Refuse parameters of an estimator that are out of the bounds in the options of its ``traits``."""
    for name, parameter in inspect.signature(type(estimator)).parameters.items():
        if name in estimator.traits.options:
            estimator.traits.options[name].check(getattr(estimator, name), parameter)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        meant = did_you_mean(str(value).replace("_", " "), choices)
        raise InputError(f"{name}={value!r} must be one of {', '.join(choices)}.{meant}")


def check_numbers(name: str, values: Any, each: str, bounds: Mapping[str, float], integral: bool) -> None:
    """Refuse what is no list of numbers, or one of them as `check_number` does; messages call it ``each``."""
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str) or not len(values):
        raise InputError(f"{name}={values!r} must be a list of numbers.")
    for value in values:
        check_number(each, value, bounds, integral)


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
