"""Locate the data set of a configuration: an address, or a file in a data folder, downloaded if need be."""

from __future__ import annotations

import logging
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dask.utils import format_bytes, parse_bytes
from numpy.typing import NDArray

from mmpca_dist.configuration.sections import DatasetConfig
from mmpca_dist.errors import AccessError, InputError, MmpcaError
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import failures, storage
from mmpca_dist.tables.memory_limits import refuse_larger

VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+))")
"""An environment variable at the beginning of a folder."""
KNOWN_VARIABLE = re.compile(r"MMPCA_\w+|HOME")
"""A configuration may come from a stranger, and other variables hold what is none of its business."""
FETCHED = (".npz", ".npy", ".parquet", ".pq")
"""Only files that nothing runs or reads as settings are fetched, for the folder is the configuration's choice."""
OPENML = re.compile(r"openml:(?P<number>[0-9]+)(?P<scaled>\?scale=libsvm)?")
LIMIT = "MMPCA_DOWNLOAD_LIMIT"
"""The environment variable that says how large a file on the web may be."""


def located(section: DatasetConfig, fetch: bool = True) -> str:
    """Return the address of a data set; with ``fetch``, download it first where it is absent.

    Raises InputError where the folder is not known, or the file is not in it; AccessError where a download fails.
    """
    if section.data_dir is None or ":" in section.uri or Path(section.uri).is_absolute():  # an address, or a name
        return section.uri
    _refuse_outside(section.uri)
    uri = storage.join(_expanded(section.data_dir), section.uri)
    if storage.exists(uri):
        return uri
    absent = f"There is no {section.uri} in {section.data_dir}, the folder of dataset.data_dir."
    if section.download is None:
        raise InputError(f"{absent} Put it there, or name another folder (--set dataset.data_dir=DIR).")
    if not fetch:
        raise InputError(f"{absent} A run fetches it from {section.download}; a plan does not. Put it there first.")
    _fetch(section.download, uri, section.download_hash)
    return uri


@contextmanager
def variables_named(section: DatasetConfig) -> Iterator[None]:
    """Let errors name the variable of ``data_dir``, and never show its value."""
    try:
        yield
    except MmpcaError as error:
        folder = section.data_dir or ""
        value = _value(folder)
        if value in ("", "/") or value not in str(error):
            raise
        raise type(error)(str(error).replace(value, folder)) from None


def _value(folder: str) -> str:
    """Return what errors may show for a folder that begins with a variable, or nothing."""
    name, rest = _variable(folder)
    path = os.environ.get(name, "") + rest if name else ""
    try:
        return storage.normalize(path) if path else ""
    except InputError:  # which is the error at hand
        return path


def _variable(folder: str) -> tuple[str, str]:
    """Return the name of the variable that a folder begins with, or an empty string, and the rest."""
    variable = VARIABLE.match(folder)
    return (variable["braced"] or variable["plain"], folder[variable.end() :]) if variable else ("", folder)


def _refuse_outside(uri: str) -> None:
    if ".." in re.split(r"[/\\]", unquote(uri)):
        raise InputError(f"dataset.uri is {uri}, which leaves the folder of dataset.data_dir. Name a file within it.")


def _expanded(folder: str) -> str:
    name, rest = _variable(folder)
    if not name:
        return storage.normalize(folder)
    if not KNOWN_VARIABLE.fullmatch(name):
        raise InputError(
            f"dataset.data_dir is {folder}, and of environment variables only HOME and those that begin with MMPCA_ "
            "stand for folders. Rename it, or give the folder itself (--set dataset.data_dir=DIR)."
        )
    if not os.environ.get(name):
        raise InputError(
            f"dataset.data_dir is {folder}, and the environment variable {name} is not set. Set it to the folder of "
            "the data sets, or give the folder itself (--set dataset.data_dir=DIR)."
        )
    return storage.normalize(os.environ[name] + rest)


def _fetch(source: str, uri: str, known_hash: str | None) -> None:
    if not uri.endswith(FETCHED):
        raise InputError(
            f"dataset.uri is {uri.rpartition('/')[2]}, and what is fetched from {source} must be called "
            f"{' or '.join('*' + suffix for suffix in FETCHED)}. Rename it."
        )
    if openml := OPENML.fullmatch(source):
        _fetch_openml(int(openml["number"]), uri, scaled=openml["scaled"] is not None)
    else:
        _download(source, uri, known_hash)


