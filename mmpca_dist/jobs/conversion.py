"""Text tables as the rows of a run: converted once, kept beside the output, and again where the text changes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from mmpca_dist.errors import InputError
from mmpca_dist.ingest.csv import CSV_SUFFIXES
from mmpca_dist.ingest.job import ingest
from mmpca_dist.jobs.events import Callback
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import held
from mmpca_dist.tables.readers.formats import TEXT, stem_of

CONVERT = "convert"
VERSION = 1
"""Another number lets all texts be converted again."""


@contextmanager
def errors_name(source: str, converted: str) -> Iterator[None]:
    """Let what is wrong with converted rows be said of their source."""
    try:
        yield
    except InputError as error:
        if converted == source or converted not in str(error):
            raise
        raise type(error)(str(error).replace(converted, source)) from error


def told_as(uri: str, opened: str) -> str:
    """Return how messages name rows: text as the user does, others by the address that was opened."""
    return uri if TEXT.is_named_by(uri.lower()) else opened


def readable_rows(uri: str, output: str, callback: Callback, kept: bool = True) -> str:
    """Return the address of rows that a run reads: of CSV Parquet, of LIBSVM text Zarr, and of others the address.

    What is converted lies in the folder ``converted`` beside the output, where other runs find it, if the caller leaves
    it there (``kept``). The record of its source is written at the end, so that a killed conversion starts again.
    Raises InputError for text that is no table, and OutputError while another process converts it.
    """
    source = storage.normalize(uri)
    if not TEXT.is_named_by(source.lower()):
        return uri
    storage.require(source)
    parent, stem = storage.normalize(output).rpartition("/")[0], re.sub(r"\W+", "-", source.rpartition("/")[2])
    folder = storage.join(parent, "converted", f"{stem}-{storage.digest(source)[:8]}")
    record = storage.join(folder, "source.json")
    converted = storage.join(folder, "table.parquet" if stem_of(source).endswith(CSV_SUFFIXES) else "table.zarr")
    key = storage.digest(VERSION, storage.list_objects(source))
    if storage.exists(record) and storage.read_json(record).get("key") == key:
        return converted
    started = time.monotonic()
    first_lease = storage.join(folder, "lease-000001.json")  # shows whether the output can be written
    with errors_name(output, first_lease), held(folder, callback.on_note):
        callback.on_stage_start(CONVERT)
        storage.remove(record)
        progress = partial(callback.on_progress, CONVERT)
        ingest(source, converted, progress=progress, note=callback.on_note, overwrite=True)
        if storage.is_local(source) and storage.is_local(converted):  # a run resumes where this is made anew
            os.utime(converted, (0, Path(source).stat().st_mtime))
        storage.write_json(record, {"key": key, "source": source})
    found = [f"{uri} is kept as {converted}, until it changes."] if kept else []
    callback.on_stage_end(CONVERT, {"seconds": round(time.monotonic() - started, 3), "found": found}, False)
    return converted
