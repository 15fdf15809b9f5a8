"""The same records wherever the work runs, and the same errors whatever the rows are stored in."""

import joblib
import numpy as np
import pytest
from distributed import LocalCluster
from helpers.evaluating import KNN, by_cell, scored, timeless
from helpers.resuming import small_units
from helpers.tables import config_of, labelled, write_csr, write_npz, write_parquet, write_zarr
from helpers.watching import watched
from scipy.sparse import csr_array

from mmpca_dist import run
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation import engine
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
    """Return the records, and of moments that are merged the bytes of products and hashes of other classifiers."""

    def of(scorer, *_):
        product, others = scorer.product, [joblib.hash(rule) for rule in scorer.of_reduced.values()]
        return None if product is None else (product.weights.tobytes(), product.offsets.tobytes(), others)

    with pytest.MonkeyPatch.context() as patch:
        scorers = watched(patch, engine, "make_scorer", of)
        records, *_ = scored(config)
    return timeless(records), list(filter(None, scorers))[-len(records) :]  # a pilot may have made others before


@pytest.mark.slow
@pytest.mark.parametrize("merging", [True, False], ids=["merged", "in memory"])
def test_the_same_bits_on_any_workers(merging, processes, monkeypatch, limits, tmp_path):
    uri = write_zarr(tmp_path / "rows.zarr", X, Y, 50)
    if merging:
        small_units(monkeypatch, unit_bytes=2400)
        limits.direct_bytes = 0
        monkeypatch.setattr(evaluation_scores, "read_all", lambda *_: pytest.fail("all rows in memory"))
    else:
        monkeypatch.setattr(evaluation_scores, "route", lambda *_: (False, True))
    found = [
        bits(config_of(tmp_path / str(number), uri, compute=compute, **SETTINGS))
        for number, compute in enumerate([{"workers": 1}, {"workers": 3}, {"cluster": processes}])
    ]
    assert found[0] == found[1] == found[2]
    records = found[0][0]
    assert len(records) == 3 and sum(record["rows"] for record in records) == len(X)
    assert all(record["margins"] for record in records)


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
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merging, not merging))
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


def test_wide_rows_and_a_penalty_chosen_on_all_rows_must_fit_in_memory(limits, tmp_path):
    limits.direct_bytes = 1 << 10
    uri = write_npz(tmp_path / "wide.npz", np.tile(X[:20], 4), Y[:20])
    with pytest.raises(InputError, match=r"is larger than the .* Evaluate a part of the rows"):
        scored(config_of(tmp_path / "wide", uri))
    tuned = {"splits": "folds", "classifiers": [{"name": "svm", "C": "auto"}]}
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    with pytest.raises(InputError, match=r"C: auto tries penalties on all rows in memory, .* Give C as a number"):
        scored(config_of(tmp_path / "tuned", uri, evaluation=tuned))


OWN = {
    "sparse": {"methods": ["pca", "m-pca0", "m-pca2", "fisher"], "solver": {"kind": "dense"}},
    "krylov": {"methods": ["pca", "m-pca0", "lol"], "solver": {"kind": "krylov", "passes": 6}},
    "swept": {"methods": ["pca", "bm2pca", "logistic-discriminant"], "evaluation": {"classifiers": ["own", "fisher"]}},
    "medians": {"methods": ["m-pca1b", "m-pca2"], "dataset": {"missing": "mean"}},
    "groups": {"methods": ["pca", "projection-penalty"], "evaluation": {"splits": "groups", "folds": 3}},
}


@pytest.mark.parametrize("splits", [FOLDS, {"splits": "shares", "count": 2}], ids=["folds", "shares"])
@pytest.mark.parametrize("kind", OWN)
def test_passes_over_the_rows_that_train_give_the_errors_of_rows_in_memory(kind, splits, monkeypatch, limits, tmp_path):
    """Of rows too many for memory whose methods moments do not serve; margins and notes are the same, too."""
    small_units(monkeypatch, unit_bytes=2400)
    settings = {**SETTINGS, **OWN[kind]}
    evaluation = {**splits, "classifiers": ["fisher", "naive-bayes", "svm"], **OWN[kind].get("evaluation", {})}
    rows, y = (X, Y) if kind != "swept" else (X[Y < 2], Y[Y < 2])
    if kind == "medians":
        rows = np.where(np.random.default_rng(0).random(rows.shape) < 0.1, np.nan, rows)
    if kind == "groups":
        np.save(tmp_path / "groups.npy", np.arange(len(rows)) // 10)
        evaluation["column"] = str(tmp_path / "groups.npy")
    if kind in ("sparse", "krylov"):
        rows = np.where(np.abs(rows - 3) > 0.5, rows, 0)
        parts = csr_array(rows)
        uri = write_csr(tmp_path / "rows.zarr", (parts.data, parts.indices, parts.indptr), rows.shape, labels=y)
    else:
        uri = write_zarr(tmp_path / "rows.zarr", rows, y, 50)
    settings["evaluation"] = evaluation
    expected, *_ = scored(config_of(tmp_path / "memory", uri, **settings))
    limits.direct_bytes = 0
    monkeypatch.setattr(evaluation_scores, "read_all", lambda *_: pytest.fail("all rows in memory"))
    found, *_ = scored(config_of(tmp_path / "passes", uri, **settings))
    assert by_cell(found) == by_cell(expected)
    for one, other in zip(found, expected, strict=True):
        assert [one[key] for key in ("notes", "cautions")] == [other[key] for key in ("notes", "cautions")]
        assert not one["sampled"] and len(one["margins"]) == len(other["margins"])
        for line, same in zip(one["margins"], other["margins"], strict=True):
            np.testing.assert_allclose(line["quantiles"], same["quantiles"], rtol=1e-5, atol=1e-7)


def test_n_components_of_sparse_rows_too_many_for_memory_are_chosen_as_in_memory(monkeypatch, limits, tmp_path):
    uri = write_npz(tmp_path / "rows.npz", np.where(np.abs(X - 3) > 0.5, X, 0), Y, sparse=True)
    settings = {"methods": ["pca", "m-pca0"], "n_components": "auto", "evaluation": {"folds": 3},
                "solver": {"kind": "dense"}, "project": {"methods": []}}  # fmt: skip
    expected = run(config_of(tmp_path / "memory", uri, **settings))["choose"]["methods"]
    limits.direct_bytes = 0
    monkeypatch.setattr(evaluation_scores, "read_all", lambda *_: pytest.fail("all rows in memory"))
    assert run(config_of(tmp_path / "passes", uri, **settings))["choose"]["methods"] == expected
