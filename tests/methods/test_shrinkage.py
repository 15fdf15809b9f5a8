"""Shrinkage that rows held out choose: the twin's, whatever reads the rows, likelier for new ones than others."""

import dask.array as da
import naive_scatters
import numpy as np
import pandas as pd
import pytest
from helpers.tables import config_of, labelled
from scipy import sparse
from sklearn.covariance import LedoitWolf

from mmpca_dist import (
    ConceptEraser,
    FisherDiscriminant,
    ScatterContrast,
    class_moments,
    load_model,
    load_moments,
    open_dataset,
    refresh,
    run,
)
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.splits import fold_splits
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.base.shrinkage import TRIED
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.runs.evaluate import evaluate

SHAPES = {"tall": (60, 6), "few more rows": (24, 18), "wide": (24, 40)}


def chosen(estimator, X, y, **others):
    return estimator.set_params(shrinkage="auto", precision="double").fit(X, y, **others).certificate_["shrinkage"]


def twin(X, y, *scatter, **options):
    return naive_scatters.best_shrinkage(
        X, y, naive_scatters.fold_of_rows(y), TRIED, scatter or ("within", None), **options
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_scatter_has_its_twin_s(shape, weighted):
    X, y = labelled(*SHAPES[shape], 3, seed=1)
    w = np.random.default_rng(2).integers(1, 4, len(X)) if weighted else None
    named = {("within", None): "within", ("total", None): "total", ("class", 1): {"class": {1: 1}}}
    for scatter, B in named.items():
        found = chosen(ScatterContrast(A=None, B=B), X, y, sample_weight=w)
        assert found == twin(X, y, *scatter, w=w)
    assert chosen(FisherDiscriminant(), X, y, sample_weight=w) == twin(X, y, w=w)
    eraser = ConceptEraser(shrinkage="auto", precision="double").fit(X, y, sample_weight=w)
    given = ConceptEraser(shrinkage=twin(X, y, w=w), precision="double").fit(X, y, sample_weight=w)
    np.testing.assert_allclose(eraser.transform(X), given.transform(X), atol=1e-9 * np.abs(X).max())


@pytest.mark.parametrize("options", [{"standardize": True}, {"class_weight": {0: 1.0, 1: 3.0, 2: 1.0}}], ids=str)
def test_options_of_the_scatter(options):
    X, y = labelled(60, 6, 3, seed=1)
    of_twin = {"standardize": options.get("standardize", False), "reweight": options.get("class_weight")}
    assert chosen(FisherDiscriminant(**options), X * [1, 9, 1, 1, 1, 1], y) == twin(
        X * [1, 9, 1, 1, 1, 1], y, **of_twin
    )


def test_gaps_are_filled_by_the_rows_that_train():
    X, y = labelled(80, 5, 2, seed=4)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    assert chosen(FisherDiscriminant(missing="mean"), X, y) == twin(X, y)


def test_columns_that_are_constant_or_depend_on_others_do_not_count():
    """Their density would be infinite without shrinkage, whatever the other columns say."""
    X, y = labelled(60, 6, 3, seed=1)
    whole = np.column_stack([X, np.full(60, 7.0), X[:, 0] - X[:, 1]])
    assert chosen(FisherDiscriminant(), whole, y) == twin(whole, y) > 1e-3


def test_sparse_rows_dask_arrays_and_pooled_scatters(monkeypatch):
    X, y = labelled(60, 6, 3, seed=1)
    X[np.abs(X) < 0.7] = 0
    expected = chosen(FisherDiscriminant(), X, y)
    assert chosen(FisherDiscriminant(), sparse.csr_array(X), y) == expected
    assert chosen(FisherDiscriminant(), da.from_array(X, chunks=(60, 6)), da.from_array(y, chunks=60)) == expected
    monkeypatch.setattr(LIMITS, "pooled_bytes", 3 * 6 * 6 * 8)
    assert chosen(FisherDiscriminant(), X, y) == expected


@pytest.mark.parametrize(("n", "d"), [(300, 20), (1000, 20), (400, 100)])
def test_it_is_likelier_for_new_rows_than_that_of_ledoit_and_wolf(n, d):
    """Theirs is the best for the squared error of entries, which asks for more than the likelihood does."""
    rng = np.random.default_rng(0)
    root = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.sqrt(np.linspace(0.2, 3, d))
    X = rng.standard_normal((n, d)) @ root.T
    S, covariance = np.cov(X.T, bias=True), root @ root.T

    def loss(g):
        W = (1 - g) * S + g * np.trace(S) / d * np.eye(d)
        return np.linalg.slogdet(W)[1] + np.trace(np.linalg.solve(W, covariance))

    best = min(loss(g) for g in TRIED)
    found, theirs = loss(chosen(ScatterContrast(A=None, B="total"), X, None)), loss(LedoitWolf().fit(X).shrinkage_)
    assert found - best < 0.3 * (theirs - best)


@pytest.mark.usefixtures("no_report")
def test_runs_take_one_pass_and_say_what_was_chosen(tmp_path):
    X, y = labelled(200, 6, 3, seed=1)
    uri = str(tmp_path / "rows.parquet")
    pd.DataFrame(X, columns=[f"c{j}" for j in range(6)]).assign(y=y).to_parquet(uri)
    shared = {"dataset": {"uri": uri, "label": "y"}, "n_components": [2]}
    fisher = run(config_of(tmp_path / "fisher", methods=[{"name": "fisher", "shrinkage": "auto"}], **shared))
    assert fisher["reduce"]["passes"] == ["moments"]
    model = load_model(str(tmp_path / "fisher"), "fisher")
    assert model.certificate_["shrinkage"] == twin(X, y)
    with pytest.raises(AttributeError, match="rows that are held out choose the shrinkage"):
        model.partial_fit(X, y)
    erased = run(config_of(tmp_path / "erase", methods=[{"name": "erase", "shrinkage": "auto"}], **shared))
    rows = Rows.of(open_dataset(uri, label="y"), Threads(1))
    (parts,) = fold_splits(rows, 5).codes(rows.dataset.batch(0, len(y), X=False))
    assert erased["reduce"]["passes"] == ["moments"], "its folds are those of the probes"
    assert erased["solve"]["models"]["erase"]["certificate"]["shrinkage"] == naive_scatters.best_shrinkage(
        X, y, parts, TRIED
    )
    assert erased["erasure"]["right"]["erase"]["after"] < erased["erasure"]["right"]["erase"]["before"]


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("limit", [0, 1 << 20], ids=["merged moments", "rows in memory"])
def test_evaluations_choose_among_the_rows_that_train(limit, tmp_path, limits):
    limits.direct_bytes = limit
    config = config_of(tmp_path, "bundled:iris", methods=[{"name": "fisher", "shrinkage": "auto"}], n_components=[2],
                       evaluation={"splits": "folds", "folds": 4, "count": 1, "classifiers": ["lda"]})  # fmt: skip
    evaluate(config)
    (row,) = [row for row in result_in(str(tmp_path / "evaluation")).rows if row["method"] == "fisher"]
    assert float(row["lda"].split()[0].rstrip("%")) < 5, row


def test_what_knows_no_folds_says_so():
    X, y = labelled(60, 6, 3, seed=1)
    halves = [class_moments(X[i::2], y[i::2], precision="double") for i in range(2)]
    of_halves = FisherDiscriminant.from_moments(halves, shrinkage="auto", precision="double")
    assert of_halves.certificate_["shrinkage"] == naive_scatters.best_shrinkage(X, y, np.arange(60) % 2, TRIED)
    with pytest.raises(InputError, match="moments of two folds or more"):
        FisherDiscriminant.from_moments(class_moments(X, y), shrinkage="auto")
    with pytest.raises(InputError, match="total, within or a single class"):
        ScatterContrast(A=None, B={"class": {0: 1, 1: 1}}, shrinkage="auto").fit(X, y)
    with pytest.raises(InputError, match=r"shrinkage='more' must be a number .*, or 'auto'"):
        FisherDiscriminant(shrinkage="more").fit(X, y)


def test_a_named_class_that_a_fold_lacks_is_judged_by_the_other_folds():
    X, y = labelled(60, 6, 3, seed=1)
    few = np.r_[np.flatnonzero(y != 1), np.flatnonzero(y == 1)[:4]]  # of five folds one has no row of the class
    assert TRIED[0] <= chosen(ScatterContrast(A="total", B={"class": 1}), X[few], y[few]) <= TRIED[-1]


@pytest.mark.parametrize("options", [{"class_weight": "balanced"}, {"B": {"class": 1}}], ids=str)
def test_scatters_of_single_classes_are_kept_where_folds_would_pool_them(options, monkeypatch):
    X, y = labelled(90, 6, 3, seed=1)
    X, y = X[10:], y[10:]
    apart = chosen(ScatterContrast(**options), X, y)
    monkeypatch.setattr(LIMITS, "pooled_bytes", 3 * 6 * 6 * 8)
    assert chosen(ScatterContrast(**options), X, y) == apart


def test_a_refresh_leaves_out_what_rows_held_out_choose(tmp_path):
    X, y = labelled(60, 6, 3, seed=1)
    methods = ["pca", {"name": "fisher", "shrinkage": "auto"}]
    for name, rows in (("rows", X), ("new", X + 0.1)):
        pd.DataFrame(rows).rename(columns=str).assign(label=y).to_parquet(tmp_path / f"{name}.parquet")
    dataset = {"uri": str(tmp_path / "rows.parquet"), "label": "label"}
    run({"dataset": dataset, "methods": methods, "n_components": 2, "output": str(tmp_path / "run")})
    record = refresh(str(tmp_path / "run"), str(tmp_path / "new.parquet"), str(tmp_path / "more"))
    assert record["left_out"] == {"fisher": "rows that are held out choose its shrinkage"}


def test_labels_beyond_the_whole_numbers_of_a_double_come_back(tmp_path):
    X, y = labelled(60, 6, 2, seed=1)
    labels = y + np.int64(2**60)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", labels)
    dataset = {"uri": str(tmp_path / "X.npy"), "label": str(tmp_path / "y.npy")}
    run({"dataset": dataset, "methods": ["pca"], "n_components": 2, "output": str(tmp_path / "run")})
    assert load_moments(str(tmp_path / "run")).classes.tolist() == [2**60, 2**60 + 1]
