"""What an estimator says of rows that give poor components, and names and progress that people look for."""

import sys

import numpy as np
import pytest
from helpers.runs import make_config
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from mmpca_dist import FisherDiscriminant, FisherScore, LassoSelection, MarginPCA, ProgressLines, open_dataset, run
from mmpca_dist.errors import InputError

WINE = load_wine(return_X_y=True)


def test_shrinkage_that_drowns_columns_is_told(recwarn):
    """Proline varies a hundred thousand times as much as hue: what the others tell is lost, unless standardised."""
    with pytest.warns(UserWarning, match="10 of 13 columns .* Set standardize to true, or lower shrinkage"):
        FisherDiscriminant().fit(*WINE)
    scores = [
        cross_val_score(make_pipeline(FisherDiscriminant(**options), LinearDiscriminantAnalysis()), *WINE, cv=5).mean()
        for options in ({"standardize": False}, {"standardize": True}, {"shrinkage": 0})
    ]
    assert scores[0] < min(scores[1:]) - 0.02
    recwarn.clear()
    FisherDiscriminant(standardize=True).fit(*WINE)
    FisherDiscriminant().fit(*load_digits(return_X_y=True))  # its columns of little variance tell little
    assert not recwarn.list


@pytest.mark.parametrize("make", [FisherScore, LassoSelection])
def test_chosen_columns_keep_their_names(make):
    frame, y = load_iris(return_X_y=True, as_frame=True)
    model = make(2).fit(frame, y)
    names = [frame.columns[j] for j in model.columns_]
    assert model.get_feature_names_out().tolist() == names
    assert model.set_output(transform="pandas").transform(frame).columns.tolist() == names
    assert (
        sorted(model.columns_)
        == model.get_support(indices=True).tolist()
        == np.flatnonzero(model.get_support()).tolist()
    )


def test_classes_that_were_told_are_all(recwarn):
    X, y = load_iris(return_X_y=True)
    model = MarginPCA(2).partial_fit(X[:100], y[:100], classes=[0, 1])
    with pytest.raises(InputError, match="Label 2 in X is none of the known classes"):
        model.partial_fit(X, y)
    assert model.partial_fit(X, y, classes=[0, 1, 2]).classes_.tolist() == [0, 1, 2]
    grown = MarginPCA(2).fit(X[:100], y[:100]).partial_fit(X, y)
    assert grown.classes_.tolist() == [0, 1, 2]


def test_text_of_numbers_is_told():
    frame, y = load_iris(return_X_y=True, as_frame=True)
    with pytest.warns(UserWarning, match="Text of X holds numbers.*'sepal length .cm.'"):
        MarginPCA(2).fit(frame.astype(str), y)


@pytest.mark.e2e
def test_notebooks_tell_how_far_a_run_is(tmp_path, no_report, capsys, monkeypatch):
    run(make_config(tmp_path / "a", methods=["pca"], n_components=2))
    assert capsys.readouterr().err == ""
    for name, callbacks in (("b", [ProgressLines()]), ("c", None)):
        if callbacks is None:
            monkeypatch.setitem(sys.modules, "ipykernel", sys)
        run(make_config(tmp_path / name, methods=["pca"], n_components=2), callbacks)
        written = capsys.readouterr()
        told = written.err if callbacks else written.out  # notebooks show the standard error as errors
        assert "reduce: " in told and "solve: " in told
    run(make_config(tmp_path / "c", methods=["pca"], n_components=2))
    assert "reduce: done before" in capsys.readouterr().out


@pytest.mark.parametrize("uri", ["bundled:wine", "synthetic:gaussian?n=50&d=3"])
def test_tables_with_labels_of_their_own_take_no_others(uri):
    with pytest.raises(InputError, match="has labels of its own"):
        open_dataset(uri, label="species")
