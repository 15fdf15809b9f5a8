"""Evaluations of many classes of real rows, beside those of scikit-learn on the same splits."""

import numpy as np
import pytest
from helpers.evaluating import by_cell, scored
from helpers.resuming import small_units
from helpers.samples import batch_of
from helpers.tables import config_of, labelled, write_npz, write_zarr
from helpers.watching import allocated
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from mmpca_dist.errors import InputError, PlanError
from mmpca_dist.evaluation import scorers, training
from mmpca_dist.evaluation.margins import signed_distances
from mmpca_dist.predictors.linear import rule_of_scores
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.runs.evaluate import preview_evaluation

CLASSIFIERS = {"lda": LinearDiscriminantAnalysis(), "qda": QuadraticDiscriminantAnalysis(), "naive-bayes": GaussianNB()}

LINEAR = ["fisher", "lda"]


def parts_of(splits, y):
    """Yield which rows train and which are held out, by number as records have it."""
    for split in range(splits.n_splits):
        codes = splits.codes(batch_of(y))[split]
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
    uri = write_npz(tmp_path / "rows.npz", X, y)
    pooled = scored(config_of(tmp_path / "out", uri, **settings, evaluation={**shares, "classifiers": LINEAR}))[0]
    limits.pooled_bytes = 1 << 28
    separate = scored(config_of(tmp_path / "one", uri, **settings, evaluation={**shares, "classifiers": LINEAR}))[0]
    assert by_cell(pooled) == by_cell(separate)
    limits.pooled_bytes = 8 * 3 * 3 * 8 - 1
    with pytest.raises(InputError, match=r"In split [01]: qda needs the scatter of each class, and those of 8"):
        scored(config_of(tmp_path / "two", uri, **settings, evaluation={**shares, "classifiers": ["qda"]}))


METHODS = ["pca", "m-pca0", "m-pca1a", {"name": "m-pca1a", "pairing": "one-vs-one", "label": "pairs"}, "fisher", "hsic",
           "mmc", "lol", "pls"]  # fmt: skip
SPLITS = {
    "folds": {"splits": "folds", "folds": 3, "count": 2},
    "shares": {"splits": "shares", "count": 2},
    "groups": {"splits": "groups", "folds": 3},
    "time": {"splits": "time", "windows": 3},
}


def rows_of_many_classes(n=900, d=6, n_classes=40, seed=3):
    """Return rows, labels, and a column of groups, or times, whose first one has rows of every class."""
    X, y = labelled(n, d, n_classes, seed=seed, separation=2.0)
    y[: 6 * n_classes] = np.arange(6 * n_classes) % n_classes
    column = np.random.default_rng(seed).integers(1, 30, n)
    column[: 6 * n_classes] = np.arange(6 * n_classes) // n_classes
    return X, y, column


def evaluated(folder, rows, kind, monkeypatch, **settings):
    """Return the errors by cell, and whether the moments that methods were fitted to were pooled."""
    folder.mkdir()
    X, y, column = rows
    np.save(folder / "column.npy", column)
    more = {"column": str(folder / "column.npy")} if kind in ("groups", "time") else {}
    settings = {"classifiers": LINEAR, "margins": False, **SPLITS[kind], **more, **settings}
    pooled, statistics = set(), training.tall_statistics
    with monkeypatch.context() as patch:
        patch.setattr(training, "tall_statistics", lambda m, *a, **o: pooled.add(m.pooled) or statistics(m, *a, **o))
        uri = write_zarr(folder / "rows.zarr", X, y, 50)
        config = config_of(folder / "out", uri, methods=METHODS, n_components=[2, 4], evaluation=settings)
        return by_cell(scored(config)[0]), pooled


@pytest.mark.parametrize(
    "kind", ["folds", *(pytest.param(kind, marks=pytest.mark.e2e) for kind in ("shares", "groups", "time"))]
)
def test_pooled_moments_give_the_errors_of_those_of_each_class(kind, limits, monkeypatch, tmp_path):
    """So do the rows in memory, and other chunks."""
    rows = rows_of_many_classes()
    in_memory, pooled = evaluated(tmp_path / "memory", rows, "shares" if kind == "shares" else kind, monkeypatch)
    assert pooled == (set() if kind == "shares" else {False})  # of a share, rows in memory are the default
    limits.direct_bytes = 0
    separate, pooled = evaluated(tmp_path / "separate", rows, kind, monkeypatch)
    assert pooled == {False}
    limits.pooled_bytes = 0
    whole, pooled = evaluated(tmp_path / "pooled", rows, kind, monkeypatch)
    assert pooled == {True}
    small_units(monkeypatch, unit_bytes=2400)
    cut, pooled = evaluated(tmp_path / "cut", rows, kind, monkeypatch)
    assert pooled == {True}
    assert in_memory == separate == whole == cut
    assert len({errors for _, errors in whole.values()}) > 20


