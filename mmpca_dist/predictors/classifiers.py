"""Classifiers by name, as a configuration lists them: from moments with no further pass, or from reduced rows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.predictors import liblinear, out_of_core
from mmpca_dist.predictors.gaussian import check_settings, naive_bayes, quadratic_discriminant
from mmpca_dist.predictors.imported import check_known, classifier_class, make_classifier, parameters_of
from mmpca_dist.predictors.linear import check_threshold, check_tolerance, fisher_linear, linear_discriminant
from mmpca_dist.predictors.reduced import ReducedMoments
from mmpca_dist.predictors.rules import Rule

RULES: dict[str, Callable[..., Rule]] = {
    "fisher": fisher_linear,
    "lda": linear_discriminant,
    "qda": quadratic_discriminant,
    "naive-bayes": naive_bayes,
}
"""From moments."""

CLASSIFIERS = {
    "fisher": "nearest class mean in the metric of the scatter within classes (Fisher's linear discriminant); option "
    "threshold (midway, or log-odds of two classes)",
    "lda": "Gaussian classes with one covariance (linear discriminant analysis); options tol",
    "qda": "Gaussian classes with a covariance each (quadratic discriminant analysis); options reg_param and ddof",
    "naive-bayes": "Gaussian classes with independent columns; options var_smoothing and ddof",
    "svm": "LIBLINEAR's support vector machine, L2-regularised L2-loss; takes C (auto, nested, or a number; 1 by "
    "default) and bias",
    "logistic": "LIBLINEAR's L2-regularised logistic regression; takes C (auto, nested, or a number; 1 by default) and "
    "bias",
    "incremental": "dask-ml's Incremental: one pass of partial_fit over rows that do not fit in memory",
    "dask-logistic": "dask-ml's logistic regression of rows that do not fit in memory; takes C and bias",
}
"""What each does; any other classifier goes by its import name, such as sklearn.neighbors.KNeighborsClassifier."""

WITH_BIAS = ("svm", "logistic", "dask-logistic")
WITH_C = WITH_BIAS
LINEAR = WITH_BIAS
"""Of those that are fitted to rows."""
OUT_OF_CORE = ("incremental", "dask-logistic")
DEFAULT_C = 1.0
"""LIBLINEAR's."""


class ClassifierSection(BaseModel):
    """A classifier of an evaluation: its name alone, or a mapping like {name: svm, C: auto, label: SVM}."""

    model_config = ConfigDict(extra="forbid", frozen=True, field_title_generator=lambda name, _: name)

    name: str = Field(
        examples=["svm"],
        description="One of those that `mmpca classifiers` lists, or the import name of a class of classifiers after "
        "scikit-learn's conventions",
    )
    C: float | Literal["auto", "nested"] | None = Field(
        None,
        examples=["auto"],
        description="Penalty on errors; auto chooses it once by cross-validation on all rows, those held out included, "
        "so that errors may be too low; nested chooses it from the rows that train alone, for each method, size and "
        "split, with up to 31 fits in place of one; by default it is 1 for svm and the like, and for classes by import "
        "name their own default",
    )
    bias: bool = Field(
        False,
        examples=[True],
        description="Whether linear classifiers have a constant term: of svm and logistic, LIBLINEAR's column of ones, "
        "whose coefficient is penalised as the others are",
    )
    options: dict[str, Any] = Field(
        {},
        examples=[{"class_weight": "balanced"}],
        description="Further settings, by the names that the rules here and scikit-learn give them",
    )
    label: str = Field("", examples=["SVM"], description="What tables call it; by default its name")

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        given = {"name": value} if isinstance(value, str) else value
        if not isinstance(given, dict) or not isinstance(given.get("name"), str):
            raise InputError(f"a classifier is a name, or a mapping like {{name: svm, C: 1}} (found {value!r}).")
        name, known = given["name"], list(cls.model_fields)
        unknown = next((key for key in given if key not in known), None)
        if unknown is not None:
            hint = did_you_mean(str(unknown), known) or f" There are {', '.join(known)}."
            raise InputError(f"{name} has no key {unknown!r}.{hint}")
        C, bias, options, label = (given.get(key) for key in known[1:])
        if not isinstance(bias, bool | None):
            raise InputError(f"bias of {name} must be true or false (found {bias!r}).")
        if not isinstance(options, dict | None) or not all(isinstance(key, str) for key in options or {}):
            raise InputError(f"options of {name} must be keys and values (found {options!r}).")
        if not isinstance(label, str | None):
            raise InputError(f"label of {name} must be text (found {label!r}).")
        return {
            "name": name,
            "C": _penalty(name, C),
            "bias": bool(bias),
            "options": options or {},
            "label": label or (name if name in CLASSIFIERS else name.rpartition(".")[2]),
        }

    @model_validator(mode="after")
    def _known(self) -> ClassifierSection:
        check_classifier(self)
        return self


