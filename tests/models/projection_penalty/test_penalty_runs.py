"""Projection penalties in runs and evaluations: models, resumption between passes, errors, plans, the picture."""

import numpy as np
import pytest
from helpers.evaluating import by_cell, scored
from helpers.runs import Recorder, loaded_like, model_hash
from helpers.samples import batch_of
from helpers.tables import config_of, labelled, make_config, write_npz, write_zarr
from sklearn.datasets import load_wine
from sklearn.svm import LinearSVC

from mmpca_dist import ProjectionPenaltyClassifier, load_model, run
from mmpca_dist.errors import InputError
from mmpca_dist.models.projection_penalty.pictures import PenaltyParts, penalty_parts
from mmpca_dist.optimise.interior_point import HingeSweep
from mmpca_dist.optimise.newton import NewtonSweep
from mmpca_dist.passes.scratch import ZarrScratch
from mmpca_dist.runs.evaluate import evaluate
from mmpca_dist.runs.fit import preview

PENALTY = {"name": "projection-penalty", "alpha": 5.0}


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("reduction", ["m-pca0", "m-pca2", "bm2pca"])
@pytest.mark.parametrize(
    "loss", ["logistic", pytest.param("hinge", marks=pytest.mark.e2e), pytest.param("squared", marks=pytest.mark.e2e)]
)
@pytest.mark.parametrize(("n", "d", "n_classes", "standardize"), [(90, 6, 3, True), (16, 30, 2, False)])
def test_a_run_keeps_the_estimator_fitted_in_memory(n, d, n_classes, standardize, reduction, loss, tmp_path):
    """On top of a method that moments determine, of one with a search, and of one that is itself fitted by sweeps."""
    X, y = labelled(n, d, n_classes, seed=1)
    words = np.array(["ash", "oak", "yew"])[y]
    uri = write_npz(tmp_path / "rows.npz", X, words)
    method = {**PENALTY, "reduction": reduction, "loss": loss}
    run(config_of(tmp_path / "out", uri, methods=["pca", method], n_components=[1, 2], standardize=standardize))
    own = ProjectionPenaltyClassifier(
        reduction, n_components=2, alpha=5.0, loss=loss, precision="double", standardize=standardize
    ).fit(X, words)
    arrays = ("components_", "weights_", "objective_", "gaps_", "coef_", "intercept_", "coef_outside_")
    loaded_like(tmp_path / "out", "projection-penalty", own, X, arrays, rtol=1e-6, atol=1e-8)
    with pytest.raises(InputError, match=r"fitted for [26] components, and a fit for fewer has other ones"):
        load_model(str(tmp_path / "out"), "projection-penalty", 1)


@pytest.fixture
def go_on(tmp_path, monkeypatch, limits):
    """Return a function that breaks a run off after some passes, and compares it with one that is not.

    It takes rows, settings, and, given the names of all passes, how many are recorded when an attempt ends; it returns
    the names of the passes of all attempts, and the output.
    """

    def check(X, y, stops_of, chunk=50, compute=None, **settings):
        limits.resumable_bytes = 0
        uri, put, recorded, stops = write_zarr(tmp_path / "rows.zarr", X, y, chunk), ZarrScratch.put_value, [], ()

        def put_or_fail(self, name, value):
            put(self, name, value)
            recorded.append(name)
            if len(recorded) in stops:
                raise OSError("the machine is gone")

        monkeypatch.setattr(ZarrScratch, "put_value", put_or_fail)
        threads = {"cluster": "threads", "threads_per_worker": 1}
        run(make_config(tmp_path / "whole", uri, compute={**threads, "workers": 1}, n_components=2, **settings))
        stops = stops_of(recorded)
        recorded.clear()
        compute = {**threads, "workers": 2, **(compute or {})}
        config = make_config(tmp_path / "broken", uri, compute=compute, n_components=2, **settings)
        for _ in stops:
            with pytest.raises(OSError, match="gone"):
                run(config)
        run(config)
        broken, whole = (model_hash(tmp_path / name, ["projection-penalty"]) for name in ("broken", "whole"))
        assert broken == whole
        assert not (tmp_path / "broken" / "scratch").exists()
        return recorded, config.output

    return check


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(
    ("cluster", "loss"),
    [("threads", "logistic"), ("threads", "hinge"),
     *(pytest.param("local", loss, marks=pytest.mark.slow) for loss in ("logistic", "hinge"))],
)  # fmt: skip
@pytest.mark.e2e
def test_a_run_goes_on_between_passes_with_the_same_bits(loss, cluster, go_on, monkeypatch):
    """A hinge loss keeps a state of every row, a smooth one none. An attempt may end before a pass is recorded."""
    sweep, passes = HingeSweep if loss == "hinge" else NewtonSweep, []
    update = sweep.update

    def update_or_fail(self, fitted, sums):
        passes.append(fitted.n_passes)
        if len(passes) in failing:
            raise OSError("the machine is gone")
        return update(self, fitted, sums)

    def stops_of(recorded):
        failing.update({3, 6})  # the third pass, and, as it is made again, the fifth
        passes.clear()
        return (None, None)

    failing = set()
    monkeypatch.setattr(sweep, "update", update_or_fail)
    X, y = labelled(600, 8, 3, seed=2)
    recorded, output = go_on(X, y, stops_of, 100, {"cluster": cluster}, methods=[{**PENALTY, "loss": loss}])
    model = load_model(output, "projection-penalty")
    assert passes == [0, 1, 2, 2, 3, 4, *range(4, model.n_iter_)] and len(recorded) == model.n_iter_


