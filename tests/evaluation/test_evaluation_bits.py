"""The same records wherever the work runs, and the same errors whatever the rows are stored in."""

import joblib
import numpy as np
import pytest
from distributed import Client, LocalCluster
from helpers.evaluating import KNN, by_cell, scored, timeless
from helpers.resuming import small_units
from helpers.tables import config_of, labelled, write_npz, write_parquet, write_zarr
from helpers.watching import watched

from mmpca_dist import run
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation import merged_folds
from mmpca_dist.runs import evaluation_scores

METHODS = ["pca", "m-pca0", "m-pca1b", "m-pca2", "fisher", "lol", "pls", "fisher-score"]
FOLDS = {"splits": "folds", "folds": 3}
EVALUATION = {**FOLDS, "classifiers": ["fisher", "qda", "svm", KNN]}
SETTINGS = {"methods": METHODS, "n_components": [1, 3], "evaluation": EVALUATION}
X, Y = labelled(300, 6, 3, seed=5, separation=0.5)


@pytest.fixture(scope="module")
def processes():
    """Return the address of a scheduler with two workers, each a process of its own."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster:
        yield cluster.scheduler_address


def bits(config):
    """Return the records, and hashes of the classifiers from moments that are merged."""
    with pytest.MonkeyPatch.context() as patch:
        scorers = watched(patch, merged_folds, "make_scorer")
        records, *_ = scored(config)
    return timeless(records), joblib.hash(scorers)


@pytest.mark.slow
@pytest.mark.parametrize("merging", [True, False], ids=["merged", "in memory"])
def test_the_same_bits_on_any_workers(merging, processes, monkeypatch, limits, tmp_path):
    uri = write_zarr(tmp_path / "rows.zarr", X, Y, 50)
    if merging:
        small_units(monkeypatch, unit_bytes=2400)
        limits.direct_bytes = 0
        monkeypatch.setattr(evaluation_scores, "read_all", lambda *_: pytest.fail("all rows in memory"))
    else:
        monkeypatch.setattr(evaluation_scores, "scores_from_moments", lambda *_: False)
    found = [
        bits(config_of(tmp_path / str(number), uri, compute=compute, **SETTINGS))
        for number, compute in enumerate([{"workers": 1}, {"workers": 3}, {"cluster": processes}])
    ]
    assert found[0] == found[1] == found[2]
    records = found[0][0]
    assert len(records) == 3 and sum(record["rows"] for record in records) == len(X)
    assert all(record["margins"] for record in records)


def kept_rows():
    """Return how many data sets a process keeps in memory for evaluations."""
    return len(evaluation_scores._rows)


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_workers_keep_no_rows(fails, processes, monkeypatch, tmp_path):
    """Neither those of somebody's cluster, which go on, nor after a failure."""
    monkeypatch.setattr(evaluation_scores, "scores_from_moments", lambda *_: False)
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    evaluation = {**FOLDS, "classifiers": [{**KNN, "options": {"n_neighbors": 500 if fails else 3}}]}
    config = config_of(tmp_path / "out", uri, evaluation=evaluation, compute={"cluster": processes})
    held = []
    with Client(processes, set_as_default=False) as client, monkeypatch.context() as patch:
        run = Client.run
        patch.setattr(Client, "run", lambda *given, **more: held.append(run(client, kept_rows)) or run(*given, **more))
        if fails:
            with pytest.raises(InputError, match="n_neighbors"):
                scored(config)
        else:
            scored(config)
        patch.undo()
        assert sum(held[-1].values()) > 0, "rows were there, as workers were last told to do something"
        assert set(client.run(kept_rows).values()) == {0}


def stored(folder, kind):
    """Return where the rows are, in 6 chunks, 12 row groups or a file."""
    if kind == "zarr":
        return write_zarr(folder / "rows.zarr", X, Y, 50)
    if kind == "npz":
        return write_npz(folder / "rows.npz", X, Y)
    return write_parquet(folder / "rows.parquet", X, Y)


@pytest.mark.parametrize("merging", [True, False], ids=["merged", "in memory"])
def test_the_same_errors_from_any_storage(merging, monkeypatch, tmp_path):
    """Sums over chunks are rounded otherwise, which decides no row here; margins are as close."""
    small_units(monkeypatch, unit_bytes=2400)
    monkeypatch.setattr(evaluation_scores, "scores_from_moments", lambda *_: merging)
    found = []
    for kind in ("zarr", "parquet", "npz"):
        records, *_ = scored(config_of(tmp_path / kind, stored(tmp_path, kind), **SETTINGS))
        found.append((by_cell(records), [line["wasserstein"] for record in records for line in record["margins"]]))
    assert found[0][0] == found[1][0] == found[2][0]
    for _, distances in found[1:]:
        np.testing.assert_allclose(distances, found[0][1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("who", ["evaluation", "choice"])
def test_few_rows_of_many_classes_and_columns_are_taken_into_memory(who, monkeypatch, limits, tmp_path):
    """Their moments would be larger; of rows that do not fit in memory, there is no other way."""
    read = watched(monkeypatch, evaluation_scores, "read_all")
    limits.pooled_bytes = 8 * 3 * 3 * 6 * 6 - 1  # less than classes x folds x columns^2 doubles
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    if who == "evaluation":
        scored(config_of(tmp_path / "out", uri, evaluation=FOLDS))
    else:
        run(config_of(tmp_path / "out", uri, n_components="auto", evaluation={"folds": 3}, project={"methods": []}))
    assert read
    read.clear()
    limits.direct_bytes = 0
    scored(config_of(tmp_path / "large", uri, evaluation=FOLDS))
    assert not read


def test_what_moments_do_not_serve_must_fit_in_memory(limits, tmp_path):
    limits.direct_bytes = 1 << 10
    for name, rows in (("sparse", {"X": X, "sparse": True}), ("wide", {"X": np.tile(X[:20], 4)})):
        uri = write_npz(tmp_path / f"{name}.npz", y=Y[: len(rows["X"])], **rows)
        with pytest.raises(InputError, match=r"is larger than the .* Evaluate a part of the rows"):
            scored(config_of(tmp_path / name, uri))
    tuned = {"splits": "folds", "classifiers": [{"name": "svm", "C": "auto"}]}
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    with pytest.raises(InputError, match=r"C: auto tries penalties on all rows in memory, .* Give C as a number"):
        scored(config_of(tmp_path / "tuned", uri, evaluation=tuned))
