"""Displays draw the numbers of the estimators, with real names, on axes that are given or new."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mmpca_dist import LassoSelection, LoadingsDisplay, MarginPCA, ReductionDisplay, SpectrumDisplay
from mmpca_dist.errors import InputError

X, Y = load_iris(return_X_y=True, as_frame=True)


@pytest.fixture(autouse=True)
def pyplot():
    mpl.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_rows_by_class_or_by_number(pyplot):
    model = make_pipeline(StandardScaler(), MarginPCA(3)).fit(X, Y)
    Z, (_, ax) = model.transform(X), pyplot.subplots()
    shown = ReductionDisplay.from_estimator(model, X, Y, components=(2, 0), ax=ax, s=3)
    assert shown.ax_ is ax and shown.figure_ is ax.figure
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("marginpca2", "marginpca0")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]
    for label, points in enumerate(ax.collections):
        np.testing.assert_array_equal(points.get_offsets(), Z[label == Y][:, [2, 0]])
    by_number = ReductionDisplay.from_estimator(model, X, X.iloc[:, 0])
    np.testing.assert_array_equal(by_number.ax_.collections[0].get_array(), X.iloc[:, 0])
    assert by_number.plot().ax_ is not by_number.plot(ax).figure_
    with pytest.raises(InputError, match="no component 3: there are 3, counted from 0"):
        ReductionDisplay.from_estimator(model, X, components=(0, 3))
    wrong = (model, X, Y[:9], "X has 150 rows, and y 9 labels"), (model, X, "kind", "X has no column 'kind'")
    for estimator, rows, y, words in (*wrong, (make_pipeline(GaussianNB()), X, Y, r"leave it out, as model\[:-1\]")):
        with pytest.raises(InputError, match=words):
            ReductionDisplay.from_estimator(estimator, rows, y)
    assert repr(by_number) == "<ReductionDisplay>"


def test_classes_have_names_and_only_floats_a_colour_bar():
    model, many = MarginPCA(2).fit(X, Y), np.r_[np.arange(25), np.arange(125) % 20]
    for labels in (many, many.astype(str), np.asarray([f"class {code}" for code in many])):
        shown = ReductionDisplay.from_estimator(model, X, labels)
        texts = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
        assert texts[0] == "5 others" and texts[1:] == np.unique(labels[25:]).astype(str).tolist()
        assert len(shown.figure_.axes) == 1, "codes have no colour bar"
        assert sum(len(points.get_offsets()) for points in shown.ax_.collections) == 150
    lacking = np.asarray(["ant", "bee", "cat"], object)[Y]
    lacking[3] = None
    texts = ReductionDisplay.from_estimator(model, X, lacking).ax_.get_legend().get_texts()
    assert [text.get_text() for text in texts] == ["no label", "ant", "bee", "cat"]
    numbers = ReductionDisplay.from_estimator(model, X, many / 2)
    assert numbers.ax_.get_legend() is None and len(numbers.figure_.axes) == 2


def test_keywords_of_matplotlib_are_its_own(pyplot):
    model = MarginPCA(2).fit(X, Y)
    crosses = ReductionDisplay.from_estimator(model, X, Y, marker="x").ax_.collections
    assert len(crosses) == 3 and all(points.get_linewidths() > 0 for points in crosses)
    (points,) = ReductionDisplay.from_estimator(model, X, Y, cmap="magma").ax_.collections
    assert points.get_cmap().name == "magma"
    np.testing.assert_array_equal(points.get_array(), Y)


def test_spectra_are_shares_where_there_is_a_total():
    model = MarginPCA(2, "pca").fit(X, Y)
    shown = SpectrumDisplay.from_estimator(model)
    np.testing.assert_array_equal(shown.ax_.lines[0].get_ydata(), model.eigenvalues_ / model.total_)
    model.total_ = np.nan
    assert SpectrumDisplay.from_estimator(model).ax_.get_ylabel() == "eigenvalue"
    peer = PCA(2).fit(X)
    drawn = SpectrumDisplay.from_estimator(peer).ax_.lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, peer.explained_variance_ratio_)


def test_loadings_have_the_names_of_columns_by_size():
    frame = X.rename(columns={X.columns[2]: "$petal$ length"})
    model = MarginPCA(2).fit(frame, Y)
    shown = LoadingsDisplay.from_estimator(model, component=1, n_features=3)
    largest = pd.Series(model.components_[1], frame.columns).sort_values(key=abs, ascending=False)[:3]
    assert [bar.get_width() for bar in shown.ax_.patches] == largest.tolist()
    assert shown.names == largest.index.tolist() and shown.ax_.yaxis_inverted()
    shown.figure_.canvas.draw()  # a name between dollars is no formula
    unnamed = LoadingsDisplay.from_estimator(LassoSelection(2).fit(X.to_numpy(), Y), n_features=1)
    assert unnamed.names[0].startswith("column ") and shown.xlabel == "loading on marginpca1"
    named = make_pipeline(make_column_transformer((StandardScaler(), X.columns[:2].tolist())), MarginPCA(1)).fit(X, Y)
    assert all(name.startswith("standardscaler__sepal") for name in LoadingsDisplay.from_estimator(named).names)


@pytest.mark.e2e
def test_matplotlib_is_imported_by_drawing_only():
    code = "import sys, mmpca_dist; mmpca_dist.ReductionDisplay; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
