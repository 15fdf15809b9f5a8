"""``dataset.target``: runs, evaluations and refreshes of numbers to predict, and of slices of these."""

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import zarr
from helpers.evaluating import scored
from helpers.runs import refreshed, through
from helpers.samples import largest_angle
from helpers.tables import config_of, with_targets, write, write_parquet
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.pipeline import make_pipeline

from mmpca_dist import PLS, LassoSelection, ProjectionPenaltyRegressor, RidgeDirections, SupervisedPCA, load_model, run
from mmpca_dist.configuration.schema import as_config
from mmpca_dist.errors import ConfigError, InputError

pytestmark = pytest.mark.usefixtures("no_report")
METHODS = ["pls", "hsic", "ridge", "lasso", "pca", "all-columns"]
ESTIMATORS = {
    "pls": PLS(2, target="continuous"), "hsic": SupervisedPCA(target="continuous"),
    "ridge": RidgeDirections(target="continuous"), "lasso": LassoSelection(2, target="continuous"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "q"), [("parquet", 2), pytest.param("zarr", 1, marks=pytest.mark.e2e)])
@pytest.mark.parametrize(("n", "d"), [(90, 6), (30, 45)])
def test_a_run_has_the_models_of_the_estimators(n, d, q, kind, tmp_path):
    X, Y = with_targets(n, d, 2, seed=1)
    uri = write(kind, tmp_path / "rows", X, Y[:, 0], second=Y[:, 1])
    dataset = {"target": ["y", "second"][:q], "drop": ["second"][q - 1 :] if kind == "parquet" else []}
    penalty = {"name": "projection-penalty", "loss": "squared", "reduction": "pls"}
    run(config_of(tmp_path / "out", uri, dataset=dataset, methods=[*METHODS, penalty]))
    for name, estimator in ESTIMATORS.items():
        expected = estimator.fit(X, Y[:, :q])
        found = load_model(str(tmp_path / "out"), name)
        np.testing.assert_allclose(
            found.components_, expected.components_, atol=1e-9 * np.abs(expected.components_).max()
        )
        assert found.target_names_ == ["y", "second"][:q] and not hasattr(found, "classes_")
    projected = pd.DataFrame(np.asarray(load_model(str(tmp_path / "out"), "pca").transform(X)))
    assert projected.shape == (n, 2)


class Reduced:
    """Least squares on the components of an estimator of this project that is fitted to numbers."""

    def __init__(self, estimator):
        self.estimator, self.least_squares = estimator, LinearRegression()

    def fit(self, X, y):
        self.least_squares.fit(self.estimator.fit(X, y).transform(X), y)
        return self

    def predict(self, X):
        return self.least_squares.predict(self.estimator.transform(X))


PEERS = {
    "pls": lambda: PLSRegression(2, scale=False, tol=1e-13, max_iter=100_000),
    "hsic": lambda: Reduced(SupervisedPCA(target="continuous")),
    "ridge": lambda: Reduced(RidgeDirections(target="continuous")),
    "lasso": lambda: Reduced(LassoSelection(2, target="continuous")),
    "pca": lambda: make_pipeline(PCA(2), LinearRegression()),
    "all-columns": LinearRegression,
}


