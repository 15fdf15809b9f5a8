"""A folder that is removed while something works in it: that ends in a sentence, and the address is free again."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.ingested import ingest
from helpers.tables import config_of

from mmpca_dist import evaluate, refresh, run
from mmpca_dist.errors import OutputError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs.transform import TransformConfig, transform
from mmpca_dist.stores import storage

REMOVED = "is no longer this run's: its lease has been removed"
SETTINGS = {"methods": ["pca", "m-pca0"], "n_components": [2]}


class Removing(Callback):
    """Removes a folder at an event of a stage, once, as ``rm -rf`` does."""

    def __init__(self, folder, event, stage):
        self.folder, self.event, self.stage = str(folder), event, stage

    def _at(self, event, stage):
        if (event, stage) == (self.event, self.stage):
            self.event = ""
            storage.remove(self.folder) if "://" in self.folder else shutil.rmtree(self.folder)

    def on_stage_start(self, stage):
        self._at("start", stage)

    def on_progress(self, stage, done, total):
        self._at("progress", stage)

    def on_stage_end(self, stage, record, reused):
        self._at("end", stage)


def nothing_is_left(folder):
    return not Path(folder).exists() or not [path for path in Path(folder).rglob("*") if path.is_file()]


@pytest.mark.parametrize(("event", "stage"), [
    ("start", "reduce"), ("progress", "reduce"), ("end", "reduce"), ("start", "solve"), ("progress", "solve"),
    ("start", "project"), ("progress", "project"), ("end", "project"), ("end", "report"),
])  # fmt: skip
def test_a_run_says_that_its_folder_was_removed_and_the_same_command_begins_again(event, stage, tmp_path, no_report):
    config = config_of(tmp_path / "out", "bundled:iris", **SETTINGS)
    with pytest.raises(OutputError, match=REMOVED):
        run(config, callbacks=[Removing(tmp_path / "out", event, stage)])
    assert nothing_is_left(tmp_path / "out")
    assert run(config)["report"]


@pytest.mark.e2e
@pytest.mark.parametrize("kept", [False, True], ids=["without checkpoints", "with checkpoints"])
def test_checkpoints_are_no_rubbish_either(kept, limits, tmp_path, no_report):
    limits.resumable_bytes = 0 if kept else 1 << 60
    config = config_of(tmp_path / "out", "synthetic:gaussian?n=200000&d=32", **SETTINGS)
    with pytest.raises(OutputError, match=REMOVED):
        run(config, callbacks=[Removing(tmp_path / "out", "progress", "reduce")])
    assert nothing_is_left(tmp_path / "out")


@pytest.mark.parametrize(("event", "stage"), [("start", "score"), ("progress", "score"), ("end", "score")])
def test_so_does_an_evaluation(event, stage, tmp_path, no_report):
    config = config_of(tmp_path / "out", "bundled:iris", **SETTINGS)
    with pytest.raises(OutputError, match=REMOVED):
        evaluate(config, callbacks=[Removing(tmp_path / "out" / "evaluation", event, stage)])
    assert nothing_is_left(tmp_path / "out")


def test_so_do_a_transform_a_refresh_and_a_run_in_a_bucket(bucket, tmp_path, no_report):
    run(config_of(tmp_path / "fit", "bundled:iris", **SETTINGS))
    request = TransformConfig(output=str(tmp_path / "fit"), dataset="bundled:iris", destination=str(tmp_path / "new"))
    with pytest.raises(OutputError, match=REMOVED):
        transform(request, [Removing(tmp_path / "new", "progress", "project")])
    assert nothing_is_left(tmp_path / "new")
    y = np.repeat(["setosa", "versicolor", "virginica"], 10)
    np.savez(tmp_path / "more.npz", X=np.random.default_rng(0).standard_normal((30, 4)), y=y)
    with pytest.raises(OutputError, match=REMOVED):
        refresh(
            str(tmp_path / "fit"), str(tmp_path / "more.npz"), str(tmp_path / "live"),
            callbacks=[Removing(tmp_path / "live", "progress", "reduce")],
        )  # fmt: skip
    assert nothing_is_left(tmp_path / "live")
    with pytest.raises(OutputError, match=REMOVED):
        run(config_of(f"{bucket}/out", "bundled:iris", **SETTINGS), [Removing(f"{bucket}/out", "start", "solve")])
    assert storage.list_objects(f"{bucket}/out") == []


def test_so_does_an_ingest_whose_folder_of_work_is_removed(tmp_path):
    once = []

    def progress(*_):
        if not once:
            once.append(shutil.rmtree(tmp_path / "out.zarr.partial"))

    with pytest.raises(OutputError, match=REMOVED):
        ingest("synthetic:gaussian?n=60000&d=64", str(tmp_path / "out.zarr"), progress=progress)
    assert list(tmp_path.iterdir()) == []
    assert ingest("bundled:iris", str(tmp_path / "out.zarr"))["rows"] == 150


def test_what_another_has_put_there_since_stays(tmp_path, no_report):
    """Another run in the place of the removed one is not touched."""
    config = config_of(tmp_path / "out", "bundled:iris", **SETTINGS)
    run(config_of(tmp_path / "other", "bundled:iris", **{**SETTINGS, "n_components": [1]}))

    class Replacing(Removing):
        def _at(self, event, stage):
            if (event, stage) == (self.event, self.stage):
                self.event = ""
                shutil.rmtree(self.folder)
                shutil.copytree(tmp_path / "other", self.folder)

    with pytest.raises(OutputError, match=REMOVED):
        run(config, callbacks=[Replacing(tmp_path / "out", "start", "solve")])
    assert (tmp_path / "out" / "run.json").read_bytes() == (tmp_path / "other" / "run.json").read_bytes()
    assert (tmp_path / "out" / "model").exists()


@pytest.mark.parametrize("file", ["letter.txt", "scratch/mine.txt", "model/c/mine", "000001/notes.docx"])
def test_other_files_still_refuse_a_run(file, tmp_path):
    storage.write_bytes(f"{tmp_path}/out/{file}", b"mine")
    with pytest.raises(OutputError, match=r"holds other files .* and no run"):
        run(config_of(tmp_path / "out", "bundled:iris", **SETTINGS))
    assert (tmp_path / "out" / file).exists()
