"""Runs whose rows and output are in an object store."""

import hashlib
import os

import numpy as np

from helpers.ingested import ingest
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.job import open_job, run_stage
from mmpca_dist.runs.fit import REPORT, stages_of
from mmpca_dist.stores import storage

from .dying import Steps, kill


def ingested_table(folder, tmp_path):
    """Write a small table to a store, and return its address."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "in.npz", X=rng.normal(size=(60, 4)).astype(np.float32), y=np.arange(60) % 2)
    ingest(tmp_path / "in.npz", f"{folder}/in.zarr")
    return f"{folder}/in.zarr"


def fit(uri, output, methods):
    """Run all stages but the report, whose pictures take seconds and are written by what writes records too."""
    config = parse_config(
        {"dataset": {"uri": uri}, "methods": methods, "n_components": 2, "output": output}, "the test"
    )
    with open_job(config, Callback()) as job:
        for stage in stages_of(config):
            if stage is not REPORT:
                run_stage(job, stage)
    return results(output)


def results(output):
    """Return a hash of models and projected rows, of every byte of them and of their names."""
    digest = hashlib.sha256()
    for folder in ("model", "projected"):
        for name, *_ in storage.list_objects(f"{output}/{folder}"):
            digest.update(f"{folder}/{name}\0".encode() + stored(f"{output}/{folder}/{name}"))
    return digest.hexdigest()


def stored(uri):
    """Return the bytes of an object as they are stored: a bit that flips on the way is another one every time."""
    while (data := storage.read_bytes(uri)) != storage.read_bytes(uri):
        pass
    return data


def fit_and_die(last, uri, output, methods, environment):
    """Fit in this process, and be killed before the record, lease or file after the first ``last`` ones."""
    os.environ.update(environment)
    steps = Steps(last, kill)
    storage.write_bytes = steps.before(storage.write_bytes)
    storage.create_bytes = steps.before(storage.create_bytes)
    fit(uri, output, methods)