@pytest.mark.usefixtures("no_report")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["hinge", "squared hinge"])
@pytest.mark.e2e
def test_stalled_models_go_on_after_a_break_with_the_same_bits(loss, go_on):
    """Before, at and after the change to passes that keep all rows positive, whatever the workers."""

    def stops_of(recorded):
        change = next(i for i, name in enumerate(recorded) if name.endswith("-inside"))
        assert 4 < change < len(recorded) - 4
        return change - 2, change, change + 1, change + 4

    method = {**PENALTY, "alpha": 0.01, "loss": loss, "tol": 1e-2}
    recorded, output = go_on(*load_wine(return_X_y=True), stops_of, methods=[method])
    model = load_model(output, "projection-penalty")
    assert len(recorded) == model.n_iter_ and model.gaps_.max() <= 1e-2


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared hinge", "squared"])
@pytest.mark.parametrize("reduction", ["m-pca0", "m-pca2"])
@pytest.mark.e2e
def test_a_choice_goes_on_between_passes_with_the_same_bits(loss, reduction, go_on):
    """Fits with the reduction of their own fold share passes; a run keeps what the estimator fits."""
    X, y = labelled(240, 5, 3, seed=2, separation=0.5)
    grid = {"alpha": "auto", "alphas": [0.1, 10.0], "loss": loss}
    method = {"name": "projection-penalty", "reduction": reduction, **grid}
    _, output = go_on(X, y, lambda recorded: (2,) if loss == "squared" else (2, 5), methods=[method])
    model = load_model(output, "projection-penalty")
    own = ProjectionPenaltyClassifier(reduction, n_components=2, precision="double", **grid).fit(X, y)
    assert model.candidate_errors_.tolist() == own.candidate_errors_.tolist() and model.fitted_by_fold_
    np.testing.assert_allclose(model.coef_, own.coef_, atol=1e-6 * np.abs(own.coef_).max())


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.e2e
def test_an_evaluation_scores_its_own_classifier_and_others(loss, tmp_path):
    X, y = labelled(120, 6, 3, seed=3, separation=0.6)
    uri = write_npz(tmp_path / "rows.npz", X, y)
    config = config_of(
        tmp_path / "out", uri, methods=[{**PENALTY, "loss": loss}], n_components=[1, 2],
        evaluation={"folds": 3, "classifiers": ["own", "svm"], "margins": False},
    )  # fmt: skip
    records, splits, _ = scored(config)
    for record in records:
        held_out = splits.held_out[record["split"]]
        train = splits.only(0).training(batch_of(y), held_out)[0]
        cells = by_cell([record])
        for size in (1, 2):
            model = ProjectionPenaltyClassifier(n_components=size, alpha=5.0, loss=loss, precision="double")
            model.fit(X[train], y[train])
            wrong = np.count_nonzero(model.predict(X[~train]) != y[~train])
            assert cells[record["split"], "projection-penalty", size, "own"][1] == wrong
            svm = LinearSVC(max_iter=100_000, random_state=0).fit(model.transform(X[train]), y[train])
            other = np.count_nonzero(svm.predict(model.transform(X[~train])) != y[~train])
            found = cells[record["split"], "projection-penalty", size, "svm"][1]
            assert abs(found - other) <= 4  # neither of both converges to the last row


@pytest.mark.usefixtures("no_report")
def test_merged_moments_serve_squared_losses(merging, tmp_path):
    X, y = labelled(200, 5, 3, seed=4, separation=0.6)
    uri = write_npz(tmp_path / "rows.npz", X, y)
    errors = []
    for how in ("direct", "merged"):
        merging(how)
        config = config_of(
            tmp_path / how, uri, methods=[{**PENALTY, "loss": "squared"}], n_components=[2],
            evaluation={"folds": 4, "classifiers": ["own"], "margins": False},
        )  # fmt: skip
        errors.append(by_cell(scored(config)[0]))
    assert errors[0] == errors[1]


