"""BM2PCA as estimators: against the twin, over kinds of rows, and from one sweep to the next."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from helpers.tables import labelled
from naive_bayesian import BayesianMargin, labelled_terms, principal_start, target_terms
from sklearn import config_context
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from mmpca_dist import BayesianMarginPCA, BayesianMarginRegressor, open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.scratch import MemoryScratch, ZarrScratch

EXACT = {"precision": "double", "tol": 0.0, "max_iter": 4}


def fitted_twin(X, terms, C, k, sweeps=4):
    """Return the twin after some sweeps from the start of probabilistic PCA, and its bounds."""
    twin = BayesianMargin(X, terms, C, *principal_start(X, k))
    bounds = []
    for _ in range(sweeps):
        twin.sweep()
        bounds.append(twin.bound())
    return twin, bounds


def check_model(estimator, number, twin, X, bounds):
    """Check that a model of an estimator is the twin: up to the order and signs of components."""
    loadings = estimator.components_.reshape(-1, estimator.fitted().used, X.shape[1])[number].T
    order = np.argsort(-np.sum(twin.M**2, axis=0), kind="stable")
    signs = np.sign(np.sum(loadings * twin.M[:, order], axis=0))
    size = np.abs(twin.M).max()
    np.testing.assert_allclose(loadings, twin.M[:, order] * signs, atol=1e-6 * size)
    np.testing.assert_allclose(estimator.weights_[number][:-1], twin.eta[:-1][order] * signs, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(estimator.weights_[number][-1], twin.eta[-1], rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(estimator.location_[number] + estimator.mean_, twin.t, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(estimator.noise_[number], twin.tau, rtol=1e-6)
    np.testing.assert_allclose(estimator.relevance_[number], twin.r[order], rtol=1e-5)
    np.testing.assert_allclose(estimator.bounds_[:, number], bounds, rtol=1e-8)
    latent = np.stack([twin.latent_of(x) for x in X])[:, order] * signs
    k = estimator.fitted().used
    np.testing.assert_allclose(estimator.transform(X)[:, number * k : (number + 1) * k], latent, atol=1e-6)


@pytest.mark.parametrize("mean", [0.0, 100.0])
@pytest.mark.parametrize(("n", "d", "n_classes", "k"), [(40, 5, 2, 2), (30, 6, 3, 3), (12, 20, 3, 2), (9, 30, 2, 1)])
def test_it_is_its_twin(n, d, n_classes, k, mean):
    X, y = labelled(n, d, n_classes, seed=n, mean=mean)
    estimator = BayesianMarginPCA(k, C=10.0, **EXACT).fit(X, y)
    models = [1] if n_classes == 2 else range(n_classes)
    for number, positive in enumerate(models):
        twin, bounds = fitted_twin(X, labelled_terms(y.tolist(), positive), 10.0, k)
        check_model(estimator, number, twin, X, bounds)
        expected = np.array([twin.output(x) for x in X])
        outputs = estimator.decision_function(X).reshape(n, -1)[:, number]
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    assert estimator.components_.shape == ((k, d) if n_classes == 2 else (n_classes, k, d))
    outputs = estimator.decision_function(X)
    named = (outputs > 0).astype(int) if n_classes == 2 else outputs.argmax(axis=1)
    assert estimator.predict(X).tolist() == estimator.classes_[named].tolist()


def test_standardised_rows_are_fitted_as_if_they_had_been_standardised_before():
    X, y = labelled(50, 4, 2, seed=1)
    X = X * [1, 10, 0.1, 3] + [0, 5, 0, -2]
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    found = BayesianMarginPCA(2, C=10.0, standardize=True, **EXACT).fit(X, y)
    # The prior of the location is about zero of the rows in these units, wherever their mean is.
    expected = BayesianMarginPCA(2, C=10.0, **EXACT).fit(rows + X.mean(axis=0) / X.std(axis=0), y)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-8)
    np.testing.assert_allclose(
        found.decision_function(X), expected.decision_function(rows + X.mean(0) / X.std(0)), atol=1e-8
    )


def test_rows_without_a_label_take_part_without_terms():
    X, y = labelled(40, 5, 3, seed=2)
    known = np.arange(40) % 3 > 0
    labels = np.where(known, y, -1)
    estimator = BayesianMarginPCA(2, C=10.0, unlabelled=-1, **EXACT).fit(X, labels)
    assert estimator.classes_.tolist() == [0, 1, 2]
    assert "14 rows have the label -1, which stands for no label" in " ".join(estimator.fitted().remarks)
    as_text = BayesianMarginPCA(2, C=10.0, unlabelled="-1", **EXACT).fit(X, labels)
    assert as_text.components_.tobytes() == estimator.components_.tobytes()
    without = BayesianMarginPCA(2, unlabelled="none").fit(X, y)
    assert "no rows have the label 'none'" in " ".join(without.fitted().remarks)
    for positive in range(3):
        named = [label if is_known else None for label, is_known in zip(y.tolist(), known, strict=True)]
        twin, bounds = fitted_twin(X, labelled_terms(named, positive), 10.0, 2)
        check_model(estimator, positive, twin, X, bounds)
    with pytest.raises(InputError, match="there must be at least two"):
        BayesianMarginPCA(1, unlabelled=2).fit(X[:20], np.where(y[:20] > 0, 2, 0))


@pytest.mark.parametrize(("n", "d"), [(40, 5), (12, 20)])
def test_continuous_targets_are_fitted_by_the_insensitive_loss(n, d):
    X, _ = labelled(n, d, 2, seed=3)
    Y = np.column_stack([X @ np.linspace(-1, 1, d), X[:, 0] ** 2])
    Y[::7, 0] = np.nan
    estimator = BayesianMarginRegressor(2, C=0.5, epsilon=0.2, **EXACT).fit(X, Y)
    for number, y in enumerate(Y.T):
        mean, deviation = np.nanmean(y), np.nanstd(y)
        twin, bounds = fitted_twin(X, target_terms((y - mean) / deviation, 0.2), 0.5, 2)
        check_model(estimator, number, twin, X, bounds)
        expected = mean + deviation * np.array([twin.output(x) for x in X])
        np.testing.assert_allclose(estimator.predict(X)[:, number], expected, rtol=1e-5, atol=1e-6)
    one = BayesianMarginRegressor(2, C=0.5, epsilon=0.2, **EXACT).fit(X, Y[:, 1])
    assert one.predict(X).shape == (n,)
    lazy = BayesianMarginRegressor(2, C=0.5, epsilon=0.2, **EXACT).fit(da.from_array(X, (7, d)), Y)
    np.testing.assert_allclose(lazy.components_, estimator.components_, atol=1e-8)


@pytest.mark.parametrize(("n", "d"), [(60, 6), (14, 25)])
def test_arrays_sparse_rows_dask_arrays_and_data_sets_give_the_same(n, d, tmp_path):
    X, y = labelled(n, d, 3, seed=4)
    X[np.abs(X) < 1] = 0
    expected = BayesianMarginPCA(2, C=10.0, **EXACT).fit(X, y)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    dataset = open_dataset(str(tmp_path / "rows.npz"))
    chunks = da.from_array(X, chunks=(11, d))
    for rows, labels in (
        (scipy.sparse.csr_array(X), y),
        (chunks, y),
        (chunks.map_blocks(scipy.sparse.csr_array), y),
        (dataset, None),
    ):
        found = BayesianMarginPCA(2, C=10.0, **EXACT).fit(rows, labels)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7)
        outputs, named = found.decision_function(rows), found.predict(rows)
        assert dask.is_dask_collection(outputs) == (rows is dataset or isinstance(rows, da.Array))
        np.testing.assert_allclose(np.asarray(outputs), expected.decision_function(X), atol=1e-6)
        assert np.asarray(named).tolist() == expected.predict(X).tolist()


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_same_bits_whatever_the_workers_and_wherever_states_are(in_memory, monkeypatch, limits):
    limits.unit_bytes, limits.smallest_unit_bytes = 40 * 8 * 6, 1
    monkeypatch.setattr("mmpca_dist.methods.base.statistics_for.states_fit_memory", lambda *_: in_memory)
    X, y = labelled(400, 6, 3, seed=5)
    fits = []
    for workers in (1, 2, 4):
        with dask.config.set(num_workers=workers):
            fits.append(BayesianMarginPCA(2, C="auto", max_iter=3, tol=0.0).fit(da.from_array(X, (40, 6)), y))
    for fit in fits[1:]:
        assert fit.components_.tobytes() == fits[0].components_.tobytes()
        assert fit.bounds_.tobytes() == fits[0].bounds_.tobytes()
    memory = BayesianMarginPCA(2, C="auto", max_iter=3, tol=0.0).fit(X, y)
    np.testing.assert_allclose(memory.components_, fits[0].components_, atol=1e-5)


def test_the_best_candidate_is_chosen_by_errors_on_rows_held_out():
    X, y = labelled(45, 4, 3, seed=8, separation=0.4)
    y = y.astype("U1")
    found = BayesianMarginPCA(2, C="auto", candidates=(0.1, 100.0), **EXACT).fit(X, y)
    n_folds = min(5, np.unique(y, return_counts=True)[1].min())
    folds = np.array([fold % n_folds for fold in _ranks(y)])
    start = principal_start(X, 2)
    errors = []
    for C in (0.1, 100.0):
        wrong = 0
        for fold in range(n_folds):
            trains, outputs = folds != fold, []
            for positive in "012":
                terms = labelled_terms(y[trains].tolist(), positive)
                twin = BayesianMargin(X[trains], terms, C, *start, location=X.mean(axis=0))
                for _ in range(4):
                    twin.sweep()
                outputs.append([twin.output(x) for x in X[~trains]])
            wrong += np.count_nonzero(np.array(list("012"))[np.argmax(outputs, axis=0)] != y[~trains])
        errors.append(wrong)
    assert found.candidate_errors_.tolist() == errors
    assert (0.1, 100.0)[int(np.argmin(errors))] == found.C_
    assert errors[0] != errors[1]


def _ranks(y):
    """Return the number of each row within its class."""
    seen = dict.fromkeys(y.tolist(), 0)
    ranks = []
    for label in y.tolist():
        ranks.append(seen[label])
        seen[label] += 1
    return ranks


def test_sweeps_end_by_the_bound_or_by_their_number():
    X, y = labelled(100, 6, 2, seed=8)
    few = BayesianMarginPCA(2, C=1.0, tol=2e-4, precision="double").fit(X, y)
    gains = np.diff(few.bounds_.sum(axis=1)) / X.size
    assert 3 < few.n_iter_ == len(few.bounds_) < 100 and few.converged_
    assert gains[-1] <= 2e-4 < gains[:-1].min()
    more = BayesianMarginPCA(2, C=1.0, tol=0.0, max_iter=3).fit(X, y)
    assert more.n_iter_ == 3 and not more.converged_
    assert "raise max_iter" in " ".join(more.fitted().unconverged)


def test_components_that_do_not_matter_are_switched_off():
    rng = np.random.default_rng(9)
    y = np.arange(300) % 2
    X = np.column_stack([rng.normal(size=(300, 2)) * 5 + 6.0 * y[:, None], rng.normal(size=(300, 6))])
    model = BayesianMarginPCA(6, C=1.0, tol=1e-6, max_iter=2000, precision="double").fit(X, y)
    assert model.switched_off_.tolist() == [False, False, True, True, True, True]
    assert "4 of 6 components are switched off" in " ".join(model.fitted().remarks)


@pytest.mark.parametrize("resumed_at", [1, 2, 4])
def test_a_fit_goes_on_from_the_last_whole_sweep(tmp_path, monkeypatch, resumed_at):
    """A sweep that is broken off after some of its states leaves those before it, and nothing is lost."""
    from mmpca_dist.eigen.options import SolverOptions
    from mmpca_dist.methods.base.statistics_for import class_statistics, with_sweeps
    from mmpca_dist.passes.rows import Rows
    from mmpca_dist.passes.schedulers import Threads
    from mmpca_dist.statistics.from_rows import rows_in_memory

    monkeypatch.setattr(LIMITS, "unit_bytes", 25 * 8 * 5)
    monkeypatch.setattr(LIMITS, "smallest_unit_bytes", 1)
    monkeypatch.setattr("mmpca_dist.tables.spans.GRAIN_BYTES", 25 * 8 * 5)
    X, y = labelled(200, 5, 3, seed=10)
    passes = []
    rows = Rows.of(rows_in_memory(X, y, "X"), Threads(1), on_pass=lambda name, _: passes.append(name))
    estimator = BayesianMarginPCA(2, C=10.0, **(EXACT | {"max_iter": 5}))
    statistics = class_statistics(rows, estimator.needs(), SolverOptions(), precision="double", standardize=False)
    whole = with_sweeps(statistics, rows, estimator._fit(), [2], MemoryScratch()).fits[estimator._fit(), 2]
    scratch, put = ZarrScratch(str(tmp_path / "scratch")), ZarrScratch.put
    written = []

    def failing(self, name, arrays, **options):
        if name.startswith(f"2-sweep-{resumed_at}-") and len(written) >= 3:
            raise OSError("the machine is gone")
        written.append(name) if name.startswith(f"2-sweep-{resumed_at}-") else None
        put(self, name, arrays, **options)

    monkeypatch.setattr(ZarrScratch, "put", failing)
    with pytest.raises(OSError, match="gone"):
        with_sweeps(statistics, rows, estimator._fit(), [2], scratch)
    monkeypatch.setattr(ZarrScratch, "put", put)
    passes.clear()
    again = with_sweeps(statistics, rows, estimator._fit(), [2], ZarrScratch(scratch.uri)).fits[estimator._fit(), 2]
    assert passes == ["sweep"] * (5 - (resumed_at - 1))
    for name, value in vars(again.posterior).items():
        assert value.tobytes() == getattr(whole.posterior, name).tobytes()
    assert again.bounds.tobytes() == whole.bounds.tobytes()
    left = {path.name for path in (tmp_path / "scratch").iterdir()}
    assert left == {"2-sweep.npz"}


@pytest.mark.parametrize(("parameters", "message"), [
    ({"C": 0}, "C=0 must be a number of more than 0 and"),
    ({"C": "best"}, "C='best' must be a number of .*, or 'auto'"),
    ({"candidates": ()}, r"candidates=\(\) must be a list"),
    ({"candidates": 5}, "candidates=5 must be a list"),
    ({"unlabelled": [1]}, r"unlabelled=\[1\] must be a label"),
    ({"unlabelled": True}, "unlabelled=True must be a label"),
    ({"C": 1e200}, "must be a number of more than 0 and at most"),
    ({"candidates": (1, -2)}, "a candidate for C=-2 must be a number of"),
    ({"start": "best"}, "start='best' must be one of pca, random"),
    ({"tol": -1}, "tol=-1 must be"),
    ({"max_iter": 0}, "max_iter=0 must be"),
    ({"n_components": 9}, "n_components=9 is more than the 5"),
])  # fmt: skip
def test_a_parameter_that_makes_no_sense_is_refused(parameters, message):
    X, y = labelled(30, 5, 2, seed=11)
    with pytest.raises(InputError, match=message):
        BayesianMarginPCA(**parameters).fit(X, y)


def test_random_loadings_come_from_the_seed():
    X, y = labelled(50, 5, 2, seed=12)
    one, same, other = (BayesianMarginPCA(2, start="random", seed=seed).fit(X, y) for seed in (0, 0, 1))
    assert one.components_.tobytes() == same.components_.tobytes() != other.components_.tobytes()


def test_expected_rows_are_those_of_the_model():
    X, y = labelled(60, 5, 2, seed=13)
    model = BayesianMarginPCA(4, C=1.0, **EXACT).fit(X, y)
    Z = model.transform(X)
    np.testing.assert_allclose(model.inverse_transform(Z), Z @ model.components_ + model.location_[0] + model.mean_)
    assert np.mean((model.inverse_transform(Z) - X) ** 2) < 0.2 * np.var(X - X.mean(axis=0))


@pytest.mark.parametrize("precision", ["single", "double"])
def test_columns_of_very_different_size_are_fitted_in_either_precision(precision):
    """Moments in single precision lose what is small beside the largest; the sweeps do not."""
    X, y = load_breast_cancer(return_X_y=True)
    model = BayesianMarginPCA(20, precision=precision, tol=0.0, max_iter=100).fit(X, y)
    assert np.min(np.diff(model.bounds_[:, 0])) >= -1e-9 * np.abs(model.bounds_).max()
    assert model.bounds_[-1, 0] > 8000 and model.score(X, y) > 0.95


@pytest.mark.parametrize("scale", [10, 1e4])
def test_the_units_of_the_columns_do_not_matter(scale):
    """The noise and the components of the start follow the rows; only the vague priors are in units."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    one, other = (BayesianMarginPCA(3, precision="double").fit(rows, y) for rows in (X, scale * X))
    assert one.n_iter_ == other.n_iter_ and not other.switched_off_.any()
    np.testing.assert_allclose(other.components_, scale * one.components_, atol=2e-2 * scale)
    np.testing.assert_array_equal(one.predict(X), other.predict(scale * X))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_units_of_the_targets_do_not_matter(scale):
    X, y = load_diabetes(return_X_y=True)
    one, other = (BayesianMarginRegressor(3, standardize=True).fit(X, targets) for targets in (y, scale * y - 7))
    np.testing.assert_allclose(other.predict(X), scale * one.predict(X) - 7, rtol=1e-6, atol=1e-6 * scale)


