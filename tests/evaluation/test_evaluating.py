"""Evaluations beside the whole protocol done by hand."""

import numpy as np
import pytest
from helpers.by_hand import SPLITS, assert_as_by_hand
from helpers.evaluating import KNN, by_cell, scored
from helpers.tables import config_of, counts_like_text, labelled, write_npz, write_parquet

from mmpca_dist.jobs.events import Callback
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.predictors.fits import choose_C

ROW_METHODS = ["pca", "m-pca0", "m-pca1a", "m-pca1b", "m-pca2"]
MOVED = {"name": "fisher", "options": {"threshold": "log-odds"}, "label": "moved"}
BIASED = {"name": "svm", "C": 0.1, "bias": True, "label": "with bias"}
CLASSIFIERS = ["fisher", "lda", "qda", "naive-bayes", "svm", BIASED, {"name": "logistic", "C": 10}, KNN]


class Progress(Callback):
    """Keeps how far each stage said it was, last."""

    def __init__(self):
        self.told = {}

    def on_progress(self, stage, done, total):
        self.told[stage] = (done, total)


@pytest.mark.parametrize(
    ("n_classes", "splits"),
    [(2, "shares"), (3, "folds"), *(pytest.param(n, "dealt twice", marks=pytest.mark.e2e) for n in (2, 3))],
)
def test_every_method_and_classifier_on_every_split(n_classes, splits, merging, tmp_path):
    """From rows in memory, and by merging moments of parts."""
    merging("merged")
    X, y = labelled(66, 6, n_classes, seed=1, separation=0.6)
    uri, classifiers = write_npz(tmp_path / "rows.npz", X, y), CLASSIFIERS + [MOVED] * (n_classes == 2)
    methods = [name for name, method in METHODS.items() if not method.reducer(None, method.options()).needs().swept]
    methods = [name for name in methods if name not in ("all-columns", "erase")]
    direct, merged = (
        config_of(
            tmp_path / name, uri, methods=methods, n_components=[1, 3],
            evaluation={**SPLITS[splits], "classifiers": classifiers, "margins": False},
        )
        for name in ("direct", "merged")
    )  # fmt: skip
    records = assert_as_by_hand(direct, X, y, merged)
    assert [record["split"] for record in records] == list(range(len(records)))


@pytest.mark.parametrize("splits", ["shares", "folds"])
@pytest.mark.e2e
def test_standardised_columns_with_a_constant_one_and_labels_that_are_words(splits, merging, tmp_path):
    merging("merged")
    X, y = labelled(60, 5, 3, seed=2, separation=0.7)
    X = np.column_stack([X * [1, 10, 100, 1e-3, 1], np.full(60, 0.1)])
    words = np.asarray(["spruce", "ash", "willow"])[y]
    direct, merged = (
        config_of(
            tmp_path / name, write_npz(tmp_path / "rows.npz", X, words), standardize=True, n_components=[2, 4],
            methods=[*ROW_METHODS, "lol", "hsic", "lasso", "fisher-score", "random-projection"],
            evaluation={**SPLITS[splits], "classifiers": CLASSIFIERS, "margins": False},
        )
        for name in ("direct", "merged")
    )  # fmt: skip
    assert_as_by_hand(direct, X, words, merged)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("splits", ["shares", "folds"])
@pytest.mark.e2e
def test_fewer_rows_than_columns_and_methods_that_run_out_of_components(splits, standardize, tmp_path):
    """Eighteen rows train at most, so that PCA has 17 components of the 19 asked for."""
    X, y = labelled(27, 30, 2, seed=3, separation=0.5)
    config = config_of(
        tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y), standardize=standardize, n_components=[3, 19],
        methods=[*ROW_METHODS, "fisher", "hsic", "random-projection"],
        evaluation={**SPLITS[splits], "classifiers": ["naive-bayes", "svm", KNN], "margins": False},
    )  # fmt: skip
    records = assert_as_by_hand(config, X, y)
    used = {line["method"]: line["used"] for line in records[0]["errors"] if line["n_components"] == 19}
    assert used["pca"] == 17 and used["fisher"] == used["hsic"] == 1 and used["random-projection"] == 19