@pytest.mark.parametrize("margins", [False, True])
@pytest.mark.parametrize("merging", [True, False], ids=["merged", "in memory"])
@pytest.mark.e2e
def test_rows_are_scored_in_blocks_to_the_same_errors(merging, margins, limits, monkeypatch, tmp_path):
    """Classifiers from moments and from rows, and from products of the reduced rows where classes are many."""
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merging, not merging))
    X, y, _ = rows_of_many_classes()
    settings = {"splits": "shares", "count": 2, "classifiers": [*LINEAR, "svm"], "margins": margins}
    uri = write_npz(tmp_path / "rows.npz", X, y)

    def records(name):
        return scored(config_of(tmp_path / name, uri, methods=["pca", "fisher"], evaluation=settings))[0]

    expected = records("one")
    limits.score_bytes = 24 * 40 * 7  # seven rows
    monkeypatch.setattr(scorers, "MAX_DECISIONS", 0)
    blocks = records("blocks")
    assert by_cell(blocks) == by_cell(expected)
    for one, other in zip(expected, blocks, strict=True):
        assert len(one["margins"]) == len(other["margins"]) == 3 * margins
        for line, same in zip(one["margins"], other["margins"], strict=True):
            np.testing.assert_allclose(same["quantiles"], line["quantiles"], rtol=1e-9, atol=1e-12)


def test_predictions_and_distances_hold_scores_of_some_rows(limits):
    """Scores of 2,000 rows for 5,000 classes are 80 MB."""
    limits.score_bytes = 4 << 20
    rng = np.random.default_rng(5)
    Z, y = rng.standard_normal((2000, 3)), rng.integers(5, size=2000)
    rule = rule_of_scores(rng.standard_normal((5000, 3)), rng.standard_normal(5000))
    scores = rule.decision_function(Z)
    with allocated() as memory:
        named, distances = rule.predict(Z), signed_distances(rule, Z, y)
    np.testing.assert_array_equal(named, scores.argmax(axis=1))
    for row in range(0, 2000, 97):
        lengths = np.linalg.norm(rule.coef[y[row]] - rule.coef, axis=1)
        others = lengths > 0
        expected = (scores[row, y[row]] - scores[row, others]) / lengths[others]
        np.testing.assert_allclose(distances[row], expected.min(), rtol=1e-9)
    assert memory.peak < 12 << 20


@pytest.mark.e2e
def test_a_classifier_that_needs_the_scatter_of_each_class_gets_it(limits, monkeypatch, tmp_path):
    limits.direct_bytes = 0
    rows = rows_of_many_classes()
    expected, _ = evaluated(tmp_path / "one", rows, "folds", monkeypatch, classifiers=["fisher", "naive-bayes"])
    limits.pooled_bytes = 0
    found, pooled = evaluated(tmp_path / "two", rows, "folds", monkeypatch, classifiers=["fisher", "naive-bayes"])
    assert found == expected and pooled == {False}


def plan_of(tmp_path, shape, limits, direct_bytes, **evaluation):
    """Return the plan of an evaluation of rows that are there by their shape alone."""
    n, d, n_classes = shape
    path = tmp_path / "rows.npz"
    np.savez(path, X=np.zeros((n, d), np.float16), y=np.arange(n) % n_classes)
    limits.direct_bytes = direct_bytes
    compute = {"workers": 2, "memory_limit": "1GiB"}
    settings = {"classifiers": ["fisher"], "margins": False, **evaluation}
    return preview_evaluation(
        config_of(tmp_path / "out", path, methods=["pca", "fisher"], compute=compute, evaluation=settings)
    )


@pytest.mark.parametrize(("shape", "direct_bytes"), [((60_000, 60, 20_000), 1 << 30), ((60_000, 128, 20_000), 0)])
@pytest.mark.parametrize("splits", [{"splits": "folds", "folds": 2}, {"splits": "shares", "count": 1}])
def test_twenty_thousand_classes_are_planned(shape, direct_bytes, splits, limits, tmp_path):
    plan = plan_of(tmp_path, shape, limits, direct_bytes, **splits)
    plan.refuse_if_too_large()
    assert plan.memory < 1.5 * (1 << 30)


def test_a_plan_that_is_too_large_for_its_classes_says_so(limits, tmp_path):
    plan = plan_of(tmp_path, (20_000, 160, 5000), limits, 0, classifiers=["fisher", "qda"], splits="folds", folds=3)
    with pytest.raises(PlanError, match=r"fewer columns, classes, folds or windows, no margins .* or no qda\.$"):
        plan.refuse_if_too_large()
