"""Evaluations of rows without labels: by how much of held-out rows is left when components reconstruct them."""

import json
from pathlib import Path

import naive
import naive_belonging
import numpy as np
import pytest
from helpers.evaluating import scored
from helpers.reports import check_page
from helpers.samples import batch_of
from helpers.tables import config_of, labelled, write_npz, write_parquet

from mmpca_dist.errors import InputError
from mmpca_dist.results.evaluation_result import result_in
from mmpca_dist.runs.compare_runs import compare_runs
from mmpca_dist.runs.evaluate import evaluate

METHODS, SIZES = ["pca", "random-projection"], [1, 3]
TWINS = {
    "reconstruction": naive_belonging.reconstruction_left, "left-out columns": naive_belonging.left_out_columns,
}  # fmt: skip
KINDS = {
    "folds": {"splits": "folds", "folds": 4}, "shares": {"splits": "shares", "count": 2},
    "blocks": {"splits": "blocks", "folds": 3}, "groups": {"splits": "groups", "folds": 3, "column": "group"},
    "time": {"splits": "time", "windows": 2, "column": "group"},
}  # fmt: skip


def table(folder, n, d):
    """Write rows far from zero, with groups and weights, and return rows, weights and address."""
    rng = np.random.default_rng(n)
    X = labelled(n, d, 2, 3)[0] * np.linspace(4, 0.5, d) + 20
    groups, weights = np.arange(n) // 4, rng.integers(0, 4, n).astype(float)
    return X, weights, write_parquet(folder / "rows.parquet", X, group=groups, w=weights)


def settings_of(folder, uri, **changes):
    dataset = {"uri": uri, "label": "none", "drop": ["group", "w"], **changes.pop("dataset", {})}
    return config_of(folder / "out", uri, **{"dataset": dataset, "methods": METHODS, "n_components": SIZES, **changes})


def components_of(method, rows, weights, size):
    """Return components (K, d) of rows that are less their mean, and in their units."""
    if method == "pca":
        return np.linalg.svd(rows * np.sqrt(weights)[:, None], full_matrices=False)[2][:size]
    return naive.random_directions(size, rows.shape[1], 0)


@pytest.mark.parametrize(("n", "d"), [(90, 6), (30, 45)])
@pytest.mark.parametrize(("kind", "standardize", "weighted"), [
    ("folds", False, False), ("folds", True, True), ("shares", True, False), ("blocks", False, True),
    ("groups", True, False), ("time", False, False),
])  # fmt: skip
def test_errors_are_those_of_single_rows(kind, standardize, weighted, n, d, tmp_path):
    """Moments of the rows held out tell what row by row the shadows on the components leave."""
    X, weights, uri = table(tmp_path, n, d)
    more = {"drop": ["group"], "weight": "w"} if weighted else {}
    config = settings_of(tmp_path, uri, standardize=standardize, evaluation=KINDS[kind], dataset=more)
    records, splits, _ = scored(config)
    weights = weights if weighted else np.ones(n)
    kept = np.flatnonzero(weights)  # rows of weight zero are left out, and the others numbered anew
    X, weights = X[kept], weights[kept]
    parts = splits.codes(batch_of(np.zeros(len(X), int)))
    pairs = [(own, part) for own in parts for part in splits.held_out]
    assert len(pairs) == len(records)
    for record, (own, part) in zip(records, pairs, strict=True):
        trains, held_out = splits.trains(part)[own].astype(bool) & (own >= 0), own == part
        train, w = X[trains], weights[trains]
        centred = train - w @ train / w.sum()
        scale = np.sqrt(w @ centred**2 / w.sum()) if standardize else 1
        assert len(record["errors"]) == 2 * len(METHODS) * len(SIZES)
        for line in record["errors"]:
            components = components_of(line["method"], centred / scale, w, line["n_components"])
            expected = TWINS[line["classifier"]](
                train, X[held_out], components, weights=w, new_weights=weights[held_out], standardize=standardize
            )
            np.testing.assert_allclose(line["errors"] / record["rows"], expected, rtol=1e-8)
            assert line["used"] == line["n_components"]
        assert record["guessed"] == record["rows"] == weights[held_out].sum()


@pytest.mark.parametrize("settings", [{"missing": "mean"}, {"maps": ["unit-length"]}], ids=["gaps", "maps"])
def test_gaps_and_row_maps_come_before(settings, tmp_path):
    """Means of the rows that train stand for gaps; maps make the rows that are reconstructed."""
    X, _, _ = table(tmp_path, 60, 5)
    part = np.arange(60) % 3
    if "missing" in settings:
        X[::7, 2] = np.nan
    uri = write_parquet(tmp_path / "rows.parquet", X, part=part)
    dataset = {"uri": uri, "label": "none", **settings}
    evaluation = {"splits": "given", "column": "part"}
    records, *_ = scored(config_of(tmp_path / "out", uri, dataset=dataset, methods=["pca"], evaluation=evaluation))
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if "maps" in settings else X
    for record in records:
        mean = np.nanmean(rows[part != record["split"]], axis=0)
        filled = np.where(np.isnan(rows), mean, rows)
        train, held_out = filled[part != record["split"]], filled[part == record["split"]]
        for line in record["errors"]:
            components = components_of("pca", train - mean, np.ones(len(train)), line["n_components"])
            expected = TWINS[line["classifier"]](train, held_out, components)
            np.testing.assert_allclose(line["errors"] / record["rows"], expected, rtol=1e-7)