@pytest.mark.parametrize("solver", ["auto", "krylov"])
@pytest.mark.e2e
def test_sparse_rows_and_solvers_in_passes(solver, tmp_path):
    """Passes until nothing is left to find: moments of the reduced rows come from the rows themselves.

    Some rows are all zeros, between whose classes a linear classifier without a constant term cannot decide.
    """
    _, X, y = counts_like_text(80, 8, 3, seed=4, dtype="float64", share=0.5)
    config = config_of(
        tmp_path / "out", write_npz(tmp_path / "rows.npz", X, y, sparse=True), n_components=[1, 3],
        methods=["pca", "m-pca0", "m-pca1a", "m-pca2", "fisher", "hsic", "lol", "fisher-score", "random-projection"],
        solver={"kind": solver, "passes": 12, "oversampling": 5, "tolerance": 0},
        evaluation={**SPLITS["shares"], "classifiers": ["fisher", "qda", BIASED, KNN], "margins": False},
    )  # fmt: skip
    assert_as_by_hand(config, X, y)


@pytest.mark.parametrize("held_out", [None, "b"])
@pytest.mark.parametrize("file", [True, False])
def test_parts_that_a_column_names(file, held_out, tmp_path):
    X, y = labelled(60, 4, 2, seed=5, separation=0.5)
    parts = np.asarray(["a", "b", "c"])[np.random.default_rng(0).integers(3, size=60)]
    np.save(tmp_path / "parts.npy", parts)
    write_parquet(tmp_path / "rows.parquet", X, y, size=13, part=parts)
    config = config_of(
        tmp_path / "out", tmp_path / "rows.parquet", methods=["pca", "m-pca2", "lasso"], n_components=[1, 2],
        dataset={"drop": ["part"]},
        evaluation={
            "splits": "given", "column": str(tmp_path / "parts.npy") if file else "part", "held_out": held_out,
            "classifiers": ["fisher", "naive-bayes", "logistic"], "margins": False,
        },
    )  # fmt: skip
    records = assert_as_by_hand(config, X, y)
    names = ["a", "b", "c"] if held_out is None else ["b"]
    assert [record["rows"] for record in records] == [int(np.sum(parts == name)) for name in names]


def test_penalties_that_are_chosen_serve_every_method_and_split(tmp_path):
    X, y = labelled(70, 5, 2, seed=6, separation=0.4)
    evaluation = {**SPLITS["folds"], "classifiers": [{"name": "svm", "C": "auto"}, "logistic"], "margins": False}
    uri = write_npz(tmp_path / "rows.npz", X, y)
    watch = Progress()
    records, _, results = scored(config_of(tmp_path / "auto", uri, evaluation=evaluation), watch)
    assert watch.told["tune"] == (30, 30)  # six values of C in five folds
    chosen = results["tune"]["penalties"]
    specs = config_of("x", uri, evaluation=evaluation).evaluation.classifiers
    assert chosen == choose_C(specs[:1], X, y, seed=5) and list(chosen) == ["svm"]
    fixed = {**evaluation, "classifiers": [{"name": "svm", "C": chosen["svm"]}, "logistic"]}
    others = scored(config_of(tmp_path / "fixed", uri, evaluation=fixed))[0]
    assert by_cell(others) == by_cell(records)
    told = "C of svm was chosen on all rows, those held out included"
    assert all(len(record["notes"]) == 1 and record["notes"][0].startswith(told) for record in records)
    assert records[0]["notes"][0].endswith(
        "errors may be too low. C: nested chooses it from the rows that train alone."
    )
    assert not any(record["notes"] for record in others)


@pytest.mark.parametrize("splits", ["shares", "folds"])
def test_penalties_are_chosen_in_standardised_columns_where_reductions_are(splits, merging, tmp_path):
    """In their own units, of which the largest is a thousandth, another C is chosen."""
    merging("merged")
    X, y = labelled(90, 5, 2, seed=6, separation=0.4)
    X = 2 + X * [1e-5, 1e-3, 1e-4, 1e-3, 1e-3]
    uri = write_npz(tmp_path / "rows.npz", X, y)
    svm = {"name": "svm", "C": "auto", "bias": True}
    config, other = (
        config_of(
            tmp_path / name, uri, methods=["pca", "m-pca1a"], n_components=[1, 3], standardize=True,
            evaluation={**SPLITS[splits], "classifiers": ["fisher", svm], "margins": False},
        )
        for name in ("direct", "merged")
    )  # fmt: skip
    assert_as_by_hand(config, X, y, other)
    chosen = scored(config)[2]["tune"]["penalties"]
    raw = config.model_copy(update={"standardize": False})
    assert scored(raw.model_copy(update={"output": str(tmp_path / "raw")}))[2]["tune"]["penalties"] != chosen
