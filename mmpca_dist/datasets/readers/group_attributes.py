"""Attributes of Zarr groups that ingest writes."""

from __future__ import annotations

import re

import zarr

from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError

TABLE = "mmpca-table"
"""Attribute of a group: the sub-group that holds its table."""
ARRAYS = "mmpca-arrays"
"""Attribute of a group: the names of the arrays that an ingest wrote; earlier versions have not recorded them."""
ROWS = "mmpca-rows"
"""Attribute of a group: how many rows and columns were written, and of which type; earlier versions record nothing."""
TOKEN = re.compile("[0-9a-f]{32}")


def table_place(uri: str, group: zarr.Group) -> str:
    """Return the address of the table of a group: its own, or that of the sub-group that it names.

    Raises
    ------
    InputError
        Where it names what cannot be a sub-group of an ingest.
    """
    token = group.attrs.get(TABLE)
    if token is None:
        return uri
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise InputError(f"{uri} is damaged: its attribute {TABLE!r} is {token!r}, which is no sub-group of an ingest.")
    return storage.join(uri, token)
