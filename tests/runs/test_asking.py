"""Runs that keep moments of cells, and runs whose table is what another keeps."""

import naive_cells
import numpy as np
import pandas as pd
import pytest
from helpers.resuming import small_units
from helpers.tables import labelled

from mmpca_dist import cell_moments, class_moments, load_model, load_moments, open_dataset, refresh, run, transform
from mmpca_dist.configuration.schema import as_config
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.runs.evaluate import evaluate
from mmpca_dist.runs.fit import preview

GROUPS = ["batch", "site"]
METHODS = ["pca", "m-pca0", "fisher", "contrast"]
QUESTIONS = {
    "all": {},
    "some rows": {"where": {"site": ["a", "b"], "label": ["A", "B"]}},
    "merged and balanced": {"merge": {"T": ["A", "C"]}, "balance": "batch"},
    "without effects": {"where": {"site": "a"}, "remove": "batch"},
    "without a column": {"drop": ["f2"]},
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return the address of a table, and its rows, labels and groups."""
    rng = np.random.default_rng(1)
    X, y = labelled(300, 5, 3, 0)
    groups = {"batch": rng.integers(3, size=300), "site": np.array(["a", "b", "c"])[rng.integers(3, size=300)]}
    X = X + 2 * groups["batch"][:, None] * rng.standard_normal(5)
    y = np.array(["A", "B", "C"])[y]
    path = str(tmp_path_factory.mktemp("table") / "rows.parquet")
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(5)]).assign(kind=y, w=1 + np.arange(300) % 3, **groups)
    frame.to_parquet(path, row_group_size=40)
    return path, X, y, groups


def settings(path, output, methods=METHODS, **dataset):
    section = {"uri": path, "label": "kind", "drop": ["w"], "groups": GROUPS, **dataset}
    return {"dataset": section, "methods": methods, "n_components": 2, "precision": "double", "output": str(output)}


@pytest.fixture(scope="module")
def asked_run(table, tmp_path_factory):
    return run(settings(table[0], tmp_path_factory.mktemp("runs") / "base")).folder


def ask(base, output, methods=METHODS, more=(), **question):
    content = {"dataset": {"moments": base, **question}, "methods": methods, "n_components": 2, "output": str(output)}
    return run({**content, **dict(more)})


def test_a_run_with_groups_keeps_cells_and_has_the_models_of_one_without(table, asked_run, tmp_path):
    path, _, _, _ = table
    dataset = open_dataset(path, label="kind", drop=["w", *GROUPS])
    expected, found = cell_moments(dataset, groups=GROUPS, precision="double"), load_moments(asked_run)
    for name in ("counts", "means", "scatters"):
        np.testing.assert_array_equal(getattr(found.cells, name), getattr(expected.cells, name))
    assert found.axes == ("label", *GROUPS)
    plain = settings(path, tmp_path / "plain", groups=[], drop=["w", *GROUPS])
    plain_folder = run(plain).folder
    for method in ("pca", "m-pca0", "fisher", "contrast"):
        ours, theirs = (load_model(folder, method).components_ for folder in (asked_run, plain_folder))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * np.abs(theirs).max())


@pytest.mark.parametrize("workers", [1, 3])
def test_cells_have_the_same_bits_for_any_workers(table, tmp_path, workers, monkeypatch):
    small_units(monkeypatch)
    folders = [
        run({**settings(table[0], tmp_path / str(n), ["pca"]), "compute": {"workers": n}}).folder for n in (2, workers)
    ]
    first, second = (load_moments(folder).cells for folder in folders)
    np.testing.assert_array_equal(first.scatters, second.scatters)


def test_rows_with_weights(table, tmp_path):
    path, X, y, groups = table
    folder = run(settings(path, tmp_path / "out", ["m-pca0", "m-pca2"], drop=[], weight="w")).folder
    found, weights = load_moments(folder).where(site="b").by_class(), 1.0 + np.arange(300) % 3
    chosen = groups["site"] == "b"
    expected = class_moments(X[chosen], y[chosen], precision="double", sample_weight=weights[chosen])
    np.testing.assert_allclose(found.counts, expected.counts)
    np.testing.assert_allclose(found.scatters, expected.scatters, rtol=1e-9)


def test_medians_and_covariates_beside_groups(table, tmp_path):
    for name, more in {"medians": {}, "covariates": {"covariates": ["w"], "drop": []}}.items():
        ours = run(settings(table[0], tmp_path / name, ["m-pca1b"], **more)).folder
        plain = {**more, "groups": [], "drop": [*more.get("drop", ["w"]), *GROUPS]}
        theirs = run(settings(table[0], tmp_path / f"{name}-plain", ["m-pca1b"], **plain)).folder
        first, second = (load_model(folder, "m-pca1b").components_ for folder in (ours, theirs))
        np.testing.assert_allclose(first, second, atol=1e-9)
    with pytest.raises(InputError, match="cannot be removed beside"):
        load_moments(ours).remove("batch").by_class()


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_run_from_moments_is_one_over_the_rows_in_question(table, asked_run, tmp_path, question):
    """The answer is the twin's, and models are solved from it as from any moments."""
    _, X, y, groups = table
    folder = ask(asked_run, tmp_path / "answer", **question).folder
    listed = {name: [v] if isinstance(v, str) else v for name, v in question.get("where", {}).items()}
    columns = [int(name[1:]) for name in question.get("drop", [])]
    remove = [question["remove"]] if "remove" in question else []
    labels, counts, means, scatters = naive_cells.moments(
        *naive_cells.answered(
            X, y, groups, np.ones(300), where=listed, merge=question.get("merge"), balance=question.get("balance"),
            remove=remove, drop=columns,
        )
    )  # fmt: skip
    found = load_moments(folder)
    assert found.classes.tolist() == labels
    np.testing.assert_allclose(found.counts, counts, rtol=1e-12)
    np.testing.assert_allclose(found.means, means, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.scatters, scatters, rtol=1e-9, atol=1e-9 * np.abs(scatters).max())
    for method in ("pca", "m-pca0", "fisher", "contrast"):
        assert load_model(folder, method).components_.shape[1] == 5 - len(columns)


def test_its_models_transform_rows_and_it_resumes(table, asked_run, tmp_path):
    path, X, _, _ = table
    folder = ask(asked_run, tmp_path / "answer", drop="f2").folder
    again = ask(asked_run, tmp_path / "answer", drop="f2")
    assert again["solve"] == ask(asked_run, tmp_path / "answer", drop="f2")["solve"]
    transform(folder, path, str(tmp_path / "z.parquet"), methods=["pca"])
    expected = np.delete(X, 2, axis=1) @ load_model(folder, "pca").components_.T
    found = pd.read_parquet(tmp_path / "z.parquet")
    np.testing.assert_allclose(found[["pca_0", "pca_1"]], expected, rtol=1e-4, atol=1e-4)


def test_a_run_without_groups_answers_by_class(table, tmp_path):
    path, X, y, _ = table
    base = run(settings(path, tmp_path / "base", ["pca"], groups=[], drop=["w", *GROUPS])).folder
    found = load_moments(ask(base, tmp_path / "answer", ["pca"], where={"label": ["A", "C"]}).folder)
    np.testing.assert_allclose(found.scatters, class_moments(X, y, precision="double").scatters[[0, 2]], rtol=1e-9)
    with pytest.raises(InputError, match="There is no axis 'batch'; there are label"):
        ask(base, tmp_path / "none", where={"batch": 1})


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"where": {"batch": 9}}, "No row has batch 9"),
        ({"where": {"sites": "a"}}, "There is no axis 'sites'.*Did you mean 'site'"),
        ({"drop": "g2"}, "there is no feature 'g2'"),
        ({"drop": 7}, "there is no feature 7"),
        ({"more": {"solver": {"kind": "krylov"}}}, "solver.kind: leave it out, as moments are what the run in"),
        ({"more": {"precision": "single"}}, "precision: leave it out, as moments"),
        ({"methods": ["m-pca1b"]}, "m-pca1b takes medians of rows, and dataset.moments has none"),
        ({"methods": ["m-pca2"]}, "m-pca2 compares rows"),
        ({"methods": ["bm2pca"]}, "bm2pca passes over rows"),
        ({"methods": [{"name": "fisher", "shrinkage": "auto"}]}, "shrinkage: auto of fisher holds out rows"),
        ({"more": {"belonging": {}}}, "belonging holds out rows"),
        ({"more": {"n_components": "auto"}}, "n_components: auto holds out rows"),
        ({"more": {"n_components": 9}}, "n_components=9 is more than the 5 features"),
    ],
)
def test_questions_that_are_refused(asked_run, tmp_path, question, words):
    with pytest.raises(InputError, match=words):
        ask(asked_run, tmp_path / "answer", **question)


