"""Supervised linear dimensionality reduction for labelled tables larger than memory."""

from typing import Any

import lazy_loader

__version__ = "0.1.0"

_from_stub, _names_of_stub, _public = lazy_loader.attach_stub(__name__, __file__)
__all__ = [*_public, "__version__"]


def __getattr__(name: str) -> Any:
    """Import what is asked for: names of ``__init__.pyi``, or the estimator of a method, be it of another package."""
    try:
        return _from_stub(name)
    except AttributeError:
        if not name[:1].isupper():
            raise
    from mmpca_dist.methods.registry import METHODS

    estimators = {method.estimator.__name__: method.estimator for method in METHODS.values()}
    if name not in estimators:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return estimators[name]


def __dir__() -> list[str]:
    return [*_names_of_stub(), "__version__"]
