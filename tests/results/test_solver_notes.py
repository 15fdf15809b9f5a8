"""What a run says of components from passes: rows of its report, and notes."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.tables import content_of

from mmpca_dist import load_model, run
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.records import SOLVE, Results
from mmpca_dist.results.certificates import solver_notes, solver_rows

EIGENPAIRS = {
    "solver": "krylov", "passes": 4, "history": [], "count": 4, "leading": 2, "angle": None, "beyond": 0.3,
    "failure": 1e-6, "residual": 0.03, "relative": [1e-6, 1e-5, 0.01, 0.1],
}  # fmt: skip
CRITERION = {
    "solver": "krylov", "passes": 4, "count": 2, "criterion": 0.81239, "estimate": 0.95, "angle": 12.34,
}  # fmt: skip


def of(certificate, method="pca", tolerance=1e-4):
    config = SimpleNamespace(labels=[method], solver=SimpleNamespace(tolerance=tolerance))
    model = {"n_components": 4, "leading": [1.0], "certificate": certificate}
    return config, Results(solve={"models": {method: model}})


def row(certificate, method="pca"):
    (row,) = solver_rows(*of(certificate, method))
    return row


def note(certificate, method="pca", tolerance=1e-4):
    notes = solver_notes(*of(certificate, method, tolerance))
    assert len(notes) <= 1
    return notes[0] if notes else None


def test_residuals_are_counted_against_their_own_eigenvalues():
    """The largest residual is 3% of the leading eigenvalue, but two eigenvalues are met to a thousandth only."""
    told = note(EIGENPAIRS)
    assert told.startswith("PCA: 2 of 4 components have residuals beyond 0.0001 of their eigenvalue, at most 0.1 of it")
    assert "(number 4)" in told and "solver.passes" in told and "solver.tolerance" in told
    assert "PCA: 1 of 4 components" in note(EIGENPAIRS, tolerance=0.05)
    assert note(EIGENPAIRS, tolerance=0.1) is None
    assert note({**EIGENPAIRS, "relative": []}) is None
    assert row(EIGENPAIRS)[:2] == ("PCA", "2 of 4 proved leading")
    assert row({**EIGENPAIRS, "leading": 4, "angle": 0.5})[1] == "all proved leading, at most 0.5 degrees off"


def test_lol_is_told_of_by_its_eigenvectors():
    certificate = {**EIGENPAIRS, "means": 2}
    assert row(certificate, "lol")[:2] == ("LOL", "2 directions between means exact, then 2 of 4 proved leading")
    assert note(certificate, "lol").startswith("LOL: 2 of 4 directions of scatter within classes have residuals")


@pytest.mark.parametrize("method", ["hsic", "lol"])
def test_what_class_means_suffice_for(method):
    certificate = {"solver": "krylov", "passes": 1, "exact": True}
    assert row(certificate, method)[1:] == ("exact", "class means suffice, and one pass takes them")
    assert note(certificate, method) is None


def test_the_criterion_of_discriminants():
    title, found, meaning = row(CRITERION, "fisher")
    assert (title, found) == ("Fisher discriminant", "at least 81.2% of the criterion, at most 12 degrees off")
    assert "about 95% by an estimate" in meaning
    told = note(CRITERION, "fisher")
    assert "proved to reach 81.2% (about 95% by an estimate) of the criterion" in told and "solver.passes" in told
    assert note(CRITERION, "fisher", tolerance=0.2) is None
    few = {**CRITERION, "estimate": None}
    assert "estimate" not in row(few, "fisher")[2] and "estimate" not in note(few, "fisher")
    assert row({**CRITERION, "criterion": 0.99999}, "fisher")[1].startswith("at least 99.9% ")  # never rounded up
    nothing = {**CRITERION, "criterion": None, "estimate": None, "angle": None}
    assert row(nothing, "fisher")[1] == "nothing proved"
    assert "shrinkage above 0" in note(nothing, "fisher")
    assert note({**nothing, "count": 0}, "fisher") is None


def test_a_run_tells_of_every_method(tmp_path):
    methods = ["pca", "m-pca0", "fisher", "hsic", "lol"]
    settings = {"solver": {"kind": "krylov", "passes": 2}, "project": {"methods": []}, "precision": "double"}
    results = run(content_of(tmp_path / "out", "bundled:digits", methods=methods, n_components=12, **settings))
    stored = RunDirectory(str(tmp_path / "out"))
    drawn, again = (solver_rows(stored.config, each) for each in (results, Results({SOLVE: stored.record(SOLVE)})))
    assert drawn == again
    rows = {title: found for title, found, _ in again}
    assert list(rows) == ["PCA", "M-PCA0", "Fisher discriminant", "Supervised PCA (HSIC)", "LOL"]
    assert rows["Supervised PCA (HSIC)"] == "exact"
    assert rows["LOL"].startswith("9 directions between means exact, then ")
    assert rows["Fisher discriminant"].startswith("at least ")
    notes = results["report"]["notes"]
    assert not any("HSIC" in text and "solver" in text for text in notes)
    assert not any("told apart" in text and "Fisher" in text for text in notes)
    html = (tmp_path / "out" / "report" / "index.html").read_text()
    assert all(found in html for found in rows.values())
    model = load_model(str(tmp_path / "out"), "fisher")
    assert model.certificate_["criterion"] < 1 - 1e-4
    assert any(text.startswith("Fisher discriminant: components are proved to reach") for text in notes)
    pca = load_model(str(tmp_path / "out"), "pca")
    beyond = int(np.sum(pca.residuals_ > 1e-4 * pca.eigenvalues_))
    (told,) = (text for text in notes if text.startswith("PCA: ") and "residuals" in text)
    assert told.startswith(f"PCA: {beyond} of 12 components")


@pytest.mark.usefixtures("no_report")
def test_pairs_alone_are_solved_in_passes(tmp_path):
    results = run(content_of(tmp_path, methods=["m-pca2"], solver={"kind": "krylov"}))
    assert results["solve"]["dominant_columns"] == []
    assert load_model(str(tmp_path), "m-pca2").components_.shape == (2, 4)
