"""Where the data set of a configuration is: an address, or a file in a folder of data that may have to be fetched."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mmpca_dist.datasets import storage
from mmpca_dist.errors import AccessError, InputError
from mmpca_dist.runs.sections import DatasetConfig


def located(section: DatasetConfig) -> str:
    """Return the address of a data set; one that is absent and can be downloaded is fetched first.

    Raises
    ------
    InputError
        Where the folder is not known, or the file is not in it.
    AccessError
        Where a download fails.
    """
    if section.data_dir is None or ":" in section.uri or Path(section.uri).is_absolute():  # an address, or a name
        return section.uri
    folder = _expanded(section.data_dir)
    place = storage.join(folder, section.uri)
    if storage.exists(place):
        return place
    if section.download is None:
        raise InputError(
            f"There is no {section.uri} in {folder}, the folder of dataset.data_dir. Put it there, or name another "
            "folder (--set dataset.data_dir=DIR)."
        )
    _fetch(section.download, place)
    return place


def _expanded(folder: str) -> str:
    name = folder.removeprefix("$").partition("/")[0]
    if not folder.startswith("$"):
        return storage.normalize(folder)
    if not os.environ.get(name):
        raise InputError(
            f"dataset.data_dir is {folder}, and the environment variable {name} is not set. Set it to the folder of "
            "the data sets, or give the folder itself (--set dataset.data_dir=DIR)."
        )
    return storage.normalize(os.environ[name] + folder.removeprefix(f"${name}"))


def _fetch(source: str, place: str) -> None:
    """Write a data set of OpenML as Parquet: columns f0, f1, ... and label."""
    from sklearn.datasets import fetch_openml

    number = int(source.removeprefix("openml:"))
    try:
        with warnings.catch_warnings(action="ignore"):  # of further attempts: the last one's error says enough
            found = fetch_openml(data_id=number, as_frame=True, parser="liac-arff")
    except Exception as error:  # whatever the network, or OpenML, has against it
        raise AccessError(
            f"{Path(place).name} is not in {place.rpartition('/')[0]}, and OpenML's data set {number} could not be "
            f"fetched ({type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}). Put the file there by "
            "hand, or try again with a connection to www.openml.org."
        ) from error
    columns = []
    for name in found.data.columns:
        column = found.data[name]
        if column.dtype.kind in "fiub":
            columns.append(column.to_numpy(np.float64))
        else:
            values = column.astype(str).to_numpy()
            columns += [(values == value).astype(np.int8) for value in np.unique(values)]
    table = pa.table({f"f{i}": pa.array(column) for i, column in enumerate(columns)})
    table = table.append_column("label", pa.array(found.target.astype(str).to_list()))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    storage.write_bytes(place, sink.getvalue().to_pybytes())