@pytest.mark.parametrize(("gaps", "q"), [(True, 2), pytest.param(False, 1, marks=pytest.mark.e2e)])
def test_an_evaluation_is_least_squares_on_components_fitted_to_the_rows_that_train(gaps, q, tmp_path):
    X, Y = with_targets(90, 6, 2, seed=2, mean=100.0)
    rng = np.random.default_rng(2)
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    part = rng.integers(0, 4, 90)
    uri = write("parquet", tmp_path / "rows", X, Y[:, 0], second=Y[:, 1], part=part)
    dataset = {"target": ["y", "second"][:q], "drop": ["second"][q - 1 :], "missing": "mean"}
    evaluation = {"splits": "given", "column": "part"}
    config = config_of(tmp_path / "out", uri, dataset=dataset, methods=METHODS, evaluation=evaluation)
    records, _, _ = scored(config)
    assert len(records) == 4
    for record in records:
        held_out = part == record["split"]
        imputer = SimpleImputer().fit(X[~held_out])
        train, test = imputer.transform(X[~held_out]), imputer.transform(X[held_out])
        fitted, true = Y[~held_out, :q], Y[held_out, :q]
        assert len(record["errors"]) == len(METHODS)
        for line in record["errors"]:
            named = PEERS[line["method"]]().fit(train, fitted).predict(test)
            np.testing.assert_allclose(line["r2"], r2_score(true, named), atol=1e-9)
            precise = 1e-8 if line["method"] == "pls" else 1e-9  # scikit-learn's iterates
            np.testing.assert_allclose(line["rmse"], root_mean_squared_error(true, named), rtol=precise)
            np.testing.assert_allclose(line["errors"], (1 - line["r2"]) * held_out.sum())
        guessed = np.broadcast_to(fitted.mean(axis=0), true.shape)
        np.testing.assert_allclose(record["guessed"] / held_out.sum(), 1 - r2_score(true, guessed))


def test_slices_are_classes_and_fisher_on_them_is_sliced_inverse_regression(tmp_path):
    X, y = with_targets(200, 5, 1, seed=3)
    y = y[:, 0]
    uri = write("parquet", tmp_path / "rows", X, y)
    run(config_of(tmp_path / "out", uri, dataset={"target": {"column": "y", "slices": 8}},
                  methods=[{"name": "fisher", "shrinkage": 0}, "m-pca0"]))  # fmt: skip
    order = np.argsort(y)
    slices = np.empty(200, int)
    slices[order] = np.arange(200) * 8 // 200
    means = np.stack([X[slices == h].mean(axis=0) for h in range(8)])[slices] - X.mean(axis=0)
    values, vectors = scipy.linalg.eigh(means.T @ means / 200, np.cov(X.T, bias=True))
    found = load_model(str(tmp_path / "out"), "fisher")
    assert found.classes_.tolist() == list(range(1, 9))
    assert largest_angle(found.components_, vectors[:, ::-1][:, :2]) < 1e-5
    np.testing.assert_allclose(found.eigenvalues_ / (1 + found.eigenvalues_), values[::-1][:2], rtol=1e-7)


@pytest.mark.parametrize("target", ["y", {"column": "y", "slices": 4}])
def test_a_refresh_is_a_run_over_all_rows(target, tmp_path):
    X, Y = with_targets(120, 5, 1, seed=4)
    dataset, methods = {"target": target}, ["pls", "pca"] if target == "y" else ["fisher", "pls"]
    first, new = (write("parquet", tmp_path / name, X[rows], Y[rows, 0])
                  for name, rows in (("first", slice(0, 70)), ("new", slice(70, 120))))  # fmt: skip
    run(config_of(tmp_path / "base", first, dataset=dataset, methods=methods))
    refreshed(tmp_path / "base", new, tmp_path / "live")
    if target == "y":
        whole = write("parquet", tmp_path / "whole", X, Y[:, 0])
        run(config_of(tmp_path / "all", whole, dataset=dataset, methods=methods))
        expected = load_model(str(tmp_path / "all"), "pls").components_
    else:  # by the edges of the slices of the first rows
        edges = np.quantile(Y[:70, 0], np.arange(1, 4) / 4, method="inverted_cdf")
        expected = PLS(2, precision="double").fit(X, np.searchsorted(edges, Y[:, 0])).components_
    np.testing.assert_allclose(load_model(str(tmp_path / "live"), "pls").components_, expected, atol=1e-9)


