"""Classifiers by import name: classes of scikit-learn, and of packages that the machine allows."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import has_fit_parameter

from mmpca_dist.errors import InputError, did_you_mean, instead_of
from mmpca_dist.predictors.liblinear import fit_alone, unconverged
from mmpca_dist.predictors.specification import Classifier, Training, check_names

ALLOWED = "MMPCA_CLASSIFIERS"
PUBLIC = re.compile(r"(?!.*\.(tests|conftest|externals)(\.|$))[A-Za-z]\w*(\.[A-Za-z]\w*)*")
"""Modules that are meant to be imported: importing private modules and tests may run code of theirs."""


def classifier_class(name: str) -> type:
    """Return the class of an import name such as ``sklearn.neighbors.KNeighborsClassifier``.

    A configuration may come from a stranger. It can import only public modules, of scikit-learn and of the packages
    that the environment variable ``MMPCA_CLASSIFIERS`` names, and call only classes of classifiers. Raises InputError
    for other packages, names that do not exist, and names of anything but a class of classifiers.
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
    absent = f"The classifier {name!r} cannot be imported here ({{reason}}). Correct the name."
    with instead_of(ImportError, InputError, absent):
        holder = importlib.import_module(module)
    kind = getattr(holder, attribute, None)
    if not (inspect.isclass(kind) and issubclass(kind, BaseEstimator) and issubclass(kind, ClassifierMixin)):
        classes = {key: value for key, value in vars(holder).items() if inspect.isclass(value)}
        classifiers = [key for key, value in classes.items() if issubclass(value, ClassifierMixin)]
        raise InputError(
            f"{name!r} is no class of classifiers after scikit-learn's conventions."
            f"{did_you_mean(attribute, classifiers)}"
        )
    return kind


def described(classifier: Any) -> Any:
    """Return a scikit-learn classifier, or its class, by import name with its options; anything else as it is."""
    kind = classifier if inspect.isclass(classifier) else type(classifier)
    if not issubclass(kind, BaseEstimator):
        return classifier
    module = ".".join(part for part in kind.__module__.split(".") if not part.startswith("_"))
    section: dict[str, Any] = {"name": f"{module}.{kind.__name__}"}
    if kind is classifier:
        return section
    defaults = {name: one.default for name, one in inspect.signature(kind).parameters.items()}
    options = {key: value for key, value in classifier.get_params(deep=False).items() if value is not defaults.get(key)}
    for name, value in options.items():
        if not isinstance(value, str | bool | int | float | dict | list | tuple | None):
            raise InputError(f"{name} of {section['name']} is a {type(value).__name__}: options are text and numbers.")
    if isinstance(options.get("C"), int | float):
        section["C"] = options.pop("C")
    return {**section, "options": options}


def make_classifier(name: str, settings: dict[str, Any]) -> Any:
    """Return a classifier of this import name, with a fixed ``random_state`` where it takes one.

    Raises InputError as ``classifier_class``, and for settings that the class does not have.
    """
    kind = classifier_class(name)
    parameters: list[str] = kind._get_param_names()  # type: ignore[attr-defined]
    check_names(settings, parameters, name)
    fixed = {"random_state": 0} if "random_state" in parameters else {}
    with instead_of((TypeError, ValueError), InputError, f"{name} does not start with these options: {{reason}}."):
        return kind(**{**fixed, **settings})


def imported_classifier(name: str) -> Classifier:
    """Return the specification of a class by its import name; raise as ``classifier_class``."""
    return Classifier(
        name,
        "a class after scikit-learn's conventions",
        fit=lambda rows: _fit(name, rows),
        check_options=lambda options: _check_options(name, options),
        takes_weights=has_fit_parameter(classifier_class(name), "sample_weight"),
        has_C="C" in classifier_class(name)._get_param_names(),  # type: ignore[attr-defined]
    )


def _check_options(name: str, options: dict[str, Any]) -> None:
    if "C" in options:
        raise InputError(f"C of {name} is a setting of its own, not an option: write C: 1, not options: {{C: 1}}.")
    make_classifier(name, options)


def _fit(name: str, rows: Training) -> tuple[Any, int]:
    model = make_classifier(name, {**rows.options, **({} if rows.C is None else {"C": rows.C})})
    fit_alone(model, rows)
    return model, unconverged(model)