ClassifierSpec = ClassifierSection
"""What a configuration says of a classifier is what the functions here take."""


class _OrName:
    """Says in schemas that a name alone is valid too."""

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(core_schema)]}


ClassifierSetting = Annotated[ClassifierSection, _OrName()]
"""A classifier as a form or file may give it."""


def _penalty(name: str, C: Any) -> Any:
    if C is None or C in ("auto", "nested"):
        return C
    try:
        value = float(C)  # YAML reads 1e-3 as text
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(C, bool) or not 0 < value < math.inf:
        raise InputError(f"C of {name} must be a positive number, auto or nested (found {C!r}).")
    return value


def check_classifier(spec: ClassifierSection) -> None:
    """Refuse a name that is none, and settings that the classifier does not take.

    Raises
    ------
    InputError
        In one sentence.
    """
    name = spec.name
    if name not in CLASSIFIERS and not _is_import_name(name):
        raise InputError(
            f"unknown classifier {name!r}; there are {', '.join(CLASSIFIERS)}, and import names like "
            f"sklearn.neighbors.KNeighborsClassifier.{did_you_mean(name, CLASSIFIERS)}"
        )
    if spec.bias and name not in WITH_BIAS:
        raise InputError(f"bias is a setting of {', '.join(WITH_BIAS)}, and {name} has none.")
    if spec.C is not None and name not in WITH_C and (name in CLASSIFIERS or "C" not in _parameters(name)):
        raise InputError(f"C is a setting of {', '.join(WITH_C)} and of classes that take it; {name} has none.")
    if spec.C == "nested" and name in OUT_OF_CORE:
        raise InputError(f"C: nested fits {name} to rows in memory, and it learns block by block: give C as a number.")
    _check_options(spec)


def _check_options(spec: ClassifierSection) -> None:
    name, options = spec.name, spec.options
    if name in RULES:
        check_known(options, list(inspect.signature(RULES[name]).parameters)[1:], name)
        for option, value in options.items():
            if option == "threshold":
                check_threshold(value)
            elif isinstance(value, bool) or not isinstance(value, int | float):
                raise InputError(f"The option {option} of {name} must be a number (found {value!r}).")
            elif option == "tol":
                check_tolerance(value)
            else:
                check_settings({option: value})
    elif name in ("svm", "logistic"):
        check_known(options, liblinear.OPTIONS, name)
    elif name == "dask-logistic":
        out_of_core.check_logistic(options)
    elif name == "incremental":
        out_of_core.make_incremental(options)
    else:
        if "C" in options:
            raise InputError(f"C of {name} is given beside its options, not among them.")
        make_classifier(name, options)


def check_classes(specs: Iterable[ClassifierSection], n_classes: int) -> None:
    """Refuse classifiers that are not for so many classes.

    Raises
    ------
    InputError
        In one sentence.
    """
    for spec in specs:
        if spec.name == "fisher" and "threshold" in spec.options:
            check_threshold(spec.options["threshold"], n_classes)


def _is_import_name(name: str) -> bool:
    return "." in name and all(part.isidentifier() for part in name.split("."))


def _parameters(name: str) -> list[str]:
    return parameters_of(classifier_class(name))


def is_from_moments(spec: ClassifierSection) -> bool:
    """Tell whether a classifier is made from moments of reduced rows, with no look at rows."""
    return spec.name in RULES


def fit_from_moments(spec: ClassifierSection, reduced: ReducedMoments) -> Rule:
    """Make a classifier from moments of reduced rows.

    Raises
    ------
    InputError
        For a classifier that is fitted to rows, and for moments that do not determine it.
    """
    if not is_from_moments(spec):
        raise InputError(f"{spec.label} is fitted to rows; from moments there are {', '.join(RULES)}.")
    return RULES[spec.name](reduced, **spec.options)
