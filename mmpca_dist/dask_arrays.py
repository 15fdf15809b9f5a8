"""The names of ``dask.array``, which is imported where it is first used: that takes half a second."""

from typing import Any


def __getattr__(name: str) -> Any:
    import dask.array

    return getattr(dask.array, name)
