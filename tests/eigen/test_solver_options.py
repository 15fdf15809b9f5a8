"""Which solver is taken for which shape, and what is refused; it never depends on the machine."""

import numpy as np
import psutil
import pytest
import scipy.sparse
from helpers.tables import labelled

from mmpca_dist import LOL, FisherDiscriminant, MarginPCA, SupervisedPCA
from mmpca_dist.eigen.block_solver import BLOCK_SOLVERS
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import LARGEST_DUAL, SolverOptions, choose_solver, solver_names
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS

WIDEST_DUAL = LARGEST_DUAL // 8 // 1000
"""Columns of 1,000 rows that are just kept."""


@pytest.mark.parametrize(("rows", "columns", "components", "options", "kind", "reason"), [
    (10_000, 100, 5, {}, "dense", "100 x 100 scatter is small and quickly solved"),
    (10_000, LIMITS.dense_columns, 50, {}, "dense", "quickly solved"),
    (10_000, LIMITS.dense_columns + 1, 50, {}, "krylov", "LAPACK longer than passes"),
    (10_000, 4000, 1000, {}, "dense", ""),  # more than a quarter of all: a basis would hold most
    (10_000, 8000, None, {}, "dense", ""),  # all there are
    (10_000, 8000, 2000, {}, "dense", ""),
    (10_000, 8000, 1990, {}, "krylov", ""),  # (1990 + 10) x 4 = 8000
    (10_000, 8000, 1991, {}, "dense", ""),
    (10_000, 8000, 5, {"scatters": frozenset()}, "krylov", "class means suffice"),
    (10_000, 8000, None, {"scatters": frozenset()}, "krylov", "class means suffice"),
    (10_000, 100, 5, {"scatters": frozenset()}, "dense", ""),
    (100, 10_000, 5, {}, "dual", "100 rows of 10,000 features: the problem is solved in the span of the rows"),
    (100, 10_000, None, {}, "dual", ""),
    (1000, WIDEST_DUAL, 50, {}, "dual", ""),
    (1000, WIDEST_DUAL + 1, 50, {}, "krylov", "too many to be kept"),
    (1000, WIDEST_DUAL + 1, 500, {}, "dual", ""),
    (100, 100, 5, {}, "dense", ""),
])  # fmt: skip
def test_what_auto_takes(rows, columns, components, options, kind, reason):
    found = choose_solver(SolverOptions(), rows, columns, Needs(n_components=components, **options))
    assert found.kind == kind
    assert reason in found.reason
    assert found.reason
    assert found.in_passes == (kind in BLOCK_SOLVERS)


@pytest.mark.parametrize(("rows", "columns", "options", "kind"), [
    (10_000, LIMITS.dense_columns + 1, {"own": True}, "arpack"),
    (10_000, LIMITS.dense_columns, {"own": True}, "dense"),
    (100, 10_000, {"own": True}, "arpack"),
    (100, 10_000, {}, "dual"),  # another scatter
    (1000, WIDEST_DUAL + 1, {}, "krylov"),
    (10_000, 8000, {"own": True, "scatters": frozenset()}, "krylov"),
])  # fmt: skip
def test_what_auto_takes_of_sparse_rows_in_memory(rows, columns, options, kind):
    assert choose_solver(SolverOptions(), rows, columns, Needs(n_components=5, **options), held=True).kind == kind


def test_solvers_in_passes_serve_every_shape():
    options = SolverOptions("krylov")
    for shape in ((10, 5000), (5000, 10)):
        found = choose_solver(options, *shape, Needs(n_components=3))
        assert (found.kind, found.reason) == ("krylov", "asked for")
        with pytest.raises(InputError, match="solver='krylov' needs n_components"):
            choose_solver(options, *shape, Needs())
        assert choose_solver(options, *shape, Needs(frozenset())).kind == "krylov"


def test_solvers_that_do_not_serve_a_shape_name_the_one_that_does():
    for kind, other, shape in (("dense", "dual", (99, 100)), ("dual", "dense", (100, 100))):
        with pytest.raises(InputError, match=rf"solver='{kind}' does not serve .*100 features: .*use '{other}'"):
            choose_solver(SolverOptions(kind), *shape, Needs(n_components=3))
        assert choose_solver(SolverOptions(other), *shape, Needs(n_components=3)).reason == "asked for"


