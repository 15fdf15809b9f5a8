"""Ingests by keywords; a table in every format that they take, and what comes of it."""

import bz2
import gzip
import os
from unittest import mock

import numpy as np
from sklearn.datasets import dump_svmlight_file

from helpers.tables import write_parquet, write_zarr
from mmpca_dist.configuration.parsing import parse_model
from mmpca_dist.ingest import job
from mmpca_dist.ingest.options import IngestConfig
from mmpca_dist.limits import LIMITS

NAMES = ["red", "green", "blue", "infra red"]


RNG = np.random.default_rng(7)
X, Y = RNG.standard_normal((257, 4)).astype(np.float32), RNG.integers(-1, 3, 257)


def write_csv(path, X, y, *, names=NAMES, delimiter=",", label="label", opener=open, label_at=-1):
    at = label_at % (X.shape[1] + 1)
    with opener(path, "wt", encoding="utf-8") as file:
        if names is not None:
            file.write(delimiter.join([*names[:at], label, *names[at:]]) + "\n")
        for row, value in zip(X, y, strict=True):
            cells = [f"{cell:.9g}" for cell in row]
            file.write(delimiter.join([*cells[:at], str(value), *cells[at:]]) + "\n")
    return path


def write_all(folder, X=X, y=Y):
    """Write the table in every format; return (source, options of ingest) by name."""
    found = {
        "csv": (write_csv(folder / "a.csv", X, y), {}),
        "csv without names": (write_csv(folder / "b.csv", X, y, names=None), {}),
        "csv.gz": (write_csv(folder / "c.csv.gz", X, y, opener=gzip.open), {}),
        "csv, label first": (write_csv(folder / "d.csv", X, y, label="kind", label_at=0), {"label": "kind"}),
        "csv, label by number": (write_csv(folder / "e.csv", X, y, names=None, label_at=1), {"label": "1"}),
        "tsv": (write_csv(folder / "f.tsv", X, y, delimiter="\t"), {}),
        "semicolons": (write_csv(folder / "g.csv", X, y, delimiter=";"), {}),
    }
    for name, opener in (("h.libsvm", open), ("i.svm.bz2", bz2.open)):
        with opener(folder / name, "wb") as file:
            dump_svmlight_file(X, y, file, zero_based=False)
        found[name.split(".", 1)[1]] = (folder / name, {})
    np.save(folder / "rows.npy", X)
    np.save(folder / "labels.npy", y)
    found["npy"] = (folder / "rows.npy", {"label": str(folder / "labels.npy")})
    np.savez(folder / "a.npz", X=X, y=y)
    np.savez_compressed(folder / "b.npz", rows=X, kind=y)
    found["npz"] = (folder / "a.npz", {})
    found["npz, compressed"] = (folder / "b.npz", {"features": "rows", "label": "kind"})
    write_parquet(folder / "a.parquet", X, y, NAMES, size=100)
    found["parquet"] = (folder / "a.parquet", {})
    write_zarr(folder / "a.zarr", X, y, 50, columns=2)
    found["zarr"] = (folder / "a.zarr", {})
    return found


FORMATS = [
    "csv", "csv without names", "csv.gz", "csv, label first", "csv, label by number", "tsv", "semicolons",
    "libsvm", "svm.bz2", "npy", "npz", "npz, compressed", "parquet", "zarr",
]  # fmt: skip


def ingest_config(source, destination, overwrite=False, **options):
    """Return the settings of an ingest; ``overwrite`` may be "any"."""
    options |= {"overwrite": overwrite is True, "overwrite_any": overwrite == "any"}
    return parse_model(
        IngestConfig, {"source": os.fspath(source), "destination": os.fspath(destination), **options}, "The options"
    )


def ingest(source, destination, *, chunk_bytes=None, progress=lambda *_: None, note=lambda _: None, **options):
    config = ingest_config(source, destination, **options)
    with mock.patch.object(LIMITS, "chunk_bytes", chunk_bytes or LIMITS.chunk_bytes):
        return job.ingest(config, progress, note)


def check_ingest(source, destination, note=lambda _: None, **options):
    job.check_ingest(ingest_config(source, destination, **options), note)
