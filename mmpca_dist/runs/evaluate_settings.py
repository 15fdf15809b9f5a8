"""The keywords of ``evaluate`` for rows in memory, which editors complete and type checkers know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

Named = str | Mapping[str, Any]
"""A name, or a mapping with the name and options."""


class EvaluateSettings(TypedDict, total=False):
    """Keys of a configuration, of its section ``dataset`` and of its section ``evaluation``; docs/settings.md."""

    methods: Named | Sequence[Named]
    n_components: float | Sequence[float] | Literal["auto"]
    standardize: bool | None
    precision: Literal["single", "double"]
    class_weight: Literal["balanced"] | Mapping[Any, float] | None
    solver: Mapping[str, Any]
    compute: Mapping[str, Any]
    report: Mapping[str, Any]

    features: str | None
    label: str | None
    target: Any
    drop: str | Sequence[str]
    columns: str | Sequence[str | int] | None
    missing: Literal["refuse", "mean"]
    missing_values: str | Sequence[str]
    decimal: Literal[".", ","] | None
    unlabelled: Literal["refuse", "skip"]
    unlabelled_value: int | str | None
    covariates: str | Sequence[str]
    weight: str | None
    balance: str | None
    image_shape: tuple[int, int] | None
    maps: Named | Sequence[Named]

    cv: Any
    """A number of folds, a splitter of scikit-learn, or pairs of row numbers."""
    groups: Any
    """The group of each row, where a splitter needs it."""
    splits: Any
    count: int
    train: str | float | None
    folds: int
    column: str | None
    windows: int | None
    boundary: str | int | float | None
    held_out: bool | str | int | None
    seed: int
    classifiers: Any
    reference: str | None
    margins: bool
    intervals: bool
    published: str | None
