"""Configurations of runs, hashes of their models, and a callback that records events."""

import hashlib

import numpy as np
import zarr

from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.job import open_job
from mmpca_dist.methods.base.registry import METHODS


def make_config(output, uri="bundled:digits", **changes):
    content = {
        "dataset": {"uri": uri},
        "methods": list(METHODS),
        "n_components": [2, 5],
        "precision": "double",
        "output": str(output),
    }
    return parse_config({**content, **changes}, "the test")


def model_hash(output, methods):
    """Hash the bits of every array of every model."""
    digest = hashlib.sha256()
    for method in methods:
        group = zarr.open_group(f"{output}/model/{method}.zarr", mode="r")
        for name, array in sorted(group.arrays()):
            digest.update(name.encode() + np.asarray(array[...]).tobytes())
    return digest.hexdigest()


class Recorder(Callback):
    """Keeps what is said: of stages whether they were reused, and the rest in turn."""

    def __init__(self):
        self.ended = {}
        self.progress, self.notes, self.passes, self.dashboards = [], [], [], []

    def on_stage_end(self, stage, manifest, reused):
        self.ended[stage] = reused

    def on_progress(self, stage, done, total):
        self.progress.append((stage, done, total))

    def on_note(self, message):
        self.notes.append(message)

    def on_pass(self, stage, name):
        self.passes.append((stage, name))

    def on_cluster(self, dashboard):
        self.dashboards.append(dashboard)


def open_and_close(config, purpose="run"):
    """Open a job as a command does, and do nothing with it."""
    with open_job(config, Callback(), purpose):
        pass
