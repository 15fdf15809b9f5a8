"""What users of scikit-learn type: splitters, classifier objects, cv, arrays; taken, or told what to type."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_score,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mmpca_dist import MarginPCA, ReductionDisplay, evaluate, open_dataset, run
from mmpca_dist.errors import ConfigError, InputError

X, Y = load_iris(return_X_y=True)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(kind=Y)
NONE = {"methods": ["all-columns"], "margins": False}


def shared_error(result, classifier):
    return result.errors.set_index("classifier").loc[classifier, "mean"]


SPLITTERS = {
    "KFold": KFold(5, shuffle=True, random_state=1),
    "StratifiedKFold": StratifiedKFold(4, shuffle=True, random_state=2),
    "PredefinedSplit": PredefinedSplit(np.arange(150) % 3),
    "pairs": list(KFold(3, shuffle=True, random_state=3).split(X)),
}
ROWS = np.random.default_rng(0).permutation(150)
OTHERS = {
    "repeated": RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=1),
    "shuffled": ShuffleSplit(3, test_size=0.3, random_state=2),
    "later": TimeSeriesSplit(3, gap=5),
    "some never": PredefinedSplit(np.arange(150) % 4 - 1),
    "groups": StratifiedGroupKFold(3, shuffle=True, random_state=4),
}


@pytest.mark.parametrize("rows", [(X, Y), (FRAME, "kind"), (FRAME[list("abcd")], Y)], ids=["array", "name", "frame"])
@pytest.mark.parametrize("name", ["cv", "splits"])
@pytest.mark.parametrize("splitter", list(SPLITTERS))
def test_a_splitter_gives_the_parts(splitter, name, rows):
    given = SPLITTERS[splitter]
    result = evaluate(*rows, **{name: given}, **NONE, classifiers=[KNeighborsClassifier(3)])
    expected = cross_val_score(KNeighborsClassifier(3), X, Y, cv=given)
    np.testing.assert_allclose(shared_error(result, "KNeighborsClassifier"), 100 * (1 - expected.mean()), atol=0.006)


def test_a_number_of_folds_goes_as_cv():
    result = evaluate(X, Y, cv=3, **NONE, classifiers=["lda"])
    assert len(result.errors) == 1 and "3 splits" in result.verdict


@pytest.mark.parametrize("splitter", list(OTHERS))
def test_any_splitter_gives_the_rows_that_train_and_are_held_out(splitter):
    rows, labels, cv = X[ROWS], Y[ROWS], OTHERS[splitter]
    groups = {"groups": np.arange(150) // 5} if splitter == "groups" else {}
    result = evaluate(rows, labels, cv=cv, **groups, **NONE, classifiers=[KNeighborsClassifier(3), "lda"])
    for model in (KNeighborsClassifier(3), LinearDiscriminantAnalysis()):
        name = "lda" if "Linear" in str(model) else type(model).__name__
        expected = cross_val_score(model, rows, labels, cv=cv, **groups)
        np.testing.assert_allclose(shared_error(result, name), 100 * (1 - expected.mean()), atol=0.006)


@pytest.mark.parametrize(
    ("cv", "told"), [(GroupKFold(3), r"Say folds=5; splits='shares', count=10"), ([(ROWS, ROWS[:9])], "that train")]
)
def test_what_splits_no_rows_is_told_what_to_type(cv, told):
    with pytest.raises(InputError, match=told):
        evaluate(X, Y, cv=cv, **NONE)


CLASSIFIERS = [
    KNeighborsClassifier(7, weights="distance"), LogisticRegression(C=0.1, max_iter=500), SVC(C=10, gamma=0.1),
    RandomForestClassifier(20, random_state=3), LinearDiscriminantAnalysis(),
]  # fmt: skip


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_classifier_objects_are_those_that_are_evaluated(model):
    cv = SPLITTERS["StratifiedKFold"]
    result = evaluate(X, Y, cv=cv, **NONE, classifiers=[model])
    expected = 100 * (1 - cross_val_score(model, X, Y, cv=cv).mean())
    np.testing.assert_allclose(shared_error(result, type(model).__name__), expected, atol=0.006)
    same = evaluate(X, Y, cv=cv, **NONE, classifiers=type(model))  # the class, alone
    assert len(same.errors) == 1


def test_what_is_no_classifier_is_refused_by_name():
    for model in (make_pipeline(LogisticRegression()), Ridge(), KNeighborsClassifier(metric=np.linalg.norm)):
        with pytest.raises((InputError, ConfigError), match=r"no class of classifiers|metric of .* is a"):
            evaluate(X, Y, **NONE, classifiers=[model])


@pytest.mark.parametrize("rows", [X, FRAME, X.tolist(), open_dataset("bundled:iris"), MarginPCA(2)], ids=range(5))
def test_rows_given_to_run_are_told_what_to_type(rows):
    with pytest.raises(ConfigError, match=r"MarginPCA\(2\).fit\(X, y\) or evaluate\(X, y\); a run reads files: run\({"):
        run(rows, Y)


@pytest.mark.parametrize("components", [(0, 1, 2), (0,), [1, 0, 1], ()])
def test_a_picture_has_two_components(components):
    with pytest.raises(InputError, match="must be two"):
        ReductionDisplay.from_estimator(MarginPCA(3).fit(X, Y), X, Y, components=components)


def test_results_tell_what_they_lack_and_what_they_have():
    x, y = load_diabetes(return_X_y=True)
    frame = pd.DataFrame(x).add_prefix("x").assign(y=y)
    result = evaluate(frame, target="y", methods=["all-columns", "pls"], n_components=[2], cv=5)
    assert not hasattr(result, "classes") and hasattr(result, "errors") and hasattr(result, "best")
    assert getattr(result, "classes", None) is None
    with pytest.raises(InputError, match="no errors by class"):
        _ = result.classes
    assert hasattr(evaluate(X, Y, **NONE), "classes")
    errors = result.errors
    np.testing.assert_allclose(errors["mean"], 100 * (1 - errors["r2"]), atol=0.01)
    assert (errors["rmse"] > 40).all() and (errors["rmse"] < 80).all()
    assert {"r2", "rmse"} <= set(result.best.index) and "r2" not in evaluate(X, Y, **NONE).errors


def test_r2_and_rmse_are_those_of_scikit_learn():
    from sklearn.linear_model import LinearRegression

    x, y = load_diabetes(return_X_y=True)
    parts = np.arange(len(y)) % 4
    frame = pd.DataFrame(x).add_prefix("x").assign(y=y, part=parts)
    result = evaluate(frame, target="y", methods=["all-columns"], splits="given", column="part", drop=["part"])
    scores = []
    for part in range(4):
        fitted = LinearRegression().fit(x[parts != part], y[parts != part]).predict(x[parts == part])
        scores.append((r2_score(y[parts == part], fitted), root_mean_squared_error(y[parts == part], fitted)))
    np.testing.assert_allclose(result.errors[["r2", "rmse"]].iloc[0], np.mean(scores, axis=0), rtol=1e-5)


def test_pairs_of_masks_are_taken_and_rows_that_are_not_there_refused():
    odd = np.arange(150) % 2 == 1
    wanted = evaluate(
        X, Y, cv=[(np.flatnonzero(odd), np.flatnonzero(~odd)), (np.flatnonzero(~odd), np.flatnonzero(odd))]
    )
    found = evaluate(X, Y, cv=[(odd, ~odd), (~odd, odd)])
    assert found.errors["mean"].tolist() == wanted.errors["mean"].tolist()
    with pytest.raises(InputError, match=r"splits no rows .*out of bounds"):
        evaluate(X, Y, cv=[([0], [999])])
