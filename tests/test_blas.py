"""Products of tall matrices by panels: those of NumPy, and the same bits however many cores there are."""

import numpy as np
import pytest

from mmpca_dist import blas
from mmpca_dist.blas import PANEL_ROWS, combinations, products, take_out

ROWS = [0, 1, PANEL_ROWS - 1, PANEL_ROWS, 3 * PANEL_ROWS + 5]


def matrix(n, width, dtype=np.float64, seed=0, order="C"):
    found = np.random.default_rng([seed, n, width]).standard_normal((n, width)) + 3
    return np.asarray(found, dtype, order=order)


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize(("left", "right"), [("f4", "f4"), ("f4", "f8"), ("f8", "f8")])
def test_products_are_those_of_double_precision(n, left, right):
    a, b = matrix(n, 5, left, 1, "F"), matrix(n, 3, right, 2)
    expected = a.astype("f8").T @ b.astype("f8")
    np.testing.assert_allclose(products(a, b, np.float64), expected, rtol=1e-12)
    found = products(a, b)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12 if "f8" in (left, right) else 1e-5)


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_combinations_go_where_they_are_wanted(n, dtype):
    tall, weights = matrix(n, 5, dtype, 1, "F"), matrix(5, 3, dtype, 2)
    found = combinations(tall, weights)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, tall @ weights, rtol=1e-5 if dtype == "f4" else 1e-12)
    turned = np.empty((3, n), dtype)
    combinations(tall, weights, out=turned.T)
    np.testing.assert_array_equal(turned.T, found)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_is_taken_out_is_gone_and_told(dtype):
    n = 2 * PANEL_ROWS + 7
    basis = np.linalg.qr(matrix(n, 4))[0].astype(dtype)
    columns = matrix(n, 3, dtype, 5)
    left = columns.copy()
    shares = take_out(left, basis)
    scale = np.linalg.norm(columns)
    tolerance = 50 * np.finfo(dtype).eps * scale
    np.testing.assert_allclose(shares, basis.astype("f8").T @ columns.astype("f8"), atol=tolerance)
    assert np.abs(basis.T @ left).max() < tolerance
    np.testing.assert_allclose(left + basis @ shares, columns, atol=tolerance)
    untouched = columns.copy()
    assert take_out(untouched, basis[:, :0]).shape == (0, 3)
    np.testing.assert_array_equal(untouched, columns)


def test_the_bits_do_not_depend_on_the_number_of_cores(monkeypatch):
    n = 11 * PANEL_ROWS + 1
    tall, columns, weights = matrix(n, 6, "f4"), matrix(n, 4, "f4", 1), matrix(6, 4, "f4", 2)
    found = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(blas, "CPU_COUNT", cores)
        left = columns.copy()
        found.append((products(tall, columns), combinations(tall, weights), take_out(left, tall / 200), left))
    for other in found[1:]:
        for expected, got in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(expected, got)


def test_an_error_in_a_panel_is_raised():
    def refuse(rows):
        if rows.start:
            raise ValueError("the second panel")

    with pytest.raises(ValueError, match="the second panel"):
        list(blas.over_panels(2 * PANEL_ROWS, refuse))
