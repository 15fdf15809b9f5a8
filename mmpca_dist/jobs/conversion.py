"""Text tables as the rows of a run: converted once, kept beside the output, and again where the text changes."""

from __future__ import annotations

import os
import re
import time
from functools import partial
from pathlib import Path

from mmpca_dist.errors import AccessError
from mmpca_dist.ingest.csv import CSV_SUFFIXES
from mmpca_dist.ingest.job import ingest
from mmpca_dist.jobs.events import Callback
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import held
from mmpca_dist.stores.storage import join, normalize
from mmpca_dist.tables.readers.formats import TEXT, stem_of

FOLDER, RECORD, CONVERT = "converted", "source.json", "convert"
VERSION = 1
"""Another number lets all texts be converted again: types or the format have changed."""


def readable_rows(uri: str, output: str, callback: Callback) -> str:
    """Return the address of rows that a run reads: of CSV Parquet, of LIBSVM text Zarr, and of others the address.

    What is converted lies in the folder ``converted`` beside the output, where other runs find it. The record of its
    source is written at the end, so that a killed conversion starts again.

    Raises
    ------
    InputError
        For text that is no table.
    OutputError
        While another process converts it.
    """
    source = normalize(uri)
    if not TEXT.is_named_by(source.lower()):
        return uri
    storage.require(source)
    folder = _folder(source, normalize(output))
    converted = join(folder, "table.parquet" if stem_of(source).endswith(CSV_SUFFIXES) else "table.zarr")
    key = storage.digest(VERSION, source, storage.list_objects(source))
    if _key_of(folder) == key:
        return converted
    started = time.monotonic()
    with held(folder, callback.on_note):
        if _key_of(folder) == key:  # another run has just written it
            return converted
        callback.on_stage_start(CONVERT)
        storage.remove(join(folder, RECORD))
        progress = partial(callback.on_progress, CONVERT)
        written = ingest(source, converted, progress=progress, note=callback.on_note, overwrite=True)
        if storage.is_local(source) and storage.is_local(converted):  # the same text makes the same rows, at any time
            times = Path(storage.filesystem(source)[1]).stat()
            os.utime(converted, ns=(times.st_atime_ns, times.st_mtime_ns))
        storage.write_json(join(folder, RECORD), {"key": key, "source": source})
    seconds = round(time.monotonic() - started, 3)
    found = [f"{written['rows']:,} rows of {uri} are kept in {converted}, until the text changes."]
    callback.on_stage_end(CONVERT, {"seconds": seconds, "found": found}, False)
    return converted


def _folder(source: str, output: str) -> str:
    parent = output.rstrip("/").rpartition("/")[0]
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", source.rpartition("/")[2].partition(".")[0]) or "table"
    beside = f"{output}-{FOLDER}" if parent.endswith(":/") else f"{parent}/{FOLDER}"
    return join(beside, f"{stem}-{storage.digest(source)[:8]}")


def _key_of(folder: str) -> str | None:
    record = join(folder, RECORD)
    try:
        return storage.read_json(record).get("key") if storage.exists(record) else None
    except AccessError:  # damaged: it is written again
        return None
