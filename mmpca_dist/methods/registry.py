"""The registry of methods."""

from __future__ import annotations

from mmpca_dist.methods.specification import FAMILIES, Method
from mmpca_dist.registry import Registry

METHODS = Registry(Method, "mmpca_dist.methods", order=lambda method: (*FAMILIES, method.family).index(method.family))


def title_of(label: str) -> str:
    """Return what reports call a method: its title, or the label that a configuration gives it."""
    return METHODS[label].title if label in METHODS else label
