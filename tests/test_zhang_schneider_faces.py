"""The experiment on faces compares the models that the paper names, on made-up images."""

from __future__ import annotations

import numpy as np
import pytest
from mmpca_paper import zhang_schneider_faces as faces


@pytest.fixture
def images():
    """Four subjects, six images each, of 30 pixels from 0 to 1."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 6)
    return np.clip(rng.uniform(size=(4, 30))[y] + 0.1 * rng.standard_normal((24, 30)), 0, 1), y


def test_the_published_figures_are_those_of_three_tables():
    figures = faces.published(faces.TABLES)
    assert len(figures) == 21
    assert figures[3, "SVM-Kernel"] == (16.17, 0.26)
    assert figures[7, "Proj-OLap"] == (3.4, 0.17)


@pytest.mark.parametrize("reading", [faces.Reading(), faces.Reading("length", "scatter", 0.9, "poly")])
def test_a_run_has_an_error_for_every_published_model(images, reading, monkeypatch):
    monkeypatch.setattr(faces, "ALPHAS", np.asarray([1e-4, 1e8]))
    errors = faces.run_errors(*images, 3, reading, seed=0)
    assert {(3, model) for model in errors} == {key for key in faces.published(faces.TABLES) if key[0] == 3}
    assert all(0 <= error < 30 for error in errors.values())  # chance is 50


def test_components_are_scaled_as_the_reading_says(images):
    X, y = images
    reduction = faces.fitted_reductions(X, y, faces.Reading(scaling="scatter"))["GDA"]
    np.testing.assert_allclose((reduction.transform(X) ** 2).sum(axis=0), 1)
    few = faces.fitted_reductions(X, y, faces.Reading(share=0.9))["GDA"]
    assert few[0].eigenvalues_.min() < 1 - 1e-6, "classes overlap in the principal directions that are kept"


def test_of_alphas_that_err_equally_the_smallest_is_chosen(images):
    X, y = images
    matrix = (X @ X.T + 1)[:12, :12] ** 2
    assert faces.chosen_alpha(matrix, y[:12], seed=0) == 1e-8


def test_absent_faces_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("MMPCA_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="set MMPCA_DATA"):
        faces.load_faces("range")
