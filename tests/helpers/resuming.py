"""Runs over many small spans, what they leave, and ways to break them off."""

import hashlib
import json
import os
import threading
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

import mmpca_dist.runs.fit as stages_module
from mmpca_dist.jobs.job import Stage
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.stores.storage import from_json, to_json


class Killed(BaseException):
    """Passes through everything that mends errors, like the end of a process."""


def small_units(monkeypatch, *, unit_bytes=480):
    """Make reading units, and what is worth keeping, so small that little data has many groups of spans."""
    monkeypatch.setattr(LIMITS, "unit_bytes", unit_bytes)
    monkeypatch.setattr(LIMITS, "smallest_unit_bytes", unit_bytes)
    for name in ("resumable_bytes", "class_rows", "scatter_rows"):
        monkeypatch.setattr(LIMITS, name, 0)


def no_report(monkeypatch):
    """Leave out the pictures, which take longer than all else."""
    monkeypatch.setattr(stages_module, "REPORT", Stage("report", "No report", lambda job: {}))


def rewrite_json(path, old, new):
    """Replace text in a JSON file that has a checksum."""
    text = json.dumps(from_json(path.read_bytes()))
    assert old in text
    path.write_bytes(to_json(json.loads(text.replace(old, new))))


def results_hash(output):
    """Hash the bits of everything that a run computes: statistics, models, projected rows."""
    digest = hashlib.sha256()

    def add(name, array):
        array = np.asarray(array)
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())

    for folder in ("statistics.zarr", "pairs", "fits", "model", "belonging", "projected"):
        for path in sorted(Path(output, folder).rglob("*")):
            name = str(path.relative_to(output))
            if path.name == "zarr.json" and '"node_type": "array"' in path.read_text().replace('":"', '": "'):
                add(name, zarr.open_array(str(path.parent), mode="r")[...])
            if path.suffix == ".npz":
                with np.load(path) as arrays:
                    for key in sorted(arrays):
                        add(f"{name} {key}", arrays[key])
            if path.suffix == ".parquet":
                table = pq.read_table(path)
                for column in table.column_names:
                    add(f"{name} {column}", table.column(column).to_numpy())
            if path.suffix == ".json" and path.name != "zarr.json":
                digest.update(path.read_bytes())
    return digest.hexdigest()


KILLS = ("before", "half-way", "after")


def die_half_way(write, *arguments):
    """Write a file, and die when all of it is there but its name."""

    def die(*_args):
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((os, "link"), (Path, "replace")):
            patch.setattr(place, name, die)
        patch.setattr(Path, "unlink", lambda *_args, **_options: None)
        write(*arguments)


class Writes:
    """Counts the objects that are written whole, and kills at one of them: before, half-way, or just after."""

    def __init__(self, monkeypatch):
        self.count, self.kill_at, self.when, self.within = 0, None, "before", ""
        self._watch(monkeypatch, storage, "create_bytes")
        self._watch(monkeypatch, storage, "write_bytes")

    def _watch(self, monkeypatch, module, name):
        write = getattr(module, name)

        def watched(uri, data):
            if threading.current_thread().name == "lease":
                return write(uri, data)  # renewed by the clock: counted, it would move the kills
            self.count += self.within in uri
            dying = self.count == self.kill_at and self.within in uri
            if dying and self.when == "half-way":
                die_half_way(write, uri, data)
            if dying and self.when == "before":
                raise Killed(uri)
            found = write(uri, data)
            if dying:
                raise Killed(uri)
            return found

        monkeypatch.setattr(module, name, watched)

    def from_now(self, kill_at, *, when="before", within=""):
        self.count, self.kill_at, self.when, self.within = 0, kill_at, when, within