def _unfetched(uri: str, what: str, error: Exception, host: str) -> AccessError:
    cause = error
    while cause.__context__ is not None:  # libraries wrap the cause of a failed connection several times
        cause = cause.__context__  # type: ignore[assignment]
    reason = " ".join(f"{type(error).__name__}: {cause}".split()).rstrip(".")
    return AccessError(
        f"{Path(uri).name} is not in {uri.rpartition('/')[0]}, and {what} could not be fetched ({reason}). Put the "
        f"file there by hand, or try again with a connection to {host}."
    )


def _download(address: str, uri: str, known_hash: str | None) -> None:
    """Download a file; raise AccessError where that fails, InputError where it is too large or has another hash."""
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.WARNING)  # else it prints
    folder, _, name = uri.rpartition("/")
    piece_bytes = LIMITS.download_piece_bytes
    downloader = pooch.HTTPDownloader(_SizeLimit(address), piece_bytes, timeout=failures.timeout())
    with ExitStack() as stack, storage.explained(uri, "write"):
        if not storage.is_local(uri):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        try:
            path = Path(pooch.retrieve(address, known_hash, name, folder, downloader=downloader))
        except MmpcaError:  # of the size limit; a ValueError, too
            raise
        except (requests.RequestException, ValueError) as error:
            if known_hash is None or isinstance(error, requests.RequestException):
                raise _unfetched(uri, f"the file {address}", error, urlsplit(address).netloc) from error
            raise InputError(f"The file {address} is not the one of dataset.download_hash: {error}") from error
        if not storage.is_local(uri):
            file = stack.enter_context(path.open("rb"))
            storage.write_pieces(uri, iter(partial(file.read, piece_bytes), b""))


class _SizeLimit:
    """Stops a download that is too large; pooch calls it as a progress bar."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.total = self._done = 0
        try:
            self._limit = int(parse_bytes(os.environ.get(LIMIT, "16GiB")))
        except ValueError as error:
            raise InputError(f"The environment variable {LIMIT} is no size. Write it like 100GiB.") from error

    def update(self, n_bytes: int) -> None:
        self._done += n_bytes
        if max(self.total, self._done - LIMITS.download_piece_bytes) > self._limit:
            raise InputError(
                f"The file {self._address} is larger than {format_bytes(self._limit)}, and is not fetched. Put it into "
                f"the folder by hand, or set {LIMIT} to what may be fetched, such as 100GiB."
            )

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Nothing is open."""


def _fetch_openml(number: int, uri: str, scaled: bool) -> None:
    """Write a data set of OpenML as Parquet: columns f0, f1, ... and label."""
    from sklearn.datasets import fetch_openml

    what = f"OpenML's data set {number}"
    try:
        with warnings.catch_warnings(action="ignore"):  # of further attempts: the last one's error says enough
            table = fetch_openml(data_id=number, as_frame=True, parser="liac-arff", cache=False)
    except Exception as error:  # of the network, or of OpenML
        raise _unfetched(uri, what, error, "www.openml.org") from error
    columns = []
    for name in table.data:
        column = table.data[name]
        if column.dtype.kind in "fiub":
            columns.append(column.to_numpy(np.float64))
        else:
            values = column.astype(str).to_numpy()
            distinct = np.unique(values)
            refuse_larger(8 * len(values) * (len(columns) + len(distinct)), f"{what}, as indicators,")
            columns += [(values == value).astype(np.int8) for value in distinct]
    if scaled:
        columns = [_between_minus_one_and_one(column) for column in columns]
    arrays = {f"f{i}": pa.array(column) for i, column in enumerate(columns)}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({**arrays, "label": table.target.astype(str).to_list()}), sink)
    storage.write_bytes(uri, sink.getvalue().to_pybytes())


def _between_minus_one_and_one(column: NDArray) -> NDArray[np.float64]:
    """Return a column as LIBSVM's collection of data sets has it: from -1 to 1, and 0 where it is constant."""
    low, high = float(column.min()), float(column.max())
    return np.zeros(len(column)) if low == high else 2 * (column - low) / (high - low) - 1
