"""Which rows are held out together, the passes that this takes, and the counts of their scores."""

import naive_belonging
import numpy as np
import pytest
from helpers.tables import labelled
from test_scores import run_of

from mmpca_dist import load_model
from mmpca_dist.belonging.limits import ScoreCounts
from mmpca_dist.errors import ConfigError

ALPHA = 0.05


def held_out_scores(X, y, parts, n_components):
    """Return T2 and Q of all rows by principal components of the rows in other parts, line by line."""
    found = {"t2": np.zeros(len(X)), "q": np.zeros(len(X))}
    for part in np.unique(parts):
        held = parts == part
        mean = X[~held].mean(axis=0)
        components = np.linalg.svd(X[~held] - mean, full_matrices=False)[2][:n_components]
        scores = naive_belonging.scores(X[~held], y[~held], X[held], components)
        for name, values in found.items():
            values[held] = scores[name]
    return found


def read_passes(result):
    return [name for stage in result.values() for name in stage.get("passes", []) if isinstance(name, str)]


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("stretches", ["blocks", "groups"])
def test_whole_stretches_are_held_out(stretches, projected, tmp_path):
    X, y = labelled(240, 6, 3, 0)
    parts = np.arange(240) * 5 // 240
    if stretches == "blocks":
        settings = {"evaluation": {"splits": "blocks"}, "belonging": {"alpha": ALPHA, "scores": ["t2", "q"]}}
    else:
        np.save(tmp_path / "stretch.npy", parts)
        groups = str(tmp_path / "stretch.npy")
        settings = {"belonging": {"alpha": ALPHA, "scores": ["t2", "q"], "groups": groups}}
    methods = ["pca"] if projected else []
    result = run_of(tmp_path, X, y, methods=["pca"], project={"methods": methods}, **settings)
    expected = held_out_scores(X, y, parts, 3)
    for name, limit in result["belonging"]["limits"]["pca"].items():
        assert limit == pytest.approx(ScoreCounts.of(expected[name]).limit(ALPHA), rel=2**-11)
    found = load_model(str(tmp_path / "run"), "pca").belongs(X)
    for name, scores in expected.items():
        steps = naive_belonging.p_values(scores, found[name].to_numpy())
        assert np.abs(found[f"{name}_p"].to_numpy() - steps).max() < 3 / 241


@pytest.mark.parametrize(
    ("methods", "projected", "gaps", "more"),
    [
        (["pca", "fisher", "m-pca0"], True, False, []),
        (["pca", "fisher"], True, True, []),
        (["pca", "fisher"], False, False, ["score"]),
        (["m-pca1b"], True, False, ["moments", "score"]),
    ],
)
def test_scores_take_no_pass_more_than_they_must(methods, projected, gaps, more, tmp_path):
    """Where moments determine the methods, folds share the reduction, and scores the projection."""
    X, y = labelled(300, 8, 3, 1)
    X[::7, 2] = np.nan if gaps else 0
    dataset = {"dataset": {"missing": "mean"}} if gaps else {}
    plain = run_of(tmp_path / "plain", X, y, methods=methods, belonging=None, **dataset)
    project = {"methods": methods if projected else []}
    scored = run_of(tmp_path / "scored", X, y, methods=methods, project=project, **dataset)
    found = read_passes(scored)
    for name in read_passes(plain):
        found.remove(name)
    assert [name for name in found if name != "sample"] == more


def test_other_rows_held_out_by_evaluation_are_refused(tmp_path):
    X, y = labelled(60, 4, 2, 0)
    with pytest.raises(ConfigError, match=r"belonging\.groups and evaluation hold out other rows"):
        run_of(tmp_path, X, y, methods=["pca"], belonging={"groups": "a"}, evaluation={"splits": "folds"})


@pytest.mark.parametrize(("n", "noted"), [(80, False), (79, True)])
def test_few_rows_a_column_are_noted(n, noted, tmp_path):
    X, y = labelled(n, 4, 2, 0)
    notes = run_of(tmp_path, X, y, methods=["pca"], belonging={"alpha": 0.1})["belonging"]["notes"]
    assert any("Limits of scores are off where rows are fewer than 20 a column" in note for note in notes) is noted
