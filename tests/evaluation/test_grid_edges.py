"""Choices among values of a hyperparameter: the least, what lies beyond an edge, and what is said of one."""

import warnings

import numpy as np
import pytest
from helpers.tables import config_of, labelled, write_npz

from mmpca_dist import ProjectionPenaltyRegressor
from mmpca_dist.evaluation.comparisons import Summary
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.methods.base.choice_by_folds import Choice, beyond, edge_remark
from mmpca_dist.models.projection_penalty.base import ProjectionPenalty
from mmpca_dist.predictors.fits import GRID
from mmpca_dist.runs.evaluate import _largest_penalties, evaluate
from mmpca_dist.runs.fit import _choice

pytestmark = pytest.mark.usefixtures("no_report")


def least(errors):
    return Choice.of_least((1,), list(errors), np.array([list(errors.values())], float)).value


@pytest.mark.parametrize(("errors", "best", "further"), [
    ({10: 5, 1: 7, 100: 6}, 10, None),
    ({10: 5, 1: 7, 100: 4}, 100, 1000),
    ({10: 5, 1: 3, 100: 4}, 1, 0.1),
    ({10: 5, 1: 5, 100: 5}, 10, None),  # of equal errors the first
    ({10: 5, 1: 5, 100: np.nan}, 10, None),
    ({10: np.nan, 1: np.inf, 100: 5}, 100, 1000),
    ({10: 5, 1: 7, 100: 4, 1000: 4}, 100, None),
    ({10: 5, 1: 7, 3000: 4}, 3000, None),  # beyond is more than the largest that is allowed
])  # fmt: skip
def test_the_next_value_is_beyond_an_edge_that_errs_least(errors, best, further):
    assert least(errors) == best
    assert beyond(errors, 10_000) == further


@pytest.mark.parametrize(("errors", "word"), [
    ({1: 2, 2: 3}, "smallest"),
    ({1: 3, 2: 2}, "largest"),
    ({1: 3, 2: 2, 3: 4}, None),
    ({1: 2, 2: 2}, None),
    ({1: 2}, None),
])  # fmt: skip
def test_an_edge_is_named_where_it_errs_less_than_its_neighbour(errors, word):
    remarks = edge_remark("C", least(errors), errors, "candidates")
    assert [word in remark for remark in remarks] == ([] if word is None else [True])


@pytest.mark.parametrize(("options", "message"), [
    ({"alpha": "auto", "alphas": (1e4, 1e6)}, "alpha = 10000 errs least .* smallest value .* in alphas"),
    ({"alpha": 1e5, "epsilon": 1e-9, "n_components": "auto", "sizes": (1, 2, 4)}, "n_components = 4 .* in sizes"),
])  # fmt: skip
def test_penalties_name_an_edge_too(options, message):
    X, _ = labelled(60, 8, 2, seed=6, separation=0.5)
    targets = X @ np.linspace(0, 1, 8)
    with pytest.warns(UserWarning, match=message):
        ProjectionPenaltyRegressor("pca", **options).fit(X, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        every = ProjectionPenaltyRegressor("pca", alpha=1e5, n_components="auto", sizes=(1, 2, 4, 8, 16)).fit(
            X, targets
        )
    assert every.n_components_ == 8, "the limit of the reduction is no edge"


def test_an_evaluation_counts_the_fits_that_end_on_an_edge(tmp_path, monkeypatch):
    """And the choices of C of classifiers that end with the largest value."""
    X, y = labelled(60, 5, 2, seed=6, separation=1.0)
    monkeypatch.setattr(ProjectionPenalty, "_edges", lambda self: ["alpha"] if self.alpha == 1e9 else [])
    penalty = {"name": "projection-penalty", "reduction": "pca", "alpha": 1e9}
    within = {**penalty, "label": "within", "alpha": 1}
    config = config_of(
        tmp_path / "out", write_npz(tmp_path / "rows.npz", 1e-3 * X, y), methods=["pca", penalty, within],
        evaluation={"splits": "folds", "folds": 3, "classifiers": [{"name": "svm", "C": "nested"}], "margins": False},
    )  # fmt: skip
    notes = evaluate(config)["compare"]["notes"]
    assert sum("3 of 3 fits chose the smallest or the largest value" in note for note in notes) == 1
    lines = [{"classifier": "svm", "C": C} for C in (GRID[-1], GRID[0], GRID[-1])] + [{"classifier": "fisher"}]
    (note,) = _largest_penalties(config, [{"errors": lines}], {})
    assert note.startswith("svm: 2 of 3 choices of C ended with the largest value that was tried, 100:")


@pytest.mark.parametrize(("columns", "is_edge"), [(65, True), (64, False)])
def test_the_largest_number_of_components_that_is_tried_is_named_where_there_are_more(columns, is_edge):
    cells = [
        Cell("pca", k, "fisher", Summary(error, 1.0, 5, 0.25), used=k) for k, error in {32: 40.0, 64: 10.0}.items()
    ]
    assert ("the largest number that was tried" in _choice(cells, "rule", columns)["words"]) == is_edge