@pytest.mark.parametrize(("options", "message"), [
    ({"kind": "krilov"}, "Unknown solver 'krilov'; there are auto, dense, .*Did you mean 'krylov'"),
    ({"oversampling": -1}, "oversampling=-1 must be a whole number from 0"),
    ({"oversampling": 2.5}, "oversampling=2.5 must be a whole number from 0"),
    ({"passes": 1}, "passes=1 must be a whole number from 2"),
    ({"passes": True}, "passes=True must be a whole number from 2"),
    ({"tolerance": -1e-3}, "tolerance=-0.001 must be a number from 0 to 1"),
    ({"tolerance": 1.0}, "tolerance=1.0 must be a number from 0 to 1"),
    ({"tolerance": float("nan")}, "tolerance=nan must be a number from 0 to 1"),
])  # fmt: skip
def test_options_that_make_no_sense(options, message):
    with pytest.raises(InputError, match=message):
        SolverOptions(**options)
    X, y = labelled(30, 4, 2, seed=0)
    renamed = {"solver" if name == "kind" else name: value for name, value in options.items()}
    estimators = [MarginPCA(2), FisherDiscriminant(1), LOL(2), *([SupervisedPCA(1)] if "kind" in options else [])]
    for estimator in estimators:
        with pytest.raises(InputError, match=message):
            estimator.set_params(**renamed).fit(X, y)


def test_the_choice_does_not_depend_on_the_memory_at_hand(monkeypatch):
    def choices():
        shapes = [(10_000, 100), (10_000, 5000), (100, 10_000), (1000, WIDEST_DUAL + 1)]
        return [choose_solver(SolverOptions(), *shape, Needs(n_components=5)) for shape in shapes]

    before = choices()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: pytest.fail("the memory at hand was asked for"))
    assert choices() == before


def as_served(solver, X):
    """Return rows as a solver takes them: ARPACK's are sparse."""
    return scipy.sparse.csr_array(X) if solver == "arpack" else X


def test_estimators_take_what_is_asked_for():
    X, y = labelled(60, 8, 3, seed=1)
    for solver in solver_names():
        wanted = X[:7], y[:7]
        rows, labels = wanted if solver == "dual" else (as_served(solver, X), y)
        reducer = MarginPCA(2, "pca", solver=solver, oversampling=2).fit(rows, labels)
        told = getattr(reducer, "certificate_", {}).get("solver")
        assert told == (solver if solver in BLOCK_SOLVERS else None)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("factor", [2.0**100, 2.0**-80])
def test_rows_of_any_size(factor, precision):
    """Also where their squares are beyond single precision."""
    X, y = labelled(90, 20, 3, seed=2)
    options = {"n_components": 3, "solver": "krylov", "precision": precision, "oversampling": 3}
    for standardize in (False, True):
        near = MarginPCA(**options, standardize=standardize).fit(X, y)
        far = MarginPCA(**options, standardize=standardize).fit(X * factor, y)
        size = 1.0 if standardize else factor**2
        np.testing.assert_allclose(far.eigenvalues_ / size, near.eigenvalues_, rtol=1e-5)
        np.testing.assert_allclose(np.abs(np.sum(far.components_ * near.components_, axis=1)), 1.0, rtol=1e-4)


@pytest.mark.parametrize("solver", ["dense", *BLOCK_SOLVERS])
def test_what_has_no_components_is_refused_in_words(solver):
    X, y = labelled(60, 20, 3, seed=3)
    ones, flat, rank_one = np.outer(y + 0.1, np.ones(20)), np.full_like(X, 0.1), X[:, :5] @ np.ones((5, 20))
    X, ones, flat, rank_one = (as_served(solver, rows) for rows in (X, ones, flat, rank_one))
    with pytest.raises(InputError, match="finds no component in 60 rows of 20 features"):
        MarginPCA(2, "pca", solver=solver).fit(flat, y)
    with pytest.raises(InputError, match="The rows of each class are all equal"):
        FisherDiscriminant(1, solver=solver).fit(ones, y)
    with pytest.raises(InputError, match="squares are too large even for double precision"):
        MarginPCA(2, "pca", solver=solver, precision="double").fit(X * 1e200, y)
    with pytest.raises(InputError, match=r"finds in 60 rows of 20 features: .* at most .* = 20"):
        MarginPCA(12, "pca", solver=solver, precision="double").fit(rank_one, y)
