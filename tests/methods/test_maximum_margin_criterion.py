"""The maximum margin criterion against its twin, and what is said where it is negative."""

import dask.array as da
import naive
import numpy as np
import pytest
import scipy.sparse
from helpers.samples import largest_angle
from helpers.tables import labelled

from mmpca_dist import class_moments, load_model, run
from mmpca_dist.errors import InputError
from mmpca_dist.methods.maximum_margin_criterion import MaximumMarginCriterion
from mmpca_dist.results.evaluation_result import result_in

EPS = float(np.finfo(np.float64).eps)


def apart(n, d, n_classes, seed, gap=3.0, mean=0.0):
    """Return labelled rows whose class means are a few deviations apart."""
    X, y = labelled(n, d, n_classes, seed=seed)
    centres = gap * np.random.default_rng(seed).standard_normal((n_classes, d))
    return X + centres[np.searchsorted(np.unique(y), y)] + mean, y


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(
    ("n", "d", "n_classes", "mean"), [(90, 7, 3, 0.0), (40, 5, 2, 1e6), (12, 30, 3, 0.0), (60, 9, 5, 50.0)]
)
def test_it_is_its_twin(n, d, n_classes, mean, standardize):
    X, y = apart(n, d, n_classes, seed=d, mean=mean)
    found = MaximumMarginCriterion(precision="double", standardize=standardize).fit(X, y)
    rows = (X - X.mean(axis=0)) / X.std(axis=0) if standardize else X - X.mean(axis=0)
    S = naive.maximum_margin_criterion(rows, y)
    values, vectors = naive.eigenpairs(S)
    size = np.abs(values).sum()
    room = 1e3 * max(EPS * size, EPS * abs(mean) * np.sqrt(size))
    positive = values > room
    assert len(found.eigenvalues_) == positive.sum() <= n_classes - 1
    np.testing.assert_allclose(found.eigenvalues_, values[positive], atol=room)
    assert found.total_ == pytest.approx(values[positive].sum(), abs=room)
    assert found.n_negative_ == np.sum(values < -room)
    assert found.negative_sum_ == pytest.approx(values[values < -room].sum(), abs=room)
    gap = values[positive.sum() - 1] - values[positive.sum()]
    assert largest_angle(found.components_, vectors[:, positive]) <= 10 * room / gap
    np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(positive.sum()), atol=1e-12)


def test_one_pass_serves_it_and_moments_of_parts_merge():
    X, y = apart(80, 6, 3, seed=1)
    whole = MaximumMarginCriterion(precision="double").fit(X, y)
    moments = class_moments(X[:30], y[:30], precision="double")
    merged = MaximumMarginCriterion.from_moments(moments, precision="double").partial_fit(X[30:], y[30:])
    np.testing.assert_allclose(merged.eigenvalues_, whole.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(merged.components_, whole.components_, atol=1e-10)


def test_sparse_rows_and_dask_arrays_give_what_dense_rows_give():
    X, y = apart(80, 6, 3, seed=2)
    X[np.abs(X) < 1] = 0
    expected = MaximumMarginCriterion(precision="double").fit(X, y)
    for rows in (scipy.sparse.csr_array(X), da.from_array(X, chunks=(17, 6))):
        found = MaximumMarginCriterion(precision="double").fit(rows, y)
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)


def test_where_no_direction_is_positive_the_nearest_to_zero_is_taken():
    X, y = np.random.default_rng(3).standard_normal((200, 4)) * (1, 2, 3, 4), np.arange(200) % 2
    X = np.column_stack([X, np.full(200, 7.0)])  # a constant column: zero is nearer than any other value
    found = MaximumMarginCriterion(precision="double").fit(X, y)
    values, vectors = naive.eigenpairs(naive.maximum_margin_criterion(X - X.mean(axis=0), y))
    assert abs(values[0]) < 1e-12 and values[1] < -0.5
    assert found.eigenvalues_.tolist() == pytest.approx([values[1]])
    assert largest_angle(found.components_, vectors[:, [1]]) <= 1e-7
    assert found.total_ == 0
    assert "the criterion is negative" in found.fitted().remarks[0]
    assert found.limit_reason_ == "a single direction, as the criterion is positive in none"


def test_the_summary_of_a_negative_criterion(tmp_path):
    X, y = np.random.default_rng(0).standard_normal((300, 5)), np.arange(300) % 3
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    output = str(tmp_path / "out")
    run({"dataset": {"uri": str(tmp_path / "rows.npz")}, "methods": "mmc", "n_components": 1, "output": output})
    (row,) = result_in(output).rows
    assert float(row["leading eigenvalues"]) < -0.5 and 0 <= float(row["residual"]) < 1e-12
    assert row["share"] == "-"
    assert (tmp_path / "out" / "report" / "index.html").exists()


def test_all_rows_equal_have_no_direction():
    with pytest.raises(InputError, match="MaximumMarginCriterion finds no component in 6 rows"):
        MaximumMarginCriterion().fit(np.ones((6, 3)), [0, 0, 0, 1, 1, 1])


@pytest.mark.usefixtures("no_report")
def test_a_run_keeps_it_and_says_what_is_negative(tmp_path):
    output = str(tmp_path / "out")
    run({"dataset": {"uri": "bundled:iris"}, "methods": ["pca", "mmc"], "n_components": 2, "output": output})
    model = load_model(output, "mmc")
    assert model.n_negative_ == 3
    assert model.negative_sum_ < 0 < model.total_
    assert "S_b - S_w is negative in 3 directions" in (tmp_path / "out" / "events.jsonl").read_text()
