"""Rows that change while they are read: the command ends with what changed, and nothing is recorded of them."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers import tables
from helpers.refreshing import PARTS, X, Y, fill, first_run, write
from helpers.resuming import results_hash
from helpers.runs import Recorder, refreshed, through

import mmpca_dist.runs.fit as stages_module
from mmpca_dist import open_dataset, run
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.runs import projection, refresh_inputs
from mmpca_dist.runs.evaluate import evaluate
from mmpca_dist.runs.transform import TransformConfig, transform
from mmpca_dist.stores import storage
from mmpca_dist.stores.storage import from_json, to_json
from mmpca_dist.tables.changes import Watch

pytestmark = pytest.mark.usefixtures("no_report")


def first_file(uri):
    path = Path(uri)
    chunks = (p for p in sorted(path.rglob("*")) if p.is_file() and "c" in p.relative_to(path).parts)
    return path if path.is_file() else next(chunks)


def longer(path):
    path.write_bytes(path.read_bytes() + b"\0")


def rewritten(path):
    path.write_bytes(path.read_bytes())
    os.utime(path, (1, 1))


def removed(path):
    path.unlink()


def config_of(folder, uri, **changes):
    return tables.config_of(folder / "run", uri, **{"methods": ["pca", "m-pca1b"], **changes})


def changing(patch, module, name, change, path):
    """Let rows change as a function of a module has done its work."""
    before = getattr(module, name)

    def changed(*arguments, **options):
        found = before(*arguments, **options)
        change(path)
        return found

    patch.setattr(module, name, changed)


@pytest.mark.parametrize(
    ("change", "kind"), [(longer, "zarr"), (removed, "zarr"), (rewritten, "parquet"), (longer, "npz"), (removed, "csr")]
)
def test_a_run_ends_with_what_changed(change, kind, tmp_path, monkeypatch):
    uri = write(kind, tmp_path / "rows", X, Y)
    path = first_file(uri)
    changing(monkeypatch, stages_module, "save_statistics", change, path)
    words = "it was removed" if change is removed else "it has another size, time or version"
    with pytest.raises(InputError, match=f"{path} changed while it was read: {words}"):
        run(config_of(tmp_path, uri))
    assert not (tmp_path / "run" / "records" / "reduce.json").exists()


def test_what_fails_for_a_change_is_told_by_the_change(tmp_path, monkeypatch):
    uri = write("zarr", tmp_path / "rows", X, Y)

    def fails(*_arguments, **_options):
        longer(first_file(uri))
        raise InputError("Found nan in row 3.")

    monkeypatch.setattr(stages_module, "class_statistics", fails)
    with pytest.raises(InputError, match="changed while it was read"):
        run(config_of(tmp_path, uri))


def test_splits_of_an_evaluation_are_not_kept_of_rows_that_changed(tmp_path, monkeypatch):
    from mmpca_dist.runs import evaluation_scores

    uri = write("npz", tmp_path / "rows", X, Y)
    evaluation = {"splits": "shares", "count": 2, "classifiers": "lda", "margins": False}
    changing(monkeypatch, evaluation_scores, "score_splits", rewritten, Path(uri))
    with pytest.raises(InputError, match="it has another size, time or version"):
        evaluate(config_of(tmp_path, uri, methods=["pca"], evaluation=evaluation))
    assert not list((tmp_path / "run").rglob("splits/*"))


@pytest.mark.e2e
def test_a_transform_of_rows_that_change_leaves_nothing(tmp_path, monkeypatch):
    output, new = first_run(tmp_path), write("parquet", tmp_path / "new", X[PARTS["a"]], Y[PARTS["a"]])
    changing(monkeypatch, projection, "project_rows", rewritten, Path(new))
    with pytest.raises(InputError, match=r"new.parquet changed while it was read: it has another"):
        through(output, new, tmp_path / "to")
    assert not (tmp_path / "to").exists()


@pytest.mark.e2e
def test_a_refresh_with_rows_that_change_takes_up_nothing(tmp_path, monkeypatch):
    base, inbox = first_run(tmp_path), fill(tmp_path / "inbox", names=("a",))
    changing(monkeypatch, refresh_inputs, "take_moments", rewritten, tmp_path / "inbox" / "a.npz")
    with pytest.raises(InputError, match=r"a.npz changed while it was read: it has another"):
        refreshed(base, inbox, tmp_path / "live")
    assert not (tmp_path / "live" / "records").exists()


def mode_changed(path):
    path.chmod(0o640)


def linked(path):
    os.link(path, path.with_name("backup of " + path.name))


def put_back(path):
    """As from a backup: another inode with the same content and time of modification."""
    shutil.copy2(path, path.with_name("restored"))
    path.with_name("restored").replace(path)


@pytest.mark.parametrize("kind", ["zarr", "npz"])
@pytest.mark.parametrize("change", [mode_changed, put_back, linked])
@pytest.mark.e2e
def test_changes_of_inodes_are_no_changes_of_content(change, kind, tmp_path, monkeypatch):
    uri = write(kind, tmp_path / "rows", X, Y)
    path = first_file(uri)
    if change is linked and Path(uri).is_dir():  # beside the table; within it is a new object
        change = lambda path: os.link(path, tmp_path / "backup")  # noqa: E731
    run(config_of(tmp_path / "quiet", uri))
    changing(monkeypatch, stages_module, "save_statistics", change, path)
    before = path.stat().st_ctime_ns
    run(config_of(tmp_path, uri))
    assert path.stat().st_ctime_ns != before
    assert results_hash(tmp_path / "run") == results_hash(tmp_path / "quiet" / "run")


@pytest.mark.parametrize("change", [mode_changed, put_back])
@pytest.mark.e2e
def test_a_run_that_was_broken_off_resumes_after_changes_of_inodes(change, tmp_path, monkeypatch):
    uri, recorder = write("zarr", tmp_path / "rows", X, Y), Recorder()
    with monkeypatch.context() as patch:
        patch.setattr(projection, "project_rows", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(config_of(tmp_path, uri))
    change(first_file(uri))
    run(config_of(tmp_path, uri), [recorder])
    assert recorder.ended["reduce"] and recorder.ended["solve"] and not recorder.ended["project"]


@pytest.mark.parametrize("change", [longer, rewritten])
@pytest.mark.e2e
def test_stages_that_are_done_stay_where_rows_change(change, tmp_path, monkeypatch):
    """The error says what changed; what was made of the rows as they were is kept."""
    uri, recorder = write("zarr", tmp_path / "rows", X, Y), Recorder()
    config = config_of(tmp_path, uri)
    changing(monkeypatch, projection, "project_rows", change, first_file(uri))
    with pytest.raises(InputError, match="changed while it was read"):
        run(config, [recorder])
    assert {"reduce.json", "solve.json"} <= {path.name for path in (tmp_path / "run" / "records").iterdir()}
    assert recorder.notes[-1] == (
        f"The stages that are done are kept in {config.output}. A run with other rows or settings needs another output "
        "folder."
    )
    with pytest.raises(OutputError, match="its input has changed since"):
        run(config)


@pytest.mark.e2e
def test_object_stores_tell_versions_apart(bucket):
    storage.write_bytes(f"{bucket}/a/b", b"1")
    watch = Watch.of([f"{bucket}/a", "bundled:iris"])
    watch.refuse_change([f"{bucket}/a"])
    storage.write_bytes(f"{bucket}/a/b", b"2")
    with pytest.raises(InputError, match=rf"{bucket}/a/b changed while it was read: it has another"):
        watch.refuse_change([f"{bucket}/a"])
    assert Watch.of([f"{bucket}/a/b"]).states.keys() == watch.states.keys()


@pytest.mark.parametrize("way", ["chunk", "metadata", "record"])
@pytest.mark.e2e
def test_a_transform_that_was_damaged_is_done_again(way, tmp_path):
    output, new = first_run(tmp_path), write("zarr", tmp_path / "new", X[PARTS["a"]], Y[PARTS["a"]])
    given = TransformConfig(output=output, dataset=new, destination=str(tmp_path / "to"), methods=["pca"])
    transform(given)
    rows = open_dataset(f"{given.destination}/projected/pca.zarr").read_rows(0, 100)
    place = {
        "chunk": "projected/pca.zarr/X/c/0/0", "metadata": "projected/pca.zarr/X/zarr.json",
        "record": "records/project.json",
    }[way]  # fmt: skip
    damaged = tmp_path / "to" / place
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    recorder = Recorder()
    transform(given, [recorder])
    assert recorder.notes == [note for note in recorder.notes if f"{place}: it is damaged" in note] != []
    np.testing.assert_array_equal(open_dataset(f"{given.destination}/projected/pca.zarr").read_rows(0, 100), rows)


def test_json_with_a_checksum_is_read_as_it_was_written():
    value = {"a": [1, 2.5, None], "b": {"é": "\0"}, "c": 1e-300}
    assert from_json(to_json(value)) == value
    assert from_json(to_json({1: (2, 3)})) == {"1": [2, 3]}