def test_sparse_rows_have_the_errors_of_dense_ones(tmp_path):
    X = np.where(np.random.default_rng(4).random((80, 12)) < 0.3, labelled(80, 12, 2, 3)[0], 0)
    found = []
    for sparse in (True, False):
        uri = write_npz(tmp_path / f"rows{sparse}.npz", X, sparse=sparse)
        settings = {"dataset": {"uri": uri, "label": "none"}, "methods": METHODS}
        records, *_ = scored(config_of(tmp_path / str(sparse), uri, **settings))
        found.append([line["errors"] for record in records for line in record["errors"]])
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_the_result_compares_methods_at_the_same_number(tmp_path):
    """Left-out columns choose a number; it names no class; the baseline is the mean, which leaves everything."""
    _, _, uri = table(tmp_path, 90, 6)
    result = evaluate(
        settings_of(tmp_path, uri, methods=[*METHODS, {"name": "random-projection", "seed": 1, "label": "other"}])
    )
    whole, errors = result.errors, result.errors[result.errors["classifier"] == "reconstruction"]
    best = errors[errors["method"] == "pca"].set_index("n_components")["mean"]
    left_out = whole[whole["classifier"] == "left-out columns"].set_index(["method", "n_components"])["mean"]
    assert result.recommended["method"] == left_out.idxmin()[0] == "pca"
    use = int(result.recommended["n_components"])
    assert result.summary.startswith(f"Use PCA with {use} component")
    assert f"but for {left_out['pca', use]:.1f}% of the variance" in result.summary
    assert f"{best[1]:.1f}% (PCA with 1 component)" in result.summary
    assert "Baseline (the mean of the rows that train): 100.0% error." in result.verdict
    assert (errors["mean"] < 100).all() and best[3] < best[1]
    assert set(errors["method"]) == {*METHODS, "other"}  # no all columns, which leave nothing
    tested = errors[errors["method"] != "pca"]
    assert tested["holm_p_value"].notna().all() and (tested["difference"] > 0).all()
    page = check_page(Path(result.report).read_text())
    for words in (
        "5 folds. Error: reconstruction; left-out columns.",
        "Errors are the share of the variance of the rows held out",
    ):
        assert words in page.text
    for word in ("Classes", "1 classes", "largest class", "stratified", "linear regression", "Margins"):
        assert word not in page.text
    assert json.dumps(result_in(f"{tmp_path}/out/evaluation").to_json())


@pytest.mark.e2e
def test_evaluations_without_labels_are_compared(tmp_path):
    """The splits are the same, so that there are tests of the errors."""
    _, _, uri = table(tmp_path, 90, 6)
    folders = [tmp_path / name for name in ("one", "other")]
    for folder, standardize in zip(folders, (False, True), strict=True):
        evaluate(settings_of(folder, uri, standardize=standardize))
    (compared,) = compare_runs([str(folder / "out" / "evaluation") for folder in folders])
    assert sorted(row["method"] for row in compared.results) == ["pca"] * 4 + ["random-projection"] * 4


@pytest.mark.parametrize(("changes", "words"), [
    ({"methods": ["pca", "m-pca0", "fisher"]}, r"m-pca0, fisher: needs labels, and dataset\.label is none"),
    ({"methods": ["pca", "all-columns"]}, "all-columns: all columns leave nothing to reconstruct"),
    ({"evaluation": {"classifiers": ["lda", "svm"]}}, r"evaluation\.classifiers: needs labels"),
    ({"evaluation": {"published": "ionosphere"}}, r"evaluation\.published: needs labels"),
    ({"evaluation": {"intervals": True}}, r"evaluation\.intervals: needs labels"),
    ({"solver": {"kind": "krylov"}}, "evaluations without labels, need the whole scatter"),
])  # fmt: skip
def test_what_needs_labels_or_forms_no_scatter_is_refused_by_name(changes, words, tmp_path):
    _, _, uri = table(tmp_path, 60, 5)
    with pytest.raises(InputError, match=words):
        evaluate(settings_of(tmp_path, uri, **changes))


def test_rows_held_out_at_the_mean_leave_everything(tmp_path):
    """There is no variance of which a share could be left."""
    half = np.random.default_rng(0).integers(-9, 9, (10, 4)).astype(float)
    X, part = np.concatenate([half, -half, np.zeros((20, 4))]), np.repeat([0, 1], 20)
    uri = write_parquet(tmp_path / "rows.parquet", X, part=part)
    evaluation = {"splits": "given", "column": "part", "held_out": 1}
    settings = {"dataset": {"uri": uri, "label": "none"}, "methods": METHODS, "evaluation": evaluation}
    (record,), *_ = scored(config_of(tmp_path / "out", uri, **settings))
    assert [line["errors"] for line in record["errors"]] == [20] * 4
