"""``Method``: the specification of a method, and the registry of all."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import create_model, model_validator

from mmpca_dist.errors import InputError
from mmpca_dist.registry import Registry
from mmpca_dist.settings import Section, setting

if TYPE_CHECKING:
    from mmpca_dist.methods.base.reducer import MomentReducer

FULL_RANK, BETWEEN_CLASSES = "min(d, n - 1)", "classes - 1"
GROUPS = ("margins", "bayesian", "classes", "regressions", "columns", "baselines")
"""In the order in which methods are listed."""


OF_COMPONENTS = (
    "choice", "projection", "outlying", "margins", "spectrum", "convergence", "components", "reconstructions",
)  # fmt: skip
"""The sections of a report on components of rows."""


@dataclass(frozen=True)
class Method:
    """A method."""

    name: str  # in configurations
    title: str  # in reports
    group: str  # one of ``GROUPS``
    keeps: str  # what its components keep, in words
    limit: str  # how many there are at most of n rows with d features, in words
    estimator: type[MomentReducer]
    # parameters that make the estimator this method
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    # parameters of the estimator that a configuration may set, described in its ``traits``
    settable: tuple[str, ...] = ()
    orthonormal: bool = True  # whether its components are
    ordered: bool = True  # whether they are eigenvectors by decreasing eigenvalue
    scale_free: bool = False  # whether it is the same whatever the units of the columns
    values: str = ""  # what stands in place of eigenvalues, in words; empty for eigenvalues
    shares: str = ""  # what the components have a share of, in words; empty for the scatter that the method is about
    residuals: str = ""  # what its residuals are, in words; empty for those of eigenvectors
    # how many blocks of K columns ``transform`` gives of n_components, n_classes and n_features
    blocks: Callable[[int, int, int], int] = lambda *_: 1
    reduces: bool = True  # whether the number of components has an effect
    # what ``inverse_transform`` returns, in words; empty for the row nearest to the mean among those projected so
    rebuilds: str = ""
    sections: tuple[str, ...] = OF_COMPONENTS  # the sections of a run's report that show it
    reference: bool = False  # whether other methods are compared with it by default

    @cached_property
    def options(self) -> type[Section]:
        """The model of what a configuration may set, made from the estimator."""

        def check(options: Section) -> Section:
            try:
                self.reducer(None, options).check_parameters()
            except InputError as error:
                raise ValueError(str(error).removesuffix(".")) from error
            return options

        settings: dict[str, Any] = {}
        parameters = inspect.signature(self.estimator, eval_str=True).parameters if self.settable else {}
        for name in self.settable:
            described = setting(parameters[name].default, **self.estimator.traits.options[name].described)
            settings[name] = (parameters[name].annotation, described)
        validators: dict[str, Any] = {"check": model_validator(mode="after")(check)}
        return create_model("MethodOptions", __base__=Section, __validators__=validators, **settings)

    def reducer(self, n_components: float | None, options: Section, **shared: Any) -> MomentReducer:
        """Return the estimator with the options of a configuration, and what all methods of it share."""
        return self.estimator(n_components=n_components, **self.parameters, **options.model_dump(), **shared)


METHODS = Registry(
    Method,
    "mmpca_dist.methods",
    "mmpca_dist.models",
    order=lambda method: (*GROUPS, method.group).index(method.group),
)


def title_of(label: str) -> str:
    """Return what reports call a method: its title, or the label that a configuration gives it."""
    return METHODS[label].title if label in METHODS else label
