"""The top of an evaluation says what to use, how sure that is, and what to type next."""

import dataclasses
import shlex

import pytest
import yaml
from helpers.evaluations import evaluation

from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.evaluation.comparisons import corrected_t_test
from mmpca_dist.evaluation.tables import REGRESSION, ErrorTable
from mmpca_dist.results.answer import advise, recommended
from mmpca_dist.results.error_tables import error_tables
from mmpca_dist.statistics.drift import holm


def made(errors, second="fisher", **changes):
    """Return an evaluation of PCA, another method and all 40 columns of 71 rows in each of 6 splits."""
    settings = {"classifiers": {"svm": "linear SVM"}, "baselines": [60.0]}
    settings["folder"] = "/my runs/x/evaluation"
    found = evaluation(("pca", second, "all-columns"), errors=errors, **settings | changes)
    lines = [{**line, "used": 40} if line["method"] == "all-columns" else line for line in found.table.lines]
    return dataclasses.replace(found, table=ErrorTable(lines))


def wrong(pca, fisher, whole):
    """Return errors that vary by a row or two from split to split."""
    return lambda method, _size, _classifier, split: (pca, fisher, whole)[method] + (split + method) % 3


def test_a_reduction_that_serves_best():
    found = made(wrong(20, 4, 12))
    use, sure = advise(found)[0]
    assert use == (
        "Use Fisher discriminant with 2 components: 7.0% errors; all 40 columns have 18.3%; "
        "PCA at its best, with 2, has 29.6%."
    )
    sizes = {"held_out": [71] * 6, "training": [280] * 6}
    own, whole = ([wrong(20, 4, 12)(method, 0, 0, split) for split in range(6)] for method in (1, 2))
    p_values = {"fisher": corrected_t_test(own, whole, **sizes).p_value}
    p_values["pca"] = corrected_t_test([20 + s % 3 for s in range(6)], whole, **sizes).p_value
    adjusted = holm([p_values["fisher"]] * 3 + [p_values["pca"]] * 3)[0]  # with 2, 4 and 8 components
    assert sure.startswith(
        "Fisher discriminant with 2 components has 11.3 percentage points fewer errors than all 40 columns."
    )
    assert f"p = {adjusted:.3f} after" in sure and "is significant" in sure and "for 6 tests" in sure


def test_a_reduction_that_hurts():
    errors = lambda m, size, c, split: wrong(40, 30, 5)(m, 0, 0, split) - size * (m < 2)  # noqa: E731
    (use, sure), _, (more,) = advise(made(errors, "lol"))
    assert use.startswith("Keep all 40 columns: 8.5% errors; LOL with 8 components has 32.4%; PCA at")
    assert (
        sure.startswith("All 40 columns have 23.9") and "errors than LOL with 8 components. The difference is" in sure
    )
    (best, *_), *_ = advise(made(lambda m, size, c, split: wrong(20, 30, 5)(m, 0, 0, split), "lol"))
    assert "; PCA with 2 components has" in best and best.count("PCA") == 1
    assert more.startswith("The lowest mean of the reductions is at 8 components, the most that were tried: try more")


def test_more_components_are_advised_only_where_there_are_more():
    falling = {"errors": lambda m, size, c, split: wrong(40, 30, 29)(m, 0, 0, split) - size, "second": "lol"}
    assert shlex.split(advise(made(**falling))[1][-1]) == [
        "mmpca", "evaluate", "/my runs/x/evaluation/report/config.yaml", "--set", "n_components=[8, 12, 16]",
        "--output", "/my runs/x-more",
    ]  # fmt: skip
    few = made(**falling)
    few = dataclasses.replace(few, dataset={**few.dataset, "n_features": 8})
    assert not any("try more" in sentence for sentence in advise(few)[2])
    limited = made(**falling, most={"lol": 1, "pca": 7})
    of_classes = made(**falling | {"second": "fisher"}, sizes=(1, 2), classes=3)
    assert not any("try more" in sentence for found in (limited, of_classes) for sentence in advise(found)[2])


