"""Signs do not hang on rounding: the first of loadings of equal magnitude is positive."""

import numpy as np
import pytest
from helpers.runs import refreshed
from helpers.tables import config_of, write_parquet

from mmpca_dist import LOL, PLS, FisherDiscriminant, MarginPCA, load_model, run
from mmpca_dist.eigen.dense import fix_signs


def table(kind, seed, n=240):
    """Return rows whose leading axes have loadings of equal magnitude, and labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = rng.normal(size=n) + y
    if kind == "a pair":
        return np.column_stack([x, rng.normal(0, 0.8, n) - x]), y
    if kind == "mirrored":
        return np.column_stack([-x, x, 1e-3 * rng.normal(size=n)]), y
    if kind == "indicators":
        return np.eye(2)[(x > 0.5).astype(int)], y
    if kind == "in several units":
        return np.column_stack([1e5 + 1e3 * x, rng.normal(0, 1e-4, n) - 1e-4 * x]), y
    if kind == "repeated":
        return np.column_stack([-x, x, -x, x]), y
    return np.column_stack([x > 0.5, x <= 0.5, rng.random(n) < 0.5]).astype(float), y  # a coin beside indicators


KINDS = ["a pair", "mirrored", "indicators", "in several units", "repeated", "a coin"]
METHODS = [MarginPCA(1, "pca"), MarginPCA(1), FisherDiscriminant(1, precision="double"), LOL(1), PLS(1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__ + getattr(method, "variant", ""))
def test_order_and_precision_of_rows_do_not_turn_axes(kind, method):
    for seed in range(6):
        X, y = table(kind, seed)
        order = np.random.default_rng(seed).permutation(len(y))
        fit = method.set_params(standardize=True).fit
        expected = fit(X, y).components_.copy()
        for rows, labels in ((X[order], y[order]), (X.astype(np.float32), y), (X[::-1], y[::-1])):
            np.testing.assert_allclose(fit(rows, labels).components_, expected, atol=2e-3 * np.abs(expected).max())


def test_the_first_of_those_that_tie_is_positive_and_no_other_decides():
    rows = np.asarray([[-1, 1 + 5e-7, 0.5], [-1, 1 + 5e-6, 0.5], [0, 0, 0], [0.5, -1, 1 - 1e-9]])
    signs = np.sign(fix_signs(rows))
    np.testing.assert_array_equal(signs, [[1, -1, -1], [-1, 1, 1], [0, 0, 0], [-1, 1, -1]])
    assert fix_signs(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("seed", range(4))
def test_a_refresh_keeps_the_sides(seed, tmp_path):
    X, y = table("a pair", seed)
    uri = write_parquet(tmp_path / "t.parquet", X[:160], y[:160])
    run(config_of(tmp_path / "out", uri, methods=["pca", "m-pca0"], n_components=2, standardize=True))
    new = write_parquet(tmp_path / "new.parquet", X[160:], y[160:])
    live = refreshed(tmp_path / "out", new, tmp_path / "live")["folder"]
    for method in ("pca", "m-pca0"):
        before, after = (load_model(str(each), method).components_ for each in (tmp_path / "out", live))
        assert (before[0] @ after[0]) > 0.99 and before[0, 0] > 0