def test_what_is_no_number_is_refused_and_rows_without_one_are_left_out(tmp_path):
    X, Y = with_targets(60, 4, 1, seed=5)
    y = Y[:, 0].copy()
    y[[3, 40]] = np.nan
    uri = write("parquet", tmp_path / "rows", X, y, name=np.full(60, "a"))
    for target in ("y", {"column": "y", "slices": 3}):
        config = config_of(tmp_path / "out", uri, dataset={"target": target, "drop": ["name"]}, methods=["pls"])
        with pytest.raises(InputError, match="missing values"):
            run(config)
    skipped = {"target": "y", "drop": ["name"], "unlabelled": "skip"}
    run(config_of(tmp_path / "out", uri, dataset=skipped, methods=["pls"]))
    expected = PLS(2, target="continuous").fit(X[np.isfinite(y)], y[np.isfinite(y)])
    np.testing.assert_allclose(load_model(str(tmp_path / "out"), "pls").components_, expected.components_, atol=1e-9)
    for changes, words in (
        ({"methods": ["fisher"]}, r"fisher takes classes, .* cut these into slices"),
        ({"methods": [{"name": "projection-penalty", "loss": "hinge", "reduction": "pls"}]}, "takes classes"),
        ({"dataset": {**skipped, "target": "name", "drop": ["y"]}}, "have type object; they must be numbers"),
        ({"dataset": {**skipped, "target": "z"}}, r"has no column 'z' \(dataset\.target\)"),
    ):
        with pytest.raises(InputError, match=words):
            run(config_of(tmp_path / "other", uri, **{"dataset": skipped, "methods": ["pls"], **changes}))
    for section, words in (
        ({"target": {"column": "y", "slices": 1}}, r"dataset\.target\.slices must be a whole number from 2 to 100"),
        ({"target": {"column": ["y", "z"], "slices": 3}}, "single"),
        ({"target": ["y", "y"]}, "twice"), ({"target": "y", "label": "name"}, "not both"), ({"target": 3}, "target"),
        ({"target": {"columns": "y"}}, "target"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=words):
            config_of(tmp_path / "other", uri, dataset={**section})
    assert as_config(config.model_dump(mode="json")) == config


def test_least_squares_of_more_columns_than_rows_is_the_shortest_and_constant_parts_count_as_nothing(tmp_path):
    X, Y = with_targets(40, 60, 1, seed=6)
    X = X * np.linspace(0.2, 3, 60)
    y, part = Y[:, 0].copy(), np.arange(40) % 4
    y[part == 1] = 2.5
    uri = write("parquet", tmp_path / "rows", X, y, part=part)
    evaluation = {"splits": "given", "column": "part"}
    settings = {"dataset": {"target": "y"}, "methods": ["all-columns"], "evaluation": evaluation}
    records, _, _ = scored(config_of(tmp_path / "out", uri, **settings))
    for record in records:
        held_out = part == record["split"]
        named = LinearRegression().fit(X[~held_out], y[~held_out]).predict(X[held_out])
        expected = 0.0 if record["split"] == 1 else r2_score(y[held_out], named)
        np.testing.assert_allclose(record["errors"][0]["r2"], expected, rtol=1e-5, atol=1e-6)
        assert bool(record["notes"]) == (record["split"] == 1)


def test_loaded_models_go_on_and_transform_carries_the_numbers(tmp_path):
    X, Y = with_targets(80, 5, 1, seed=7)
    uri, new = (write("parquet", tmp_path / f"rows{i}", X[rows], Y[rows, 0])
                for i, rows in enumerate((slice(0, 60), slice(60, 80))))  # fmt: skip
    penalty = {"name": "projection-penalty", "loss": "squared", "reduction": "pls"}
    run(config_of(tmp_path / "out", uri, dataset={"target": "y"}, methods=["pls", "pca", penalty]))
    extended = load_model(str(tmp_path / "out"), "pls").partial_fit(X[60:], Y[60:])
    np.testing.assert_allclose(extended.components_, PLS(2, target="continuous").fit(X, Y).components_, atol=1e-9)
    with pytest.raises(InputError, match="numbers to predict, which the method does not take"):
        load_model(str(tmp_path / "out"), "pca").partial_fit(X, np.arange(80) % 2)
    model = load_model(str(tmp_path / "out"), "projection-penalty")
    expected = ProjectionPenaltyRegressor("pls", n_components=2).fit(X[:60], Y[:60, 0])
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-8)
    through(tmp_path / "out", new, tmp_path / "new", methods=["pls"])
    projected = zarr.open_group(str(tmp_path / "new" / "projected" / "pls.zarr"))
    np.testing.assert_array_equal(projected["y"][:], Y[60:, 0])


