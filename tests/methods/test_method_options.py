"""Methods with options of their own, several times in one run, under labels."""

import naive
import numpy as np
import pytest
from helpers.runs import through
from helpers.samples import largest_angle
from helpers.tables import labelled

from mmpca_dist import MarginPCA, RidgeDirections, load_model, run
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.errors import ConfigError
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.runs.evaluate import evaluate

X, Y = labelled(240, 5, 3, seed=21)


def settings(output, **changes):
    content = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca"], "n_components": 2, "output": str(output)}
    return {**content, "compute": {"workers": 1}, **changes}


def parsed(**changes):
    return parse_config(settings("out", **changes), "the test")


@pytest.fixture
def rows(tmp_path):
    np.savez(tmp_path / "rows.npz", X=X, y=Y)
    return {"uri": str(tmp_path / "rows.npz")}


@pytest.mark.usefixtures("no_report")
def test_a_method_with_two_values_of_an_option_is_two_rows_of_every_table(tmp_path, rows):
    methods = ["pca", {"name": "ridge", "alpha": 1}, {"name": "ridge", "alpha": 1e4, "label": "ridge-1e4"}]
    output = str(tmp_path / "out")
    run(settings(output, dataset=rows, methods=methods, precision="double", project={"methods": ["ridge-1e4"]}))
    result = result_in(output)
    table, legend = result.rows, result.legend
    assert [row["method"] for row in table] == ["pca", "ridge", "ridge-1e4"]
    assert "ridge, ridge-1e4: variance of the class indicators" in legend
    for label, alpha in (("ridge", 1), ("ridge-1e4", 1e4)):
        expected = RidgeDirections(2, alpha=alpha, precision="double").fit(X, Y)
        np.testing.assert_allclose(load_model(output, label).components_, expected.components_, rtol=1e-9)
    made = through(output, rows["uri"], f"{output}-new")
    assert [place.rsplit("/", 1)[1] for place in made["outputs"]] == ["pca.zarr", "ridge.zarr", "ridge-1e4.zarr"]
    evaluate(settings(output, dataset=rows, methods=methods, evaluation={"classifiers": ["lda"]}))
    assert {row["method"] for row in result_in(f"{output}/evaluation").rows} == {
        "pca",
        "ridge",
        "ridge-1e4",
        "all-columns",
    }


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("merged", [False, pytest.param(True, marks=pytest.mark.e2e)])
def test_each_way_of_pairing_has_a_search_and_medians_of_its_own(tmp_path, rows, merged):
    """Both pairings of M-PCA1b and M-PCA2 in one run are those of two runs, and of the papers' difference rows."""
    pairings = ("one-vs-rest", "one-vs-one")
    methods = [
        {"name": name, "pairing": pairing, "label": f"{name}-{pairing}"}
        for name in ("m-pca1b", "m-pca2") for pairing in pairings
    ]  # fmt: skip
    output = str(tmp_path / "out")
    run(settings(output, dataset=rows, methods=methods, precision="double"))
    assert [line.split(":")[0] for line in result_in(output).words] == [
        "search of m-pca2-one-vs-rest", "search of m-pca2-one-vs-one",
    ]  # fmt: skip
    for pairing in pairings:
        for name in ("m-pca1b", "m-pca2"):
            S = naive.mean_outer_product(naive.ROWS[name](X, Y, pairing))
            found = load_model(output, f"{name}-{pairing}")
            assert largest_angle(found.components_, naive.eigenpairs(S)[1][:, :2]) < 1e-6
    evaluation = {"classifiers": ["lda"], "margins": False, **({"folds": 3} if merged else {"splits": "shares"})}
    evaluate(settings(output, dataset=rows, methods=methods, n_components=[2], evaluation=evaluation))
    together = {row["method"]: row["lda"] for row in result_in(f"{output}/evaluation").rows}
    for one in methods:
        alone = str(tmp_path / one["label"])
        evaluate(settings(alone, dataset=rows, methods=[one], n_components=[2], evaluation=evaluation))
        assert result_in(f"{alone}/evaluation").rows[0]["lda"] == together[one["label"]]


@pytest.mark.parametrize(("methods", "message"), [
    ([{"name": "ridge", "alfa": 1}], "methods: ridge: Unknown key 'alfa'. Did you mean 'alpha'?"),
    ([{"name": "ridge", "alpha": -1}], "ridge: alpha must be a number of at least 0, such as 'alpha: 0.1'"),
    ([{"name": "pca", "alpha": 1}], "pca: Unknown key 'alpha'."),
    (["ridg"], "unknown method 'ridg'; .*Did you mean 'ridge'?"),
    ([{"alpha": 1}], "a method is a name, or a mapping such as {name: ridge, alpha: 10}"),
    ([3], "a method is a name, or a mapping"),
    (["ridge", {"name": "ridge", "alpha": 2}], "two methods are called 'ridge'; give one of them another label"),
    ([{"name": "ridge", "label": "a"}, {"name": "pca", "label": "A"}], "two methods are called"),
    ([{"name": "ridge", "label": "../x"}], "label of ridge must be at most 64 letters, digits"),
    ([{"name": "ridge", "label": "pca"}], "label 'pca' of ridge is the name of another method"),
    ([{"name": "m-pca2", "mutual": "once", "max_queries": 5}], "m-pca2: mutual='once' needs the nearest row of"),
    ([{"name": "m-pca2", "search": "exakt"}], "m-pca2: search must be exact or approximate.*Did you mean 'exact'?"),
])  # fmt: skip
def test_mistakes_are_named(methods, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(").replace("?", r"\?").replace("{", r"\{")):
        parsed(methods=methods)


def test_what_is_stored_says_all_options():
    found = parsed(methods=["pca", "ridge", {"name": "ridge", "alpha": 2, "label": "two"}])
    stored = found.model_dump(mode="json")["methods"]
    assert stored == ["pca", {"name": "ridge", "alpha": 1.0}, {"name": "ridge", "label": "two", "alpha": 2.0}]
    assert parsed(methods=stored) == found


def test_options_are_parameters_of_the_estimator_with_its_defaults():
    for method in METHODS.values():
        reducer = method.estimator(**method.parameters)
        for option, value in method.options().model_dump().items():
            assert getattr(reducer, option) == value
    assert MarginPCA().get_params().keys() >= METHODS["m-pca2"].options.model_fields.keys()
