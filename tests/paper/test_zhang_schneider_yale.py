"""The experiment on faces compares the models that the paper names, on made-up images."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tables import table
from mmpca_paper.zhang_schneider.table import Figure, published
from mmpca_paper.zhang_schneider.yale import Faces, Yale

from mmpca_dist.errors import InputError


@pytest.fixture
def images():
    """Four subjects, six images each, of 30 pixels from 0 to 1."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 6)
    return np.clip(rng.uniform(size=(4, 30))[y] + 0.1 * rng.standard_normal((24, 30)), 0, 1), y


def test_the_published_figures_are_those_of_three_tables():
    figures = published(Yale.NUMBERS)
    assert len(figures) == 21
    assert figures[3, "SVM-Kernel"] == (16.17, 0.26)
    assert figures[7, "Proj-OLap"] == (3.4, 0.17)


@pytest.mark.parametrize("changes", [{}, {"scaling": "scatter", "share": 0.9, "laplacian": "poly"}])
def test_a_run_has_an_error_for_every_published_model(images, changes):
    errors = table("yale", alphas=[1e-4, 1e8], **changes).run(Faces(*images), 3, seed=0)
    assert {(3, model) for model in errors} == {key for key in published(Yale.NUMBERS) if key[0] == 3}
    assert all(0 <= error < 30 for error in errors.values())  # chance is 50


def test_components_are_scaled_as_the_configuration_says(images):
    X, y = images
    reduction = table("yale", scaling="scatter", share=1.0).reductions(X, y)["GDA"]
    np.testing.assert_allclose((reduction.transform(X) ** 2).sum(axis=0), 1)
    few = table("yale", scaling="length", share=0.9).reductions(X, y)["GDA"]
    assert few[0].eigenvalues_.min() < 1 - 1e-6, "classes overlap in the principal directions that are kept"


def test_of_alphas_that_err_equally_the_smallest_is_chosen(images):
    X, y = images
    matrix = (X @ X.T + 1)[:12, :12] ** 2
    assert table("yale").chosen_alpha(matrix, y[:12], seed=0) == 1e-8


@pytest.mark.parametrize(("pixels", "expected"), [("range", 1.0), ("length", 30**-0.5)])
def test_pixels_are_scaled_as_the_configuration_says(tmp_path, pixels, expected):
    np.savez(tmp_path / "faces.npz", X=np.full((2, 30), 255, np.uint8), y=np.arange(2))
    X, y = table("yale", data=str(tmp_path / "faces.npz"), pixels=pixels).load()
    np.testing.assert_allclose(X, expected)
    np.testing.assert_array_equal(y, [0, 1])


def test_a_file_without_the_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "faces.npz", images=np.ones((2, 30)))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("faces.npz", "text.npz"):
        with pytest.raises(InputError, match=f"{name} is not an .npz file with the arrays X, y"):
            table("yale", data=str(tmp_path / name)).load()


@pytest.mark.slow
def test_labels_of_all_subjects_help_to_tell_two_apart(real_path):
    """The reduction by labels errs less than the plain machine, and the penalty keeps what it gains."""
    config = table("yale", data=str(real_path("yale_32x32.npz")), runs=3)
    errors = config.values(config.load(), 3)
    for model in ("SVM-OLap", "Proj-OLap"):
        gain = Figure.of(errors["SVM-Kernel"] - errors[model])
        assert gain.mean > 2 * gain.error, model
        assert abs(errors[model].mean() - published(Yale.NUMBERS)[3, model].mean) < 4, model
