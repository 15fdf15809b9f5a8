"""An evaluation that was broken off goes on from the splits that are done, and ends as one that was not."""

from pathlib import Path

import pytest
from helpers.evaluating import scored, timeless
from helpers.resuming import KILLS, Killed, Writes
from helpers.runs import Recorder
from helpers.tables import config_of, labelled, write_npz

from mmpca_dist.errors import AccessError
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.stores import storage

METHODS = ["pca", "m-pca1b", "m-pca2"]
KINDS = {
    "in memory": {"splits": "shares", "count": 5, "train": "2/3"},
    "merged": {"splits": "folds", "folds": 2, "count": 3},
    "merged, passes kept": {"splits": "folds", "folds": 2, "count": 3},
}


@pytest.fixture(params=KINDS)
def make(request, monkeypatch, limits, tmp_path):
    """Return a function that makes a configuration by its output; splits are evaluated one after the other."""
    merged = request.param.startswith("merged")
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merged, not merged))
    if "kept" in request.param:
        limits.resumable_bytes = 0
    uri = write_npz(tmp_path / "rows.npz", *labelled(60, 4, 2, seed=1, separation=0.5))
    evaluation = {**KINDS[request.param], "classifiers": ["fisher", "svm"]}
    return lambda name: config_of(
        tmp_path / name, uri, methods=METHODS, n_components=[2], evaluation=evaluation, compute={"workers": 1}
    )


@pytest.fixture
def evaluated(monkeypatch):
    """Return a list of the numbers of the splits that are evaluated, or of their first parts where they are merged."""
    numbers, function = [], evaluation_scores.evaluate

    def told(rows, splits, *others):
        numbers.append(splits.first)
        return function(rows, splits, *others)

    monkeypatch.setattr(evaluation_scores, "evaluate", told)
    return numbers


def read(config):
    """Evaluate, and return the passes over the rows and the bytes of them."""
    found = scored(config)[2]["score"]
    return found["passes"], found["bytes"]


def done(config):
    """Return the splits whose records are there."""
    return {int(path.stem) for path in Path(config.output, "evaluation", "splits").glob("*.json")}


def assert_goes_on(config, expected, evaluated):
    """The records become those that are expected, and only what is missing is evaluated.

    Parts of one deal that are merged share passes over the rows, and are evaluated together.
    """
    missing = set(range(len(expected))) - done(config)
    if evaluation_scores.route()[0]:
        missing = {2 * (number // 2) for number in missing}
    evaluated.clear()
    assert timeless(scored(config)[0]) == expected
    assert sorted(evaluated) == sorted(missing)
    evaluated.clear()
    scored(config)
    assert not evaluated


@pytest.mark.parametrize("when", KILLS)
def test_killed_as_it_writes_a_record(when, make, evaluated, monkeypatch):
    writes = Writes(monkeypatch)
    expected, config = timeless(scored(make("whole"))[0]), make("killed")
    writes.from_now(4, within="/splits/", when=when)
    with pytest.raises(Killed):
        scored(config)
    writes.from_now(None)
    assert len(done(config)) == (4 if when == "after" else 3)
    assert_goes_on(config, expected, evaluated)


@pytest.mark.e2e
def test_bytes_are_those_of_all_sessions(make, monkeypatch):
    """As seconds are: rows in memory are read in each session, and merged parts twice a deal, whoever does them."""
    (passes, total), config, writes = read(make("whole")), make("killed"), Writes(monkeypatch)
    assert total > 0
    writes.from_now(3, within="/splits/", when="after")
    with pytest.raises(Killed):
        scored(config)
    writes.from_now(None)
    if evaluation_scores.route()[0]:
        assert read(config) == (passes, total)  # the deal that was broken off is done anew, and so are its records
    else:
        assert read(config) == (2 * passes, 2 * total)
    (Path(config.output) / "evaluation" / "records" / "score.json").unlink()
    assert read(config)[1] == total * (1 if evaluation_scores.route()[0] else 2)


@pytest.mark.e2e
def test_a_full_disk_costs_no_split(make, evaluated, monkeypatch):
    """What failed for want of space, of a network or of workers goes on; only what is refused is discarded."""
    expected, config, watching = timeless(scored(make("whole"))[0]), make("full"), Recorder()
    write = storage.write_json

    def fails(uri, value):
        if len(done(config)) == 3 and "/splits/" in uri:
            raise AccessError(f"Cannot write {uri}: no space is left there.")
        write(uri, value)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_json", fails)
        with pytest.raises(AccessError, match="no space is left there"):
            scored(config, watching)
    assert len(done(config)) == 3
    assert watching.notes == [
        f"What is done is kept in {config.output}/evaluation, as the run may go on: give the same command again."
    ]
    assert_goes_on(config, expected, evaluated)
