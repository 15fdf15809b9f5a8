"""Evaluations of many classes of real rows, beside those of scikit-learn on the same splits."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.evaluating import by_cell, config_of, scored, store
from helpers.samples import labelled
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from mmpca_dist.errors import InputError

CLASSIFIERS = {
    "lda": LinearDiscriminantAnalysis(),
    "qda": QuadraticDiscriminantAnalysis(),
    "naive-bayes": GaussianNB(),
}

LINEAR = ["fisher", "lda"]


def parts_of(splits, y):
    """Yield which rows train and which are held out, by number as records have it."""
    for split in range(splits.n_splits):
        codes = splits.codes(0, len(y), y)[split]
        for part in splits.held_out:
            yield codes != part, codes == part


def assert_like_scikit_learn(config, X, y, most, reducer):
    """Compare every cell of PCA; ``most`` rows may fall on the other side, for they are next to a border."""
    records, splits, _ = scored(config)
    found = by_cell(records)
    for number, (train, test) in enumerate(parts_of(splits, y)):
        assert records[number]["rows"] == test.sum()
        largest = reducer(config.largest).fit(X[train])
        reduced = largest.transform(X)
        for size in config.n_components:
            Z = reduced[:, :size]
            for name, classifier in CLASSIFIERS.items():
                used, errors = found[number, "pca", size, name]
                expected = np.sum(classifier.fit(Z[train], y[train]).predict(Z[test]) != y[test])
                assert used == size
                assert abs(errors - expected) <= most, (number, size, name)
    return found, records


@pytest.mark.slow
def test_mnist_in_folds(real_path, real_data, tmp_path):
    """Ten digits; moments of folds are merged."""
    X, y = real_data("mnist")
    config = config_of(
        tmp_path / "out", real_path("mnist.npz"), methods=["pca", "m-pca0", "fisher"], n_components=[5, 20],
        evaluation={"splits": "folds", "folds": 3, "classifiers": list(CLASSIFIERS), "margins": False},
    )  # fmt: skip
    found, records = assert_like_scikit_learn(
        config, X.astype(np.float64), y, 3, lambda k: PCA(k, svd_solver="covariance_eigh")
    )
    errors = {key[1:3]: count for key, (_, count) in found.items() if key[0] == 0 and key[3] == "lda"}
    # Nine directions of Fisher's are all that tells ten classes apart by lines; no other twenty do better.
    assert errors["fisher", 20] < min(errors["pca", 20], errors["m-pca0", 20])
    assert max(count for (_, size), count in errors.items() if size == 20) < records[0]["rows"] / 4


@pytest.mark.slow
def test_text_of_twenty_newsgroups(real_path, tmp_path):
    """15,935 x 62,061 sparse rows: more columns than a scatter matrix could have."""
    from mmpca_dist import open_dataset

    dataset = open_dataset(real_path("newsgroups20.npz"))
    X, y = dataset.read_sparse(0, dataset.n_rows).astype(np.float64), dataset.read_labels(0, dataset.n_rows)
    config = config_of(
        tmp_path / "out", real_path("newsgroups20.npz"), methods=["pca", "m-pca0"], n_components=[5, 20],
        evaluation={"splits": "shares", "count": 1, "classifiers": list(CLASSIFIERS), "margins": False},
    )  # fmt: skip
    found, records = assert_like_scikit_learn(config, X, y, 5, lambda k: PCA(k, svd_solver="arpack", random_state=0))
    (rows,) = {record["rows"] for record in records}
    for method in config.labels:  # naming one class for all errs in 0.94
        assert min(errors for key, (_, errors) in found.items() if key[1] == method) < 0.85 * rows


@pytest.mark.parametrize("margins", [False, True])
def test_classes_whose_reduced_scatters_do_not_fit(margins, limits, tmp_path):
    """Classifiers that need the sum of the scatters find it; the others say what they lack."""
    X, y = labelled(240, 6, 8, seed=3)
    limits.pooled_bytes = 8 * 3 * 3 * 8 - 1
    settings = {"n_components": [2, 3], "methods": ["pca", "fisher"]}
    shares = {"splits": "shares", "count": 2, "margins": margins}
    uri = store(tmp_path / "rows.npz", X, y)
    pooled = scored(config_of(tmp_path / "out", uri, **settings, evaluation={**shares, "classifiers": LINEAR}))[0]
    limits.pooled_bytes = 1 << 28
    separate = scored(config_of(tmp_path / "one", uri, **settings, evaluation={**shares, "classifiers": LINEAR}))[0]
    assert by_cell(pooled) == by_cell(separate)
    limits.pooled_bytes = 8 * 3 * 3 * 8 - 1
    with pytest.raises(InputError, match=r"In split [01]: qda needs the scatter of each class, and those of 8"):
        scored(config_of(tmp_path / "two", uri, **settings, evaluation={**shares, "classifiers": ["qda"]}))
