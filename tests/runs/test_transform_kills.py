"""New rows through a run, killed half-way: nobody takes the half for the whole, and the same call goes on."""

import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.leases import late_beats, write_owner
from helpers.runs import Recorder
from helpers.tables import write_npz, write_zarr
from helpers.transforming import X, Y, fit, projected

from mmpca_dist import load_model, open_dataset
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs.transform import TransformConfig, transform
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import held

ROWS = np.tile(X, (40, 1))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    return fit(folder, write_npz(folder / "rows.npz", X, Y))


@pytest.fixture
def config(fitted, tmp_path):
    rows = write_zarr(tmp_path / "a.zarr", ROWS, np.tile(Y, 40))
    return TransformConfig(output=fitted, dataset=rows, destination=str(tmp_path / "dest"))


KILL = """
import os, signal, sys
from mmpca_dist.limits import LIMITS
from mmpca_dist.runs import transform as transforming
from mmpca_dist.jobs.events import Callback
from mmpca_dist.stores import storage

LIMITS.unit_bytes = 25 * 4 * 8

class Kill(Callback):
    def on_progress(self, stage, done, total):
        if sys.argv[4] == "half" and done == total // 2:
            os.kill(os.getpid(), signal.SIGKILL)

def create_bytes(uri, data, create=storage.create_bytes):
    if sys.argv[4] == "end" and uri.endswith("records/project.json"):
        os.kill(os.getpid(), signal.SIGKILL)
    return create(uri, data)

storage.create_bytes = create_bytes
config = transforming.TransformConfig(output=sys.argv[1], dataset=sys.argv[2], destination=sys.argv[3])
transforming.transform(config, [Kill()])
"""


def killed(config, when):
    command = [sys.executable, "-c", KILL, config.output, config.dataset, config.destination, when]
    assert subprocess.run(command, timeout=120).returncode == -signal.SIGKILL


@pytest.mark.e2e
def test_kill_9_at_half(config):
    killed(config, "half")
    parts = storage.names_in(f"{config.destination}/projected/pca.parquet")
    assert storage.exists(f"{config.destination}/projected/pca.zarr/X/zarr.json") and len(parts) > 1
    with pytest.raises(InputError, match="no Zarr group"):
        open_dataset(f"{config.destination}/projected/pca.zarr")
    with pytest.raises(InputError, match=r"unfinished\.parquet is not a readable Parquet file"):
        open_dataset(f"{config.destination}/projected/pca.parquet", label="label")
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(f"{config.destination}/projected/pca.parquet")


@pytest.mark.parametrize("when", ["half", pytest.param("end", marks=pytest.mark.slow)])
@pytest.mark.e2e
def test_the_same_call_again_finishes(when, config):
    killed(config, when)
    told = Recorder()
    transform(config, [told])
    assert "has ended" in told.notes[0] and len(told.notes) == 1
    rows, labels = projected(config.destination)
    np.testing.assert_allclose(rows, ROWS @ load_model(config.output, "pca").components_.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(labels, np.tile(Y, 40))
    assert pq.read_table(f"{config.destination}/projected/pca.parquet").num_rows == len(ROWS)
    assert storage.names_in(config.destination) == ["events.jsonl", "projected", "records", "run.json"]


@pytest.mark.e2e
def test_what_is_finished_is_not_written_again(config, tmp_path):
    """Not even where its lease was left, and not by other rows, methods or a changed data set."""
    first, told = transform(config), Recorder()
    before = projected(config.destination)[0]
    write_owner(config.destination, beat=0.0)
    assert transform(config, [told]) == {**first, "reused": True} and list(told.ended.values()) == [False, True]
    others = {"dataset.uri": {"dataset": write_npz(tmp_path / "b.npz", X)}, "project.methods": {"methods": ["pca"]}}
    for key, change in others.items():
        with pytest.raises(OutputError, match=f"already holds a different run: its {key} is "):
            transform(config.model_copy(update=change))
    write_zarr(config.dataset, ROWS + 1, np.tile(Y, 40))
    with pytest.raises(OutputError, match="its input has changed since"):
        transform(config)
    np.testing.assert_array_equal(projected(config.destination)[0], before)


def test_one_that_lives_is_not_disturbed(config):
    with held(config.destination):
        before = storage.names_in(config.destination)
        with pytest.raises(OutputError, match="in use by process"):
            transform(config)
        assert storage.names_in(config.destination) == before


def test_one_that_was_taken_over_stops_and_removes_nothing(config, monkeypatch):
    class TakenOver(Callback):
        def on_progress(self, stage, done, total):
            if done == 1:
                write_owner(config.destination, number=2)

    monkeypatch.setattr("mmpca_dist.limits.LIMITS.unit_bytes", 25 * 4 * 8)
    late_beats(monkeypatch)
    with pytest.raises(OutputError, match="has taken it over"):
        transform(config, [TakenOver()])
    assert storage.exists(f"{config.destination}/projected/pca.zarr/X")
    assert not storage.exists(f"{config.destination}/records/project.json")