@pytest.mark.parametrize("method", ["fisher", {"name": "fisher", "shrinkage": 0.5}])
def test_the_command_is_a_configuration_of_that_method(method):
    content = {
        "dataset": {"uri": "bundled:iris"}, "methods": ["pca", method], "n_components": [2, 4, 8],
        "evaluation": {"reference": "pca"}, "output": "runs/x",
    }  # fmt: skip
    found = made(wrong(20, 4, 12), config=parse_config(content, "the test"))
    (command,) = advise(found)[1]
    words = shlex.split(command)
    assert words[3::2] == [*["--set"] * 3, "--output"] and words[-1] == "/my runs/x-fisher"
    settings = dict(word.split("=", 1) for word in words[4:-1:2])
    assert settings.pop("evaluation.reference") == "null"
    config = parse_config(
        {**content, "evaluation": {}, **{key: yaml.safe_load(value) for key, value in settings.items()}}, "the test"
    )
    assert config.methods == parse_config({**content, "evaluation": {}}, "the test").methods[1:]
    assert config.n_components == [2]


def test_the_fewest_components_within_one_corrected_standard_error():
    """Errors are 10, 11, 12 of 71 rows in turn; with K = 4 one more in one split, with K = 2 ten more in all."""
    extra = {2: 10, 4: 0, 8: 0}
    found = evaluation(errors=lambda m, size, c, split: 10 + split % 3 + extra[size] + (split == 0 and size == 4))
    best, near = (found.cells["pca", size, "svm"].summary for size in (8, 4))
    assert 0 < near.mean - best.mean <= best.corrected_standard_error
    use, why, *_ = advise(found)[0]
    assert use.startswith("Use PCA with 4 components under linear SVM, C = 0.1: 15.7% errors")
    assert why.startswith(
        f"PCA with 8 components has the lowest mean, {best.mean:.1f}%; means within one standard error"
    )


def test_nothing_learned_one_split_and_no_all_columns():
    nothing = advise(made(wrong(50, 50, 50), baselines=[20.0]))
    assert nothing == (
        ["Nothing is learned: no mean error is below that of the baseline (always the largest class), 20.0%."],
        [],
        [],
    )
    assert advise(made(wrong(9, 4, 5), splits=1))[0][1] == "One split does not tell how sure this is."
    (alone,) = advise(evaluation(("pca", "fisher"), classifiers={"svm": "SVM"}, errors=wrong(20, 4, 0)))[0]
    assert recommended(made(wrong(50, 50, 50), baselines=[20.0])) is None
    once = advise(made(lambda m, size, c, split: wrong(40, 30, 5)(m, 0, 0, split) - 12 * (m == 0)))[0][0]
    assert once.count("PCA") == 1, "the reference is what stands beside all columns"
    assert alone.startswith("Use Fisher discriminant with 2 components: 7.0% errors; PCA at its best, with 2, has")


def test_numbers_to_predict():
    found = made(wrong(20, 4, 12), classifiers={REGRESSION: REGRESSION})
    lines = [{**line, "r2": 1 - line["errors"] / 71, "rmse": line["errors"] / 2} for line in found.table.lines]
    found = dataclasses.replace(found, table=ErrorTable(lines), dataset={**found.dataset, "targets": ["price"]})
    use, sure = advise(found)[0]
    assert use.startswith(
        "Use Fisher discriminant with 2 components: R² 0.930 and RMSE 2.5; all 40 columns have R² 0.8"
    )
    assert "has 11.3 percentage points less unexplained variance than all 40 columns." in sure


def test_a_p_value_is_bold_only_where_the_method_errs_less():
    found = evaluation(errors=lambda m, size, c, split: 20 + (0, -10, 15)[m] + (split + m) % 3, splits=10)
    bold = [[field.bold for field in row[1:]] for row in error_tables(found)[0].rows]
    cells = found.cells.values()
    assert all(cell.differs for cell in cells if cell.method != found.config.reference), "both differ significantly"
    assert [any(row) and all(row) for row in bold] == [False, True, False]
