"""Drift between moments, against tests of the rows themselves."""

import numpy as np
import pytest
from scipy import stats

from mmpca_dist import MarginPCA, class_moments
from mmpca_dist.errors import InputError
from mmpca_dist.statistics.drift import holm

NIGHTS = 300


def rows(rng, n, d=4, classes=3, spread=1.0):
    y = rng.integers(classes, size=n)
    return (rng.standard_normal((n, d)) * spread + y[:, None]) * np.geomspace(1, 100, d), y


def hotelling(A, B):
    """Two samples, line by line: F, p and distance of their means."""
    n, m, q = len(A), len(B), A.shape[1]
    d = B.mean(axis=0) - A.mean(axis=0)
    S = ((A - A.mean(axis=0)).T @ (A - A.mean(axis=0)) + (B - B.mean(axis=0)).T @ (B - B.mean(axis=0))) / (n + m - 2)
    t2 = n * m / (n + m) * d @ np.linalg.solve(S, d)
    F = t2 * (n + m - q - 1) / (q * (n + m - 2))
    return F, stats.f.sf(F, q, n + m - q - 1), np.sqrt(d @ np.linalg.solve(S, d))


def test_each_class_is_compared_as_its_rows_are():
    rng = np.random.default_rng(0)
    (X, y), (X2, y2) = rows(rng, 900), rows(rng, 200)
    X2[y2 == 1, 2] += 40
    found = class_moments(X, y, precision="double").drift(class_moments(X2, y2, precision="double"))
    assert [one.label for one in found.classes] == [0, 1, 2]
    for one in found.classes:
        expected = hotelling(X[y == one.label], X2[y2 == one.label])
        np.testing.assert_allclose([one.statistic, one.p, one.distance], expected, rtol=1e-8)
        assert one.rows == np.sum(y2 == one.label)
        assert not one.spreads_otherwise
    assert [one.label for one in found.moved()] == [1]
    assert found.classes[1].columns[0][0] == 2
    assert found.classes[1].columns[0][1] == pytest.approx(40 / X[y == 1, 2].std(), rel=0.2)
    counts = [np.bincount(y), np.bincount(y2)]
    assert found.shares == pytest.approx(stats.chi2_contingency(counts).pvalue)
    assert found.new == []
    assert [one.adjusted for one in found.classes] == holm([one.p for one in found.classes])


def test_coordinates_are_those_of_a_model():
    rng = np.random.default_rng(1)
    (X, y), (X2, y2) = rows(rng, 900), rows(rng, 200)
    V = MarginPCA(2, "m-pca0", precision="double").fit(X, y).components_
    found = class_moments(X, y, precision="double").drift(class_moments(X2, y2, precision="double"), V)
    for one in found.classes:
        expected = hotelling(X[y == one.label] @ V.T, X2[y2 == one.label] @ V.T)
        np.testing.assert_allclose([one.statistic, one.p, one.distance], expected, rtol=1e-8)
        assert one.direction.shape == (4,)


def test_pooled_scatters_compare_by_the_scatter_within_all_classes():
    rng = np.random.default_rng(2)
    (X, y), (X2, y2) = rows(rng, 900), rows(rng, 200)
    stored, arriving = (class_moments(*pair, precision="double").summed() for pair in ((X, y), (X2, y2)))
    found = stored.drift(arriving)
    v, q = len(X) + len(X2) - 6, 4
    within = sum(
        (A[c == k] - A[c == k].mean(axis=0)).T @ (A[c == k] - A[c == k].mean(axis=0))
        for A, c in ((X, y), (X2, y2)) for k in range(3)
    )  # fmt: skip
    for one in found.classes:
        A, B = X[y == one.label], X2[y2 == one.label]
        d = B.mean(axis=0) - A.mean(axis=0)
        t2 = len(A) * len(B) / (len(A) + len(B)) * d @ np.linalg.solve(within / v, d)
        assert one.statistic == pytest.approx(t2 * (v - q + 1) / (v * q), rel=1e-8)
        assert one.p == pytest.approx(stats.f.sf(one.statistic, q, v - q + 1), rel=1e-6)
        assert np.isnan(one.spread)


@pytest.mark.parametrize("spread", [1.0, 1.3])
def test_nights_without_drift_rarely_alarm(spread):
    """300 nights at 5%: 15 expected, and at most 28 but for one time in a thousand, whatever the spread is."""
    rng = np.random.default_rng(3)
    X, y = rows(rng, 6000)
    stored = class_moments(X, y, precision="double")
    nights = [stored.drift(class_moments(*rows(rng, 300, spread=spread), precision="double")) for _ in range(NIGHTS)]
    assert stats.binom.sf(28, NIGHTS, 0.05) < 0.001
    assert sum(bool(night.moved()) for night in nights) <= 28
    told = [one.spreads_otherwise for night in nights for one in night.classes]
    assert np.mean(told) > 0.95 if spread > 1 else not any(told)


def test_weights_that_are_no_counts_have_no_p():
    rng = np.random.default_rng(4)
    (X, y), (X2, y2) = rows(rng, 300), rows(rng, 100)
    weighted = class_moments(X2, y2, sample_weight=rng.uniform(0.5, 2, 100), precision="double")
    found = class_moments(X, y, precision="double").drift(weighted)
    assert np.isnan([one.p for one in found.classes] + [found.shares]).all()
    assert all(np.isfinite(one.distance) for one in found.classes)
    assert found.moved() == []


def test_new_classes_are_told_and_others_compared():
    rng = np.random.default_rng(5)
    (X, y), (X2, y2) = rows(rng, 300), rows(rng, 100)
    found = class_moments(X, y).drift(class_moments(X2, np.where(y2 == 2, 9, y2)))
    assert found.new == [9]
    assert [one.label for one in found.classes] == [0, 1]


def test_what_cannot_be_compared_is_refused():
    rng = np.random.default_rng(6)
    X, y = rows(rng, 30)
    with pytest.raises(InputError, match="Stored moments have 4 columns, and those that arrive 3"):
        class_moments(X, y).drift(class_moments(X[:, :3], y))
    wide, few = rng.standard_normal((20, 40)), np.arange(20) % 2
    with pytest.raises(InputError, match="too few rows to compare means in 40 coordinates"):
        class_moments(wide, few).drift(class_moments(wide, few))


def test_constant_columns_repeated_rows_and_classes_that_are_gone():
    """No warning, and no column that does not vary among those that moved."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), np.arange(300) % 3
    X[:, 2] = 7
    same, moved = np.tile(X[y == 0][:1], (20, 1)), X[y == 1][:20]
    moved[:, 0] += 1
    arriving = class_moments(np.concatenate([same, moved]), np.repeat([0, 1], 20))
    drift = class_moments(X, y, precision="double").drift(arriving)
    assert drift.missing == [2]
    assert drift.shares < 1e-4
    assert drift.moved_share == pytest.approx(1 / 3)
    assert drift.classes[0].spreads_otherwise
    assert 1 in [one.label for one in drift.moved()]
    assert drift.classes[1].columns[0][0] == 0
    assert drift.classes[1].columns[-1] == (2, 0.0)