def test_other_refusals(table, asked_run, tmp_path):
    content = {"dataset": {"moments": asked_run}, "methods": "pca", "n_components": 2, "output": str(tmp_path / "no")}
    with pytest.raises(InputError, match="no rows to hold out"):
        evaluate(content)
    with pytest.raises(InputError, match="needs no plan"):
        preview(as_config(content))
    with pytest.raises(ConfigError, match=r"dataset\.moments\.where must be levels by axis.*\(found \[\]\)"):
        run({**content, "dataset": {"moments": asked_run, "where": {"batch": []}}})
    with pytest.raises(ConfigError, match=r"Unknown key 'dataset\.moments\.wher'. Did you mean 'where'"):
        run({**content, "dataset": {"moments": asked_run, "wher": {}}})
    with pytest.raises(InputError, match=r"dataset.groups keeps moments of cells.*solver.kind: dense"):
        run({**settings(table[0], tmp_path / "passes", ["pca"]), "solver": {"kind": "krylov"}})


def test_evaluations_and_refreshes_leave_groups_out(table, asked_run, tmp_path):
    path, _, _, _ = table
    content = settings(path, tmp_path / "out", ["pca"])
    errors = [evaluate({**content, "dataset": {**content["dataset"], **d}, "output": str(tmp_path / str(n))}).errors
              for n, d in enumerate([{}, {"groups": [], "drop": ["w", *GROUPS]}])]  # fmt: skip
    pd.testing.assert_frame_equal(*errors)
    pd.read_parquet(path).head(120).to_parquet(tmp_path / "new.parquet")
    refresh(asked_run, str(tmp_path / "new.parquet"), str(tmp_path / "live"))
    assert load_moments(str(tmp_path / "live")).sizes.sum() == 420


