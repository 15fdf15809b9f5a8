"""Classifiers by import name: classes of scikit-learn, and of packages that the machine allows."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin

from mmpca_dist.errors import InputError, did_you_mean

ALLOWED = "MMPCA_CLASSIFIERS"
PUBLIC = re.compile(r"(?!.*\.(tests|conftest|externals)(\.|$))[A-Za-z]\w*(\.[A-Za-z]\w*)*")
"""Modules that are meant to be imported: private ones and tests may do something as they are."""


def classifier_class(name: str) -> type:
    """Return the class of an import name such as ``sklearn.neighbors.KNeighborsClassifier``.

    A configuration may come from a stranger. Nothing is imported for it but scikit-learn's public modules and those of
    packages that the environment variable ``MMPCA_CLASSIFIERS`` names, and nothing is called but a classifier's class.

    Raises
    ------
    InputError
        For another package, a name that does not exist, and what is no class of classifiers.
    """
    module, _, attribute = name.rpartition(".")
    package = module.partition(".")[0]
    allowed = {"sklearn", *os.environ.get(ALLOWED, "").replace(" ", "").split(",")}
    if not package or package not in allowed:
        raise InputError(
            f"The classifier {name!r} is of {package!r}, and a configuration may name classes of scikit-learn only. If "
            f"others are to be allowed, set {ALLOWED}={package} in the environment."
        )
    if not PUBLIC.fullmatch(module):
        raise InputError(f"The classifier {name!r} is of no public module. Name it as its documentation imports it.")
    try:
        holder = importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"The classifier {name!r} cannot be imported here ({error}). Correct the name.") from error
    found = getattr(holder, attribute, None)
    if not (inspect.isclass(found) and issubclass(found, BaseEstimator) and issubclass(found, ClassifierMixin)):
        raise InputError(
            f"{name!r} is no class of classifiers after scikit-learn's conventions."
            f"{did_you_mean(attribute, _classifiers_in(holder))}"
        )
    return found


def make_classifier(name: str, settings: dict[str, Any]) -> Any:
    """Return a classifier of this import name, with a fixed ``random_state`` where it takes one.

    Raises
    ------
    InputError
        As ``classifier_class``, and for settings that it does not know.
    """
    kind = classifier_class(name)
    known = parameters_of(kind)
    check_known(settings, known, name)
    fixed = {"random_state": 0} if "random_state" in known else {}
    try:
        return kind(**{**fixed, **settings})
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} does not start with these options: {' '.join(str(error).split())}.") from error


def parameters_of(kind: type) -> list[str]:
    """Return the names of the settings that a class of estimators takes."""
    return sorted(kind._get_param_names())  # type: ignore[attr-defined]


def check_known(options: dict[str, Any], known: list[str], name: str) -> None:
    """Refuse options of other names.

    Raises
    ------
    InputError
        For the first one that is not known.
    """
    unknown = next((option for option in options if option not in known), None)
    if unknown is not None:
        hint = did_you_mean(str(unknown), known) or f" There are {', '.join(known) or 'none'}."
        raise InputError(f"{name} has no option {unknown!r}.{hint}")


def _classifiers_in(module: Any) -> list[str]:
    return [
        name for name, value in vars(module).items() if inspect.isclass(value) and issubclass(value, ClassifierMixin)
    ]
