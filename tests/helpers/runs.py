"""Configurations of runs, hashes of their models, and a callback that records events."""

import hashlib

import numpy as np
import zarr
from click.testing import CliRunner

from helpers.tables import write_config
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.finished_runs import load_model
from mmpca_dist.jobs.job import open_job
from mmpca_dist.runs.refresh import RefreshConfig, refresh
from mmpca_dist.runs.transform import TransformConfig, transform


def refreshed(base, new, output, *callbacks, **options):
    return refresh(RefreshConfig(run=str(base), new=str(new), output=str(output), **options), list(callbacks))


def through(output, dataset, destination, *callbacks, **options):
    """Send rows through a run."""
    addresses = {"output": str(output), "dataset": str(dataset), "destination": str(destination)}
    return transform(TransformConfig(**addresses, **options), list(callbacks))


def same_models(one, other, methods, atol=1e-9, rtol=None, classes=True):
    """The models of two runs have the same components and classes, and eigenvalues where ``rtol`` is given."""
    for method in methods:
        found, expected = (load_model(str(output), method) for output in (one, other))
        relative = 1e-7 if atol else 0
        np.testing.assert_allclose(found.components_, expected.components_, rtol=relative, atol=atol, err_msg=method)
        assert not classes or np.array_equal(getattr(found, "classes_", None), getattr(expected, "classes_", None))
        if rtol is not None:
            np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=rtol, err_msg=method)


def loaded_like(output, method, own, X, arrays, **tolerances):
    """Return the model of a run, whose arrays, labels and projected rows are those of an estimator of its own."""
    model = load_model(str(output), method)
    for name in arrays:
        np.testing.assert_allclose(getattr(model, name), getattr(own, name), **tolerances, err_msg=name)
    assert model.predict(X).tolist() == own.predict(X).tolist()
    projected = zarr.open_array(f"{output}/projected/{method}.zarr/X")[...]
    np.testing.assert_allclose(projected, own.transform(X), **tolerances)
    return model


def model_hash(output, methods):
    """Hash the bits of every array of every model."""
    digest = hashlib.sha256()
    for method in methods:
        group = zarr.open_group(f"{output}/model/{method}.zarr", mode="r")
        for name, array in sorted(group.arrays()):
            digest.update(name.encode() + np.asarray(array[...]).tobytes())
    return digest.hexdigest()


def hash_of_command(path, uri, **settings):
    """Run the command on a table, and hash the models that it leaves."""
    from mmpca_pipelines.cli import cli

    methods = ["pca", "m-pca1a"]
    config = write_config(path / "my.yaml", f"{uri}-run", uri, methods=methods, **settings)
    done = CliRunner().invoke(cli, ["run", config, "--no-prefect"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return model_hash(f"{uri}-run", methods)


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
