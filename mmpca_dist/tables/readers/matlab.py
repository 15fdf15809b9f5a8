"""Rows in ``.mat`` files of MATLAB (versions 4 to 7), which each process loads whole."""

from __future__ import annotations

import functools
import math
import uuid
import zlib
from typing import Any

import numpy as np
import scipy.io
from scipy.io.matlab import MatReadError

from mmpca_dist.errors import InputError, MmpcaError, did_you_mean
from mmpca_dist.stores import storage
from mmpca_dist.tables.labels import check_label_type
from mmpca_dist.tables.memory_limits import refuse_larger
from mmpca_dist.tables.proxies import LoadedRows
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.memory import ArrayDataset, SparseArray, rows_in_memory

NUMBERS = (
    "double", "single", "logical", "sparse", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)  # fmt: skip
"""Classes of MATLAB's variables that are arrays of numbers."""


class MatlabDataset(LoadedRows):
    """A ``.mat`` file: a matrix of rows, dense or sparse, and a vector of labels."""

    features: str

    def __init__(self, request: Request) -> None:
        self._address, self.features, self._label = request.uri, request.features or "X", request.label or "y"
        self._label_required, self._token = request.label_required, uuid.uuid4().hex
        self._skips_unlabelled = request.unlabelled == "skip"
        super().__init__(self._rows, resident_bytes=2 * self._rows.n_bytes)

    @property
    def _rows(self) -> ArrayDataset | SparseArray:  # type: ignore[override]
        rows = _load(self._address, self.features, self._label, self._label_required, self._token)
        rows.skips_unlabelled = self._skips_unlabelled
        return rows

    @property
    def addresses(self) -> list[str]:
        return [self.uri]

    def fingerprint(self) -> str:
        return storage.digest("mat", storage.list_objects(self.uri), self.features, self._label)


@functools.lru_cache(maxsize=2)
def _load(uri: str, features: str, label: str, label_required: bool, token: str) -> ArrayDataset | SparseArray:
    """Load a file, once for each ``token``."""
    storage.require(uri)
    with storage.reached(uri) as (fs, path), fs.open(path, "rb") as file:
        try:
            names = _members(scipy.io.whosmat(file), features, label, label_required, uri)
            file.seek(0)
            arrays = scipy.io.loadmat(file, variable_names=names)
        except NotImplementedError as error:
            raise InputError(f"{uri} is of MATLAB 7.3. Save it again with: save('-v7', ...).") from error
        except (OSError, EOFError, ValueError, LookupError, TypeError, zlib.error, MatReadError) as error:
            if isinstance(error, MmpcaError) or getattr(error, "errno", None):
                raise  # the file is out of reach, not damaged
            raise InputError(f"{uri} is not a readable .mat file: {error}.") from error
    y = None
    if label in names:
        y = np.asarray(arrays[label]).reshape(-1)
        check_label_type(y.dtype, y.size, f"{label!r} of {uri}")
    return rows_in_memory(arrays[features], y, uri)


def _members(held: list[Any], features: str, label: str, label_required: bool, uri: str) -> list[str]:
    """Return the names of the rows and, where there are any, the labels; refuse what is no number or too large."""
    shapes = {name: (shape, kind) for name, shape, kind in held}
    wanted = [features, label] if label_required or label in shapes else [features]
    total = 0
    for name in wanted:
        if name not in shapes:
            meant = did_you_mean(name, shapes)
            raise InputError(f"{uri} has no variable {name!r}; it holds {', '.join(sorted(shapes))}.{meant}")
        shape, kind = shapes[name]
        if kind not in NUMBERS:
            raise InputError(f"The variable {name!r} of {uri} is a {kind}; it must be a matrix of numbers.")
        if kind != "sparse":
            total += 8 * math.prod(shape)
    refuse_larger(total, uri, "Save it as .npy files, which are read piece by piece")
    return wanted


FORMAT = Format("mat", "a MATLAB file", MatlabDataset, suffixes=(".mat",))
