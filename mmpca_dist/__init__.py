"""Supervised linear dimensionality reduction for labelled tables larger than memory."""

from importlib.metadata import version

import lazy_loader

__version__ = version("mmpca-dist")

__getattr__, _, _public = lazy_loader.attach_stub(__name__, __file__)
__all__ = [*_public, "__version__"]


def __dir__() -> list[str]:
    return __all__
