"""``Method``: the specification of a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mmpca_dist.settings import Section
from mmpca_dist.solvers.needs import Needs

if TYPE_CHECKING:
    from mmpca_dist.methods.base import MomentReducer

FULL_RANK, BETWEEN_CLASSES = "min(d, n - 1)", "classes - 1"
FAMILIES = ("margins", "classes", "regressions", "columns", "baselines")
"""In the order in which methods are listed."""


class MethodOptions(Section):
    """The options of a method in a configuration: parameters of its estimator. This method has none."""


@dataclass(frozen=True)
class Method:
    """A method.

    Attributes
    ----------
    name : str
        In configurations.
    title : str
        In reports.
    family : str
        One of ``FAMILIES``.
    keeps, limit : str
        In words: what its components keep, and how many there are at most of n rows with d features.
    estimator : type of MomentReducer
    parameters : mapping
        Parameters that make the estimator this method.
    options : type of MethodOptions
        What a configuration may set: parameters of the estimator.
    orthonormal, ordered : bool
        Whether its components are orthonormal, and whether they are eigenvectors by decreasing eigenvalue.
    scale_free : bool
        Whether it is the same whatever the units of the columns.
    values : str
        What stands in place of eigenvalues, in words; empty for eigenvalues.
    shares : str
        What the components have a share of, in words; empty for the scatter that the method is about.
    reference : bool
        Whether other methods are compared with it by default.
    residuals : str
        What its residuals are, in words; empty for those of eigenvectors.
    """

    name: str
    title: str
    family: str
    keeps: str
    limit: str
    estimator: type[MomentReducer]
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    options: type[MethodOptions] = MethodOptions
    orthonormal: bool = True
    ordered: bool = True
    scale_free: bool = False
    values: str = ""
    shares: str = ""
    residuals: str = ""
    reference: bool = False

    def reducer(self, n_components: int | None, options: MethodOptions, **shared: Any) -> MomentReducer:
        """Return the estimator with the options of a configuration, and what all methods of it share."""
        return self.estimator(n_components=n_components, **self.parameters, **options.model_dump(), **shared)

    def needs(self, options: MethodOptions) -> Needs:
        """Return what the method needs to know of the rows."""
        return self.reducer(None, options)._needs()