@pytest.mark.parametrize("columns", [["p", "q"], ["p"], []], ids=["both", "one", "none"])
def test_rows_to_transform_need_no_targets(columns, tmp_path):
    X, Y = with_targets(80, 5, 2, seed=7)
    targets = dict(zip("pq", Y.T, strict=True))
    uri = write_parquet(tmp_path / "rows.parquet", X, **targets)
    run(config_of(tmp_path / "out", uri, dataset={"target": ["p", "q"]}, methods=["pls"]))
    new = write_parquet(tmp_path / "new.parquet", X[:30], **{name: targets[name][:30] for name in columns})
    through(tmp_path / "out", new, tmp_path / "to", methods=["pls"])
    Z = zarr.open_group(str(tmp_path / "to" / "projected" / "pls.zarr"))["X"][:]
    np.testing.assert_allclose(Z, load_model(str(tmp_path / "out"), "pls").transform(X[:30]), rtol=1e-5, atol=1e-5)


def test_slices_of_rows_with_weights_are_those_of_repeated_rows(tmp_path):
    X, y = with_targets(200, 5, 1, seed=5)
    y, weights = y[:, 0], np.random.default_rng(5).integers(0, 4, 200)
    given = write("parquet", tmp_path / "given", X, y, w=weights)
    repeated = write("parquet", tmp_path / "repeated", np.repeat(X, weights, axis=0), np.repeat(y, weights))
    found = []
    for uri, weight in ((given, {"weight": "w"}), (repeated, {})):
        dataset = {"target": {"column": "y", "slices": 7}, **weight}
        run(config_of(f"{uri}-run", uri, dataset=dataset, methods=["fisher"]))
        found.append(load_model(f"{uri}-run", "fisher"))
    np.testing.assert_array_equal(found[0].moments_.counts, found[1].moments_.counts)
    np.testing.assert_allclose(found[0].components_, found[1].components_, atol=1e-9)


@pytest.mark.parametrize(("values", "classes"), [([0.0] * 3 + [1.0] * 117, 2), ([2.0] * 100 + [3.0, 4.0] * 10, 3)])
def test_slices_of_few_values_are_these(values, classes, tmp_path):
    X, _ = with_targets(120, 4, 1, seed=8)
    uri = write("parquet", tmp_path / "rows", X, np.asarray(values))
    for target, words in (({"column": "y", "slices": 10}, None), ({"column": "same", "slices": 3}, "are 7")):
        frame = pd.read_parquet(uri).assign(same=7.0)
        frame.to_parquet(uri)
        dataset = {"target": target, "drop": ["same" if words is None else "y"]}
        config = config_of(tmp_path / "out", uri, dataset=dataset, methods=["pca"])
        if words is None:
            run(config)
            assert len(load_model(str(tmp_path / "out"), "pca").classes_) == classes
        else:
            with pytest.raises(InputError, match=words):
                run(config)


def test_classifiers_are_refused_in_evaluations_of_numbers(tmp_path):
    X, Y = with_targets(60, 5, 1, seed=10)
    uri = write("parquet", tmp_path / "rows", X, Y[:, 0])
    dataset, evaluation = {"target": "y"}, {"classifiers": ["qda"]}
    with pytest.raises(InputError, match=r"evaluation\.classifiers are for classes"):
        scored(config_of(tmp_path / "out", uri, dataset=dataset, methods=["pls"], evaluation=evaluation))


def test_class_weights_and_solvers_in_passes_are_refused_with_numbers(tmp_path):
    X, Y = with_targets(60, 5, 1, seed=9)
    uri = write("parquet", tmp_path / "rows", X, Y[:, 0])
    for changes, words in (
        ({"class_weight": "balanced"}, "class_weight is for classes"),
        ({"methods": ["hsic"], "solver": {"kind": "krylov"}}, "as a whole"),
        ({"methods": ["projection-penalty"]}, "give it loss: squared"),
    ):
        with pytest.raises(InputError, match=words):
            run(config_of(tmp_path / "out", uri, dataset={"target": "y"}, **changes))
