"""BM2PCA's C: its default, the search for it, what is said at an edge; and the priors of the model."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from helpers.tables import config_of, labelled, write_npz
from naive_bayesian import BayesianMargin, labelled_terms, principal_start
from sklearn.exceptions import ConvergenceWarning

from mmpca_dist import BayesianMarginPCA, BayesianMarginRegressor, load_model, run
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.statistics_for import class_statistics, with_sweeps
from mmpca_dist.models.bayesian_margin.fit import MAX_STEPS
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.from_rows import rows_in_memory

EXACT = {"precision": "double", "tol": 0.0, "max_iter": 4}
PRIOR = {
    "relevance_shape": 0.7, "relevance_rate": 20.0, "noise_shape": 30.0, "noise_rate": 0.4,
    "weight_shape": 2.0, "weight_rate": 5.0, "location_precision": 3.0,
}  # fmt: skip


@pytest.mark.parametrize(("n", "d"), [(30, 7), (12, 40)])
def test_c_is_by_default_three_times_the_columns_of_the_table(n, d):
    X, y = labelled(n, d, 3, seed=2)
    by_default, given = (BayesianMarginPCA(2, C=C, **EXACT).fit(X, y) for C in (None, 3.0 * d))
    assert 3 * d == by_default.C_
    assert by_default.components_.tobytes() == given.components_.tobytes()
    regressor = BayesianMarginRegressor(2, **EXACT).fit(X, X[:, 0])
    assert d == regressor.C_


def noisy(n=60, d=12, shift=1.0, least=0.5):
    """Return rows of two classes that differ in the column that varies least."""
    rng = np.random.default_rng(3)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, d)) * np.geomspace(3, least, d)
    X[:, -1] += shift * (2 * y - 1)
    return X, y


UPWARDS, DOWNWARDS = {"n": 40, "d": 100, "shift": 1.5}, {"least": 1.0}
"""Settings of ``noisy`` where the errors fall with C beyond ten times the default, and below a tenth of it."""


def by_hand(X, y, Cs, k=2, sweeps=4):
    """Return the errors of each C on rows held out, by the twin."""
    folds, start = np.arange(len(y)) // 2 % 5, principal_start(X, k)  # classes alternate
    errors = {}
    for C in Cs:
        wrong = 0
        for fold in range(5):
            trains = folds != fold
            terms = labelled_terms(y[trains].tolist(), 1)
            twin = BayesianMargin(X[trains], terms, C, *start, location=X.mean(axis=0))
            for _ in range(sweeps):
                twin.sweep()
            wrong += np.count_nonzero(
                [(twin.output(x) > 0) != label for x, label in zip(X[~trains], y[~trains], strict=True)]
            )
        errors[C] = wrong
    return errors


def quiet_fit(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an edge
        return BayesianMarginPCA(2, **options, **EXACT).fit(X, y)


@pytest.mark.parametrize("shape", [UPWARDS, DOWNWARDS])
def test_the_search_goes_on_beyond_an_edge_while_it_errs_least(shape):
    X, y = noisy(**shape)
    model = quiet_fit(X, y, C="auto")
    tried, default = model.candidates_.tolist(), 3 * X.shape[1]
    np.testing.assert_allclose(tried[:3], [default, default / 10, default * 10])
    assert (tried[3] > tried[2]) if shape is UPWARDS else (tried[3] < tried[1])
    expected = by_hand(X, y, tried)
    assert dict(zip(tried, model.candidate_errors_.tolist(), strict=True)) == expected
    known = dict(list(expected.items())[:3])
    for C in tried[3:]:  # each follows from those before it
        best = min(known, key=known.get)
        assert best in (max(known), min(known)) and (best * 10 if best == max(known) else best / 10) == C
        known[C] = expected[C]
    best = min(known, key=known.get)
    assert best == model.C_
    assert min(known) < best < max(known) or len(tried) == 3 + MAX_STEPS
    assert quiet_fit(X, y, C=best).components_.tobytes() == model.components_.tobytes()


def test_all_candidates_of_a_round_share_passes():
    X, y = noisy(**UPWARDS)
    passes = []
    rows = Rows.of(rows_in_memory(X, y, "X"), Threads(1), on_pass=lambda name, _: passes.append(name))
    estimator = BayesianMarginPCA(2, C="auto", **EXACT)
    statistics = class_statistics(rows, estimator.needs(), SolverOptions(), precision="double", standardize=False)
    passes.clear()
    models = with_sweeps(statistics, rows, estimator._fit(), [2]).fits[estimator._fit(), 2]
    steps = len(models.choice.values) - 3
    assert steps > 0
    searched = [name for name in passes if name.startswith("choose")]
    assert searched == [name for name in ["choose", *(f"choose-{i + 1}" for i in range(steps))] for _ in range(4)]
    assert passes.count("sweep") == 4
    assert passes.count("held-out") == 1 + steps


def test_given_candidates_are_all_that_is_tried_and_an_edge_is_named():
    X, y = noisy()
    Cs = (0.01, 1.0, 100.0)
    errors = by_hand(X, y, Cs)
    assert errors[100.0] < errors[1.0], "the example is about an edge"
    with pytest.warns(UserWarning, match="C = 100 errs least .* the largest value .* Give some in candidates"):
        model = BayesianMarginPCA(2, C="auto", candidates=Cs, **EXACT).fit(X, y)
    assert model.candidates_.tolist() == list(Cs) and model.C_ == 100


def test_a_given_c_is_no_choice():
    X, y = noisy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)  # of four sweeps
        model = BayesianMarginPCA(2, C=5.0, **EXACT).fit(X, y)
    assert not len(model.candidates_) and not model.fitted().edges


def test_the_edge_is_named_in_the_notes_of_a_run(tmp_path):
    X, y = noisy()
    uri = write_npz(tmp_path / "rows.npz", X, y)
    method = {"name": "bm2pca", "C": "auto", "candidates": [0.01, 1, 100], "tol": 0, "max_iter": 4}
    results = run(config_of(tmp_path / "out", uri, methods=[method], n_components=2))
    notes = " ".join(results["solve"]["notes"])
    assert "C = 100 errs least" in notes and "Give some in candidates" in notes
    assert load_model(str(tmp_path / "out"), "bm2pca").candidates_.tolist() == [0.01, 1, 100]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_other_priors_are_those_of_the_twin(n_classes):
    X, y = labelled(25, 5, n_classes, seed=4, mean=3.0)
    estimator = BayesianMarginPCA(2, C=10.0, prior=PRIOR, **EXACT).fit(X, y)
    prior = {
        "r": (PRIOR["relevance_shape"], PRIOR["relevance_rate"]), "tau": (PRIOR["noise_shape"], PRIOR["noise_rate"]),
        "nu": (PRIOR["weight_shape"], PRIOR["weight_rate"]), "t": PRIOR["location_precision"],
    }  # fmt: skip
    for number, positive in enumerate([1] if n_classes == 2 else range(3)):
        twin = BayesianMargin(X, labelled_terms(y.tolist(), positive), 10.0, *principal_start(X, 2), prior=prior)
        bounds = []
        for _ in range(4):
            twin.sweep()
            bounds.append(twin.bound())
        np.testing.assert_allclose(estimator.bounds_[:, number], bounds, rtol=1e-8)
        np.testing.assert_allclose(estimator.location_[number] + estimator.mean_, twin.t, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(estimator.noise_[number], twin.tau, rtol=1e-6)
        np.testing.assert_allclose(np.sort(estimator.relevance_[number]), np.sort(twin.r), rtol=1e-5)
        np.testing.assert_allclose(estimator.weight_precision_[number], twin.nu, rtol=1e-5)
        outputs = estimator.decision_function(X).reshape(len(X), -1)[:, number]
        np.testing.assert_allclose(outputs, [twin.output(x) for x in X], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PRIOR)
def test_every_number_of_the_prior_counts_and_has_bounds(name):
    X, y = labelled(25, 5, 2, seed=4, mean=3.0)
    paper = BayesianMarginPCA(2, C=10.0, **EXACT).fit(X, y)
    other = BayesianMarginPCA(2, C=10.0, prior={name: PRIOR[name]}, **EXACT).fit(X, y)
    assert not np.allclose(other.bounds_, paper.bounds_, rtol=1e-9)
    for extreme in (1e-12, 1e12):
        model = BayesianMarginPCA(2, C=10.0, prior={name: extreme}, **EXACT).fit(X, y)
        assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(model.bounds_[:, 0].tolist()))
    for wrong in (0.0, -1.0, 1e13, "paper", None):
        with pytest.raises(InputError, match=f"prior: {name}={wrong!r} must be a number of at least"):
            BayesianMarginPCA(2, prior={name: wrong}).fit(X, y)


def test_priors_are_settable_in_a_configuration(tmp_path):
    X, y = labelled(40, 5, 2, seed=5)
    uri = write_npz(tmp_path / "rows.npz", X, y)
    settings = {"C": 10, "tol": 0, "max_iter": 4, "prior": PRIOR}
    run(config_of(tmp_path / "out", uri, methods=[{"name": "bm2pca", **settings}], n_components=2))
    model = load_model(str(tmp_path / "out"), "bm2pca")
    own = BayesianMarginPCA(2, precision="double", **settings).fit(X, y)
    np.testing.assert_allclose(model.bounds_, own.bounds_, rtol=1e-12)
    with pytest.raises(InputError, match=r"'noise_rat'.*Did you mean 'noise_rate'"):
        BayesianMarginPCA(2, prior={"noise_rat": 1}).fit(X, y)
    with pytest.raises(ValueError, match="noise_rate"):
        config_of(tmp_path / "bad", uri, methods=[{"name": "bm2pca", "prior": {"noise_rate": 0}}])
