"""Sums of the scatters that class moments hold, by name: total, within, between, and those of single classes."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.statistics.scatters import at_least_two, full_rank
from mmpca_dist.statistics.working_statistics import Statistics

NAMES = ("total", "within", "between", "class")
WORDS = "total, within, between, or a mapping of these, and of class, to coefficients"


def terms_of(option: str, value: Any) -> dict[tuple[str, str], float]:
    """Return the coefficients, by name and label, that a name or a mapping means, such as ``{"class": "left"}``.

    Raises InputError, with the name of the option, for anything else, or where all coefficients are zero.
    """
    named: Any = {value: 1} if isinstance(value, str) else value
    if not isinstance(named, Mapping):
        raise InputError(f"{option}={value!r} must be {WORDS}, such as {{class: {{left: 1, right: -1}}}}.")
    terms: dict[tuple[str, str], Any] = {}
    for name, number in named.items():
        if name not in NAMES:
            meant = did_you_mean(str(name), NAMES)
            raise InputError(f"Unknown scatter {name!r} in {option}; there are {', '.join(NAMES)}.{meant}")
        each: Any = {"": number} if name != "class" else number if isinstance(number, Mapping) else {number: 1}
        terms.update({(name, str(label)): coefficient for label, coefficient in each.items()})
    sound = (isinstance(each, numbers.Real) and not isinstance(each, bool) for each in terms.values())
    if not all(sound) or not np.isfinite(sum(terms.values())) or not any(terms.values()):
        raise InputError(f"{option}={value!r} must have numbers as coefficients, not all zero.")
    return terms


def scatter_of(option: str, value: Any, statistics: Statistics) -> tuple[NDArray[np.float64], float, int]:
    """Return a sum of covariances in working coordinates, the scale of its rounding errors, and its largest rank.

    They are divided by rows: total = within + between, and classes count alike. Raises InputError for a class that has
    no rows, or whose scatter is pooled with those of others.
    """
    moments, size, terms = statistics.moments, statistics.moments.total, terms_of(option, value)
    n_classes = 1 if all(name == "total" for name, _ in terms) else len(at_least_two(moments.counts))
    means, identity = moments.deviations * np.sqrt(moments.counts / size)[:, None], np.eye(len(moments.counts))
    weights, outside, error, rank = np.zeros(len(identity)), 0.0, 0.0, 0
    largest = {"total": full_rank(moments), "within": moments.n_rows - n_classes, "between": n_classes - 1}
    for (name, label), coefficient in terms.items():
        among, between, count = np.full(len(identity), float(name != "between")), name != "within", size
        if name == "class":
            at = position_of(label, moments.classes, moments.counts, moments.pooled)
            among, between, count = identity[at], False, float(moments.counts[at])
        trace = max(moments.trace(among / count) + between * float(np.sum(means**2)), 0.0)
        of_products = statistics.unit * (trace + statistics.subtracted / count)  # as ``epsilon`` has it
        error += abs(coefficient) * max(of_products, statistics.means_error * np.sqrt(trace))
        weights += coefficient * among / count
        outside += coefficient * between
        rank += int(moments.sizes[at]) - 1 if name == "class" else largest[name]
    return moments.scatter(weights) + outside * means.T @ means, error, min(rank, full_rank(moments))


def position_of(label: str, classes: NDArray, counts: NDArray, pooled: bool) -> int:
    """Return where a class is; raise InputError where it has no rows, or the scatters of classes are pooled."""
    names = {str(name): at for at, name in enumerate(classes.tolist()) if counts[at] > 0}
    if label not in names:
        raise InputError(f"There is no class {label!r} with rows.{did_you_mean(label, list(names))}")
    if pooled:
        raise InputError(
            f"The scatter of class {label!r} alone is not known: those of {len(classes)} classes are too large to keep "
            "each. Choose fewer columns or classes."
        )
    return names[label]
