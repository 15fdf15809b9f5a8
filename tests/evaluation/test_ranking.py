"""Areas under ROC curves and average precisions of two classes, with ties and weights, from any engine."""

import naive_evaluation
import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.evaluating import KNN, scored
from helpers.samples import batch_of
from helpers.tables import config_of, labelled, write_parquet
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from mmpca_dist.evaluation import scorers
from mmpca_dist.evaluation.ranking import ranks
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.runs.evaluate import evaluate

X, Y = labelled(240, 5, 2, seed=3, separation=0.4)
W = np.random.default_rng(0).integers(1, 5, len(Y)).astype(float)


@pytest.mark.parametrize("levels", [3, 1000])
@pytest.mark.parametrize("weighted", [False, True])
def test_they_are_those_of_the_definition_and_of_scikit_learn(levels, weighted):
    rng = np.random.default_rng(levels)
    scores, positive = rng.integers(levels, size=80) / 7, rng.random(80) < 0.3
    weights = rng.random(80) if weighted else None
    found = ranks(scores, positive, weights)
    twin = naive_evaluation.ranks(scores.tolist(), positive.tolist(), np.ones(80) if weights is None else weights)
    np.testing.assert_allclose([found["auc"], found["average_precision"]], twin, rtol=1e-12)
    others = [measure(positive, scores, sample_weight=weights) for measure in (roc_auc_score, average_precision_score)]
    np.testing.assert_allclose([found["auc"], found["average_precision"]], others, rtol=1e-12)


def test_of_rows_of_one_class_or_without_scores_there_are_none():
    assert ranks(np.arange(3.0), np.ones(3, bool)) == ranks(np.arange(3.0), np.zeros(3, bool)) == {}
    assert ranks(None, np.array([True, False])) == {}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("merged", [False, True])
def test_an_evaluation_has_those_of_scikit_learn(merged, weighted, monkeypatch, tmp_path):
    """By the scores of rules, and of classifiers that are fitted to rows."""
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merged, not merged))
    uri = write_parquet(tmp_path / "rows.parquet", X, Y, **({"w": W} if weighted else {}))
    classifiers = ["lda", "naive-bayes", {"name": "svm", "bias": False}, *([] if weighted else [KNN])]
    config = config_of(
        tmp_path / "out", uri, methods=["pca"], n_components=[2], dataset={"weight": "w"} if weighted else {},
        evaluation={"splits": "folds", "folds": 3, "classifiers": classifiers, "margins": False},
    )  # fmt: skip
    records, splits, _ = scored(config)
    parts = splits.codes(batch_of(Y))[0]
    for part, record in enumerate(records):
        train, test = parts != part, parts == part
        lines = {line["classifier"]: line for line in record["errors"] if line["method"] == "pca"}
        assert all(0 <= line["auc"] <= 1 and 0 <= line["average_precision"] <= 1 for line in lines.values())
        if weighted:
            continue
        Z = X @ PCA(2).fit(X[train]).components_.T
        fitted = {
            "lda": LinearDiscriminantAnalysis(), "naive-bayes": GaussianNB(), "knn": KNeighborsClassifier(3),
            "svm": LinearSVC(fit_intercept=False, dual=False, tol=1e-10, max_iter=100_000),
        }  # fmt: skip
        for name, model in fitted.items():
            model.fit(Z[train], Y[train])
            scores = (
                model.decision_function(Z[test]) if hasattr(model, "decision_function")
                else np.log(model.predict_proba(Z[test]) + 1e-300) @ [-1, 1]
            )  # fmt: skip
            np.testing.assert_allclose(lines[name]["auc"], roc_auc_score(Y[test], scores), rtol=1e-9)
            expected = average_precision_score(Y[test], scores)
            np.testing.assert_allclose(lines[name]["average_precision"], expected, rtol=1e-9)


def test_scores_of_many_rows_are_not_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (True, False))
    monkeypatch.setattr(scorers, "RANKED_BYTES", 8 * len(Y))
    uri = write_parquet(tmp_path / "rows.parquet", X, Y)
    wanted = {"splits": "folds", "folds": 3, "classifiers": ["lda"], "margins": False}
    for methods, there in ((["all-columns"], True), (["all-columns", "pca"], False)):
        name = "-".join(methods)
        records, *_ = scored(config_of(tmp_path / name, uri, methods=methods, n_components=[2], evaluation=wanted))
        assert all(("auc" in line) == there for record in records for line in record["errors"])


def test_the_report_and_its_tables_have_their_means(tmp_path):
    uri = write_parquet(tmp_path / "rows.parquet", X, Y)
    wanted = {"splits": "folds", "folds": 3, "classifiers": ["lda"], "margins": False}
    result = evaluate(config_of(tmp_path / "out", uri, methods=["pca"], n_components=[2], evaluation=wanted))
    table = pq.read_table(tmp_path / "out" / "evaluation" / "tables" / "errors.parquet").to_pandas()
    means = table.groupby("method")[["auc", "average_precision"]].mean()
    _, heading, *rows = result["compare"]["tables"]["ranking"]
    assert heading == ["method", "components", "classifier", "AUC", "average precision"]
    assert len(rows) == len(means) == 2
    for (_, _, _, *shown), method in zip(rows, ["pca", "all-columns"], strict=True):
        for own, expected in zip(shown, means.loc[method], strict=True):
            assert own.startswith(f"{expected:.3f} (")
