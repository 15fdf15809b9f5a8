"""Classifiers in configurations: a name, or a mapping with settings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.predictors.by_import_name import described, imported_classifier
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.predictors.specification import CLASSIFIERS, Classifier, Rule, check_names


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
        examples=[False],
        description="Whether linear classifiers have a constant term; by default those that can: of svm and logistic, "
        "LIBLINEAR's column of ones, whose coefficient is penalised as the others are",
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
        section = {"name": value} if isinstance(value, str) else described(value)
        if not isinstance(section, dict) or not isinstance(section.get("name"), str):
            raise InputError(f"a classifier is a name, or a mapping like {{name: svm, C: 1}} (found {value!r}).")
        name = section["name"]
        check_names(section, list(cls.model_fields), name, "key")
        present = {key: value for key, value in section.items() if value is not None}
        label = present.get("label") or (name if name in CLASSIFIERS else name.rpartition(".")[2])
        bias = name in CLASSIFIERS and CLASSIFIERS[name].has_bias
        return {"bias": bias, **present, "C": _penalty(name, section.get("C")), "label": label}

    @model_validator(mode="after")
    def _valid(self) -> ClassifierSection:
        """Refuse a name that is none, and settings that the classifier does not have."""
        name = self.name
        if name not in CLASSIFIERS and not _is_import_name(name):
            raise InputError(
                f"unknown classifier {name!r}; there are {', '.join(CLASSIFIERS)}, and import names like "
                f"sklearn.neighbors.KNeighborsClassifier.{did_you_mean(name, CLASSIFIERS)}"
            )
        classifier, all_classifiers = self.classifier, CLASSIFIERS.values()
        if self.bias and not classifier.has_bias:
            with_bias = ", ".join(entry.name for entry in all_classifiers if entry.has_bias)
            raise InputError(f"bias is a setting of {with_bias}, and {name} has none.")
        if self.C is not None and not classifier.has_C:
            with_C = ", ".join(entry.name for entry in all_classifiers if entry.has_C)
            raise InputError(f"C is a setting of {with_C} and of classes that take it; {name} has none.")
        if self.C == "nested" and classifier.out_of_core:
            raise InputError(
                f"C: nested fits {name} to rows in memory, and it learns block by block: give C as a number."
            )
        classifier.check_options(self.options)
        return self

    @property
    def classifier(self) -> Classifier:
        """The specification of the classifier."""
        return CLASSIFIERS[self.name] if self.name in CLASSIFIERS else imported_classifier(self.name)


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


def check_classes(specs: Iterable[ClassifierSection], n_classes: int) -> None:
    """Raise `InputError` for the first classifier that is not for so many classes."""
    for spec in specs:
        spec.classifier.check_classes(spec.options, n_classes)


def refuse_weights(specs: Iterable[ClassifierSection]) -> None:
    """Raise `InputError` for the first classifier that takes no weights of rows."""
    for spec in specs:
        if not spec.classifier.takes_weights:
            raise InputError(f"{spec.label} takes no weights of rows: choose another classifier, or repeat the rows.")


def _is_import_name(name: str) -> bool:
    return "." in name and all(part.isidentifier() for part in name.split("."))


def is_from_moments(spec: ClassifierSection) -> bool:
    """Tell whether a classifier is made from moments of reduced rows alone."""
    return spec.name in CLASSIFIERS and CLASSIFIERS[spec.name].rule is not None


def fit_from_moments(spec: ClassifierSection, reduced: ReducedMoments) -> Rule:
    """Make a classifier from moments of reduced rows; raise InputError for moments that do not determine it."""
    if len(reduced.counts) < 2:
        raise InputError(f"A classifier needs rows of at least two classes; {len(reduced.counts)} has any.")
    rule = spec.classifier.rule
    assert rule is not None  # noqa: S101  (others are fitted to rows)
    return rule(reduced, **spec.options)