@pytest.mark.e2e
def test_fits_that_end_too_early_are_noted_once(tmp_path):
    """In the log, in the record and in the report, of runs and of evaluations."""
    X, y = labelled(120, 6, 2, seed=5, separation=0.6)
    uri = write_npz(tmp_path / "rows.npz", X, y)
    method = {**PENALTY, "max_iter": 2, "tol": 1e-9}
    in_run, in_evaluation = Recorder(), Recorder()
    results = run(config_of(tmp_path / "run", uri, methods=[method], n_components=2), [in_run])
    (note,) = [note for note in in_run.notes if "raise max_iter" in note]
    assert note in results["solve"]["notes"]
    config = config_of(
        tmp_path / "evaluation", uri, methods=["pca", method], n_components=[1, 2],
        evaluation={"folds": 3, "classifiers": ["own", "fisher"], "margins": False},
    )  # fmt: skip
    evaluate(config, [in_evaluation])
    (note,) = [note for note in in_evaluation.notes if "max_iter" in note]
    assert "6 of 6 fits ended before they reached the tolerance" in note
    assert "6 of 6 fits ended" in (tmp_path / "evaluation" / "evaluation" / "report" / "index.html").read_text()


def test_the_plan_counts_passes(tmp_path, limits):
    limits.unit_bytes = 100 << 10  # little data has no pilot
    methods = {loss: [{**PENALTY, "loss": loss}] for loss in ("squared", "logistic", "hinge", "squared hinge")}
    passes = {
        loss: [p.name for p in preview(config_of(tmp_path / loss, "bundled:digits", methods=chosen)).passes]
        for loss, chosen in methods.items()
    }
    assert passes.pop("squared") == ["moments", "project"]
    assert {name: found[0] + found[-1] for name, found in passes.items()} == dict.fromkeys(passes, "momentsproject")
    assert all(2 <= found.count("sweep") <= 4 for found in passes.values())


@pytest.mark.parametrize("alpha", [5.0, "auto"])
@pytest.mark.parametrize("reduction", ["pca", "m-pca2"])
def test_the_plan_holds_the_states_of_rows(alpha, reduction, tmp_path):
    """They are on the disk where workers are other processes; a sweep writes new ones before the old ones go."""
    compute = {"cluster": "local", "workers": 2, "threads_per_worker": 1}
    method = {"name": "projection-penalty", "alpha": alpha, "loss": "hinge", "reduction": reduction}
    plan = preview(config_of(tmp_path / "out", "bundled:wine", methods=[method], compute=compute))
    assert plan.kept >= 2 * 178 * 3 * 4 * 8


@pytest.mark.parametrize("uri", ["bundled:digits", "bundled:wine", "bundled:breast_cancer"])
@pytest.mark.e2e
def test_the_report_shows_both_parts(uri, tmp_path):
    results = run(config_of(tmp_path / "out", uri, methods=["pca", {**PENALTY, "reduction": "pca"}]))
    assert (tmp_path / "out" / "report" / "penalty-1.svg").read_text().count("inside") >= 1
    page = (tmp_path / "out" / "report" / "index.html").read_text()
    assert "inside and outside of the subspace" in page and "could not use" in page
    assert results["sweep"]["passes"]
    model = load_model(str(tmp_path / "out"), "projection-penalty")
    parts = PenaltyParts.of("Projection penalty", model)
    assert len(parts.classes) == len(parts.inside) == len(model.coef_)
    (figure,) = penalty_parts([], [parts], {"image_shape": None, "feature_names": None})
    shown = "The first 10 of" in figure.caption
    assert shown == (len(parts.classes) > 10)


@pytest.mark.e2e
def test_a_report_of_penalties_alone_has_their_pictures_only(tmp_path):
    """A reduction by m-pca2 leaves margins, but no method has components whose margins could be drawn."""
    variants = [
        {"label": "l", "alpha": "auto"}, {"label": "h", "loss": "hinge", "reduction": "m-pca0"},
        {"label": "s", "loss": "squared", "reduction": "m-pca2"}, {"label": "l1", "penalty": "l1", "alpha": 10.0},
    ]  # fmt: skip
    methods = [{"name": "projection-penalty", **variant} for variant in variants]
    config = config_of(tmp_path / "out", "bundled:wine", methods=methods, n_components=[2], standardize=True)
    results = run(config)
    assert results["search"]["certificate"]["proved_exact"] == 1
    assert [figure["name"] for figure in results["report"]["figures"]] == [f"penalty-{k}" for k in (1, 2, 3, 4)]