def test_maps_of_single_rows(table, tmp_path):
    """Maps that are not fitted come along; no feature can be dropped behind one that looks at all of them."""
    path, X, y, groups = table
    X = np.abs(X)
    frame = pd.read_parquet(path)
    frame.assign(**{f"f{j}": X[:, j] for j in range(5)}).to_parquet(tmp_path / "rows.parquet")
    for maps in ("log1p", "unit-length"):
        base = run(settings(str(tmp_path / "rows.parquet"), tmp_path / maps, ["pca"], maps=[maps])).folder
        Z = np.log1p(X) if maps == "log1p" else X / np.linalg.norm(X, axis=1, keepdims=True)
        chosen = groups["site"] == "a"
        found = load_moments(ask(base, tmp_path / f"{maps}-a", ["pca"], where={"site": "a"}).folder)
        np.testing.assert_allclose(found.means, class_moments(Z[chosen], y[chosen], precision="double").means)
    assert load_moments(ask(str(tmp_path / "log1p"), tmp_path / "log1p-d", ["pca"], drop="f1").folder).n_features == 4
    with pytest.raises(InputError, match="change rows by all of their features"):
        ask(base, tmp_path / "dropped", ["pca"], drop="f1")


def test_what_cannot_be_asked(table, asked_run, tmp_path):
    path, _, _, _ = table
    folder = ask(asked_run, tmp_path / "answer").folder
    with pytest.raises(InputError, match=r"asks the moments of the run in .*base, and has no rows of its own"):
        refresh(folder, path, str(tmp_path / "live"))
    for names in (["label"], ["site", "site"]):
        with pytest.raises(ConfigError, match="groups need names of their own, other than label"):
            run(settings(path, tmp_path / "groups", groups=names))
    widened = run(settings(path, tmp_path / "widened", ["pca"], covariates=["w"], drop=[])).folder
    for drop in (lambda: load_moments(widened).drop([0]), lambda: ask(widened, tmp_path / "no", ["pca"], drop="f1")):
        with pytest.raises(InputError, match="cannot be dropped beside"):
            drop()


def test_images_without_a_pixel_and_single_rows(table, tmp_path):
    path, _, _, _ = table
    base = run(settings(path, tmp_path / "base", ["pca"], image_shape=[1, 5], groups=["w"], drop=GROUPS)).folder
    assert load_moments(ask(base, tmp_path / "dropped", ["pca"], drop="f1").folder).n_features == 4
    frame = pd.read_parquet(path).assign(place=range(300))
    frame.to_parquet(tmp_path / "rows.parquet")
    single = run(
        settings(str(tmp_path / "rows.parquet"), tmp_path / "single", ["pca"], groups=["place"], drop=["w", *GROUPS])
    ).folder
    with pytest.raises(InputError, match="leaves a single row"):
        ask(single, tmp_path / "row", ["pca"], where={"place": 7})