@pytest.mark.parametrize(
    ("targets", "message"), [(np.full(12, np.nan), "All values of a target are NaN"), (np.full(12, np.inf), "infinite")]
)
def test_targets_that_nothing_follows_from_are_refused(targets, message):
    X = np.random.default_rng(1).standard_normal((12, 3))
    with pytest.raises(InputError, match=message):
        BayesianMarginRegressor(1).fit(da.from_array(X, (5, 3)), targets)
    with pytest.raises(InputError, match="give continuous targets as y"):
        BayesianMarginRegressor(1).fit(open_dataset("bundled:digits"))


def test_outputs_are_arrays_whatever_transform_returns():
    X, y = labelled(40, 4, 3, seed=14)
    expected = BayesianMarginPCA(2).fit(X, y).predict(X)
    model = BayesianMarginPCA(2).set_output(transform="pandas").fit(X, y)
    assert model.predict(X).tolist() == expected.tolist()
    assert np.asarray(model.predict(da.from_array(X, (9, 4)))).tolist() == expected.tolist()
    with config_context(transform_output="pandas"):
        assert BayesianMarginPCA(2).fit(X, y).predict(X).tolist() == expected.tolist()


@pytest.mark.parametrize("solver", ["dense", "krylov"])
def test_a_solver_in_passes_starts_from_the_same_noise(solver):
    """Its basis is narrow, but the rows are not."""
    X, y = labelled(300, 60, 2, seed=15)
    fits = [BayesianMarginPCA(3, solver=kind, precision="double", max_iter=1).fit(X, y) for kind in ("dense", solver)]
    np.testing.assert_allclose(fits[1].bounds_, fits[0].bounds_, rtol=1e-4)


def test_rows_that_nothing_follows_from_are_refused():
    X, y = labelled(30, 4, 2, seed=16)
    with pytest.raises(InputError, match="whose squares are zero in double precision"):
        BayesianMarginPCA(2, precision="double").fit(X * 1e-160, y)
    with pytest.raises(InputError, match="All rows are equal, or"):
        BayesianMarginPCA(1).fit(np.ones((6, 3)), [0, 1] * 3)
    with pytest.raises(InputError, match="give C as a number"):
        BayesianMarginPCA(1, C="auto").fit(X, np.arange(30) == 3)
