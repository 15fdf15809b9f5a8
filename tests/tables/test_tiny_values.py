"""Rows that vary by less than can be squared are refused as what they are, not as rows of low rank."""

import numpy as np
import pytest

from mmpca_dist import FisherDiscriminant, MarginPCA, MaximumMarginCriterion, SupervisedPCA, class_moments
from mmpca_dist.errors import InputError

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
