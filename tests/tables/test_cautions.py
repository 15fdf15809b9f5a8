"""What an estimator says of rows that give poor components, or vary by less than can be squared."""

import sys

import numpy as np
import pytest
from helpers.tables import make_config
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from mmpca_dist import (
    FisherDiscriminant,
    FisherScore,
    LassoSelection,
    MarginPCA,
    MaximumMarginCriterion,
    ProgressLines,
    SupervisedPCA,
    class_moments,
    open_dataset,
    run,
)
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


def test_text_of_numbers_is_refused_and_a_few_whole_ones_are_told():
    frame, y = load_iris(return_X_y=True, as_frame=True)
    with pytest.raises(InputError, match=r"(?s)sepal length .cm.  150 numbers.*pd\.to_numeric"):
        MarginPCA(2).fit(frame.astype(str), y)
    grades = frame.round().astype(int).astype(str)
    with pytest.warns(UserWarning, match="Text of X holds numbers.*'sepal length .cm.'"):
        MarginPCA(2).fit(grades, y)


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


RNG = np.random.default_rng(0)
TALL, WIDE = (RNG.standard_normal((200, 6)), np.arange(200) % 3), (RNG.standard_normal((20, 60)), np.arange(20) % 2)
SINGLE = "The rows vary by less than 1e-38, whose squares are zero in single precision; set precision: double"
DOUBLE = "The rows vary by less than 1e-146, whose squares are zero in double precision; scale them up"
FITS = {
    "m-pca1": (MarginPCA(n_components=1), TALL),
    "passes": (MarginPCA(n_components=1, solver="krylov"), TALL),
    "criterion": (MaximumMarginCriterion(n_components=1), TALL),
    "fisher": (FisherDiscriminant(n_components=1), TALL),
    "supervised": (SupervisedPCA(n_components=1), TALL),
    "wide": (MarginPCA(n_components=1), WIDE),
}


@pytest.mark.parametrize("scale", [1e-160, 1e-200, 1e-300])
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("name", FITS)
def test_values_whose_squares_vanish(name, precision, scale):
    model, (X, y) = FITS[name]
    with pytest.raises(InputError) as caught:
        model.set_params(precision=precision).fit(X * scale, y)
    told = DOUBLE if precision == "double" or name == "wide" else SINGLE
    assert str(caught.value).startswith(f"{type(model).__name__}: {told}")


@pytest.mark.parametrize(("precision", "scale"), [("single", 2.0**-120), ("double", 2.0**-450)])
def test_smaller_values_of_other_columns_or_rows_do_not_matter(precision, scale):
    """Beside larger ones they are zero up to rounding, wherever the sample of the spread falls."""
    X, y = TALL
    expected = class_moments(X, y, precision=precision).scatters
    found = class_moments(X * scale, y, precision=precision).scatters
    np.testing.assert_allclose(found / scale**2, expected, rtol=1e-5 if precision == "single" else 1e-12, atol=1e-4)
    columns = X * np.where(np.arange(6) < 3, 1, 1e-250)
    np.testing.assert_array_equal(class_moments(columns, y, precision="double").scatters[:, 3:, 3:], 0)
    few = np.tile(X * 1e-250, (50, 1))
    few[7] = 1
    assert class_moments(few, np.tile(y, 50), precision="double").trace([1, 1, 1]) > 1


def test_rows_that_are_equal_are_not_called_tiny():
    X, y = TALL
    assert not class_moments(np.full_like(X, 1e-200), y, precision="double").scatters.any()
