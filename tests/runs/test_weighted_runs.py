"""``dataset.weight``: runs, evaluations and refreshes of rows with weights are those of repeated rows."""

import numpy as np
import pandas as pd
import pytest
from helpers import tables
from helpers.evaluating import scored
from helpers.runs import refreshed, same_models
from helpers.tables import labelled, write

from mmpca_dist import MarginPCA, load_model, load_moments, run
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.jobs.finished_runs import finished, open_run
from mmpca_dist.jobs.records import COUNT

pytestmark = pytest.mark.usefixtures("no_report")
METHODS = ["pca", "m-pca0", "m-pca1a", "m-pca1b", "m-pca2", "fisher", "pls"]


def table(n, d, seed=1):
    """Return rows, labels, whole weights of which some are 0, and the part of each row."""
    X, y = labelled(n, d, 3, seed=seed)
    rng = np.random.default_rng(seed)
    y[:9] = [0, 1, 2] * 3
    w, part = rng.integers(0, 4, n), rng.integers(0, 3, n)
    w[:9], part[:9] = 1, np.repeat([0, 1, 2], 3)
    return X, y, w, part


def config_of(output, uri, dataset=(), **changes):
    return tables.config_of(output, uri, **{"dataset": dict(dataset), "methods": METHODS, **changes})


@pytest.mark.parametrize(
    ("kind", "n", "d"),
    [
        ("parquet", 120, 5), ("npz", 30, 45), ("file", 120, 5),
        *(pytest.param(*case, marks=pytest.mark.e2e) for case in [
            ("zarr", 120, 5), ("npz", 120, 5), ("parquet", 30, 45), ("zarr", 30, 45), ("file", 30, 45),
        ]),
    ],
)  # fmt: skip
def test_a_run_has_the_models_of_repeated_rows(kind, n, d, tmp_path):
    X, y, w, _ = table(n, d)
    beside, weight = {"n": w / 1.0}, "n"
    if kind == "file":
        weight = str(tmp_path / "n.npy")
        np.save(weight, w)
        kind, beside = "zarr", {}
    uri = write(kind, tmp_path / "rows", X, y, **beside)
    results = run(config_of(tmp_path / "out", uri, {"weight": weight}))
    run(config_of(tmp_path / "twin", write("zarr", tmp_path / "repeated", np.repeat(X, w, axis=0), np.repeat(y, w))))
    same_models(tmp_path / "out", tmp_path / "twin", METHODS, rtol=1e-9)
    count = results["count"]
    assert count["n_rows"] == np.count_nonzero(w) and count["counts"] == np.bincount(y[w > 0]).tolist()
    assert count["weights"] == np.bincount(y, w).tolist()
    assert count["notes"] == [f"Rows left out, as they have no label or weight zero: {np.count_nonzero(w == 0)}."]


CLASSIFIERS = [
    "fisher", "lda", "qda", "naive-bayes", {"name": "svm", "bias": True}, {"name": "logistic", "C": "nested"},
    {"name": "sklearn.linear_model.RidgeClassifier", "label": "ridge"},
]  # fmt: skip


@pytest.mark.parametrize("direct", [True, False], ids=["in memory", "merged"])
def test_an_evaluation_has_the_errors_of_repeated_rows(direct, tmp_path, limits):
    """In given parts, so that copies are on the same side; C is nested by groups, for the same reason."""
    X, y, w, part = table(120, 5)
    if not direct:
        limits.direct_bytes = 0
    classifiers = CLASSIFIERS if direct else CLASSIFIERS[:5]
    evaluation = {"splits": "given", "column": "part", "classifiers": classifiers, "margins": direct}
    if direct:
        evaluation |= {"splits": "groups", "train": "2/3"}
    repeated = [np.repeat(values, w, axis=0) for values in (X, y, part)]
    uris = (
        write("parquet", tmp_path / "rows", X, y, n=w * 0.5, part=part),
        write("zarr", tmp_path / "repeated", *repeated[:2], part=repeated[2]),
    )
    weighted = config_of(tmp_path / "out", uris[0], {"weight": "n"}, evaluation=evaluation)
    plain = config_of(tmp_path / "twin", uris[1], evaluation=evaluation)
    (found, splits, _), (expected, _, _) = scored(weighted), scored(plain)
    assert splits.counts.sum() == np.count_nonzero(w) * len(splits.counts)
    for record, twin in zip(found, expected, strict=True):
        assert [2 * record[name] for name in ("rows", "training", "guessed")] == [
            twin[name] for name in ("rows", "training", "guessed")
        ]
        for line, other in zip(record["errors"], twin["errors"], strict=True):
            if line["classifier"] not in ("svm", "logistic", "ridge"):  # whose penalties count halves
                counts = ("errors_by_class", "confused")
                twice = {name: [2 * errors for errors in line[name]] for name in counts}
                assert {**line, "errors": 2 * line["errors"], **twice} == other


def test_classifiers_of_whole_weights_have_the_penalties_of_repeated_rows(tmp_path):
    X, y, w, part = table(120, 5)
    evaluation = {"splits": "groups", "column": "part", "train": "2/3", "classifiers": CLASSIFIERS}
    repeated = [np.repeat(values, w, axis=0) for values in (X, y, part)]
    uri = write("parquet", tmp_path / "rows", X, y, n=w, part=part)
    twin = write("zarr", tmp_path / "repeated", *repeated[:2], part=repeated[2])
    found, _, _ = scored(config_of(tmp_path / "out", uri, {"weight": "n"}, evaluation=evaluation))
    expected, _, _ = scored(config_of(tmp_path / "twin", twin, evaluation=evaluation))
    assert [record["errors"] for record in found] == [record["errors"] for record in expected]


def test_a_refresh_merges_weighted_rows(tmp_path):
    X, y, w, _ = table(120, 5)
    uris = [write("parquet", tmp_path / str(i), X[s], y[s], n=w[s]) for i, s in enumerate((slice(70), slice(70, None)))]
    methods = ["pca", "m-pca0", "m-pca1a"]
    run(config_of(tmp_path / "first", uris[0], {"weight": "n"}, methods=methods))
    manifest = refreshed(tmp_path / "first", uris[1], tmp_path / "live")
    moments = load_moments(manifest["folder"])
    np.testing.assert_allclose(moments.counts, np.bincount(y, w), rtol=1e-15)
    assert moments.sizes.tolist() == np.bincount(y[w > 0]).tolist()
    assert finished(open_run(manifest["folder"]), COUNT)["weights"] == np.bincount(y, w).tolist()
    run(config_of(tmp_path / "twin", write("zarr", tmp_path / "all", X, y, n=w), {"weight": "n"}, methods=methods))
    same_models(manifest["folder"], tmp_path / "twin", methods)


def test_new_rows_of_weight_zero_need_no_covariates(tmp_path):
    X, y, w, part = table(120, 5)
    age = np.where((w == 0) & (np.arange(120) > 100), None, part + 0.5).astype(object)
    columns = {"n": w, "age": pd.array(age, "Float64")}
    uris = [write("parquet", tmp_path / str(i), X[some], y[some], **{k: v[some] for k, v in columns.items()})
            for i, some in enumerate((slice(70), slice(70, None)))]  # fmt: skip
    assert w[np.equal(age, None)].tolist() == [0] * int(np.equal(age, None).sum()) != []
    dataset = {"weight": "n", "covariates": ["age"]}
    run(config_of(tmp_path / "first", uris[0], dataset, methods=["m-pca0"]))
    folder = refreshed(tmp_path / "first", uris[1], tmp_path / "live")["folder"]
    run(config_of(tmp_path / "twin", write("parquet", tmp_path / "all", X, y, **columns), dataset, methods=["m-pca0"]))
    found, expected = load_model(folder, "m-pca0"), load_model(str(tmp_path / "twin"), "m-pca0")
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)


def test_other_weights_are_another_run(tmp_path):
    X, y, w, _ = table(60, 4)
    uri, settings = write("zarr", tmp_path / "rows", X, y), {"weight": str(tmp_path / "n.npy")}
    np.save(settings["weight"], w)
    for _ in range(2):
        run(config_of(tmp_path / "out", uri, settings, methods="pca"))
    np.save(settings["weight"], w + 1)
    with pytest.raises(OutputError, match="its input has changed since"):
        run(config_of(tmp_path / "out", uri, settings, methods="pca"))


@pytest.mark.parametrize(("bad", "changes", "message"), [
    ({3: -1.0}, {}, "Row 3 has the weight -1.0 in column 'n' of "),
    ({70: np.inf}, {}, "Row 70 has the weight inf in column 'n' of "),
    ({}, {"methods": ["m-pca1b", "pca"], "class_weight": "balanced"}, "m-pca1b: Medians take no class_weight"),
    ({}, {"methods": ["bm2pca"]}, "bm2pca: Methods that pass over their rows until they converge take no weights"),
    ({}, {"dataset": {"weight": "m"}}, r"has no column 'm' \(dataset.weight\)"),
    ({}, {"dataset": {"weight": "nowhere.npy"}}, "nowhere.npy"),
    (dict.fromkeys(range(80), 0.0), {}, "No row of .* is left: all have weight zero"),
], ids=["negative", "infinite", "medians", "sweeps", "column", "file", "zero"])  # fmt: skip
def test_what_takes_no_weights_or_is_none_is_refused(bad, changes, message, tmp_path):
    X, y, w, _ = table(80, 4)
    w = w.astype(float)
    w[list(bad)] = list(bad.values())
    uri = write("parquet", tmp_path / "rows", X, y, n=w)
    with pytest.raises(InputError, match=message):
        run(config_of(tmp_path / "out", uri, **{"dataset": {"weight": "n"}, **changes}))
    assert not (tmp_path / "out").exists()


def test_a_classifier_without_weights_is_refused_before_any_work(tmp_path):
    X, y, w, part = table(80, 4)
    uri = write("parquet", tmp_path / "rows", X, y, n=w, part=part)
    for name in ("sklearn.neighbors.KNeighborsClassifier", "incremental", "dask-logistic"):
        evaluation = {"splits": "given", "column": "part", "classifiers": name}
        with pytest.raises(InputError, match="takes no weights of rows: choose another classifier"):
            scored(config_of(tmp_path / "out", uri, {"weight": "n"}, evaluation=evaluation))


def gappy(tmp_path, kind, unlabelled, weightless):
    """Write rows whose columns beside them have gaps in rows without a label or of weight 0; return the others too."""
    X, y, w, part = table(120, 5)
    frame = pd.DataFrame({"age": part + 0.5, "n": w, "site": np.where(np.arange(120) % 2, "p", "q"), "who": part})
    frame = frame.assign(y=pd.Series(y, dtype="Int64")).convert_dtypes()
    frame.loc[weightless, "n"] = 0
    frame.loc[unlabelled, ["y", "n", "age"]] = None
    frame.loc[weightless, ["age", "site", "who"]] = None
    frame.loc[unlabelled[1:], ["site", "who"]] = None
    kept = np.flatnonzero(frame["y"].notna() & (frame["n"].fillna(0) > 0))
    if kind == "parquet":
        frame = pd.concat([pd.DataFrame(X, columns=list("abcde")), frame], axis=1)
        frame.to_parquet(tmp_path / "t.parquet", row_group_size=17)
        return tmp_path / "t.parquet", X[kept], frame.iloc[kept]
    for part in ("img_emb", "metadata"):
        (tmp_path / "t" / part).mkdir(parents=True)
    np.save(tmp_path / "t/img_emb/img_emb_0.npy", X)
    frame.to_parquet(tmp_path / "t/metadata/metadata_0.parquet", row_group_size=17)
    return tmp_path / "t", X[kept], frame.iloc[kept]


@pytest.mark.parametrize("kind", ["parquet", "folder"])
def test_rows_that_are_left_out_need_no_values_beside_them(kind, tmp_path):
    uri, X, kept = gappy(tmp_path, kind, unlabelled=[20, 21, 70], weightless=[30, 71])

    dataset = {"label": "y", "unlabelled": "skip", "weight": "n", "covariates": ["age", "site"]}
    dataset |= {"balance": "who"} if kind == "folder" else {"drop": ["who"]}
    evaluation = {"splits": "groups", "folds": 3, "column": "who", "classifiers": ["lda"], "margins": False}
    config = config_of(tmp_path / "out", uri, dataset, methods=["m-pca0"], evaluation=evaluation)
    run(config)
    found = load_model(str(tmp_path / "out"), "m-pca0")
    w = kept["n"].to_numpy(float)
    if kind == "folder":
        totals = pd.Series(w).groupby(kept["who"].to_numpy()).transform("sum").to_numpy()
        w = w / totals
    covariates = kept[["age", "site"]].astype({"age": float, "site": object})
    expected = MarginPCA(2, precision="double").fit(X, kept["y"].to_numpy(int), sample_weight=w, covariates=covariates)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)
    records, _, _ = scored(config)
    assert sum(record["rows"] for record in records) == pytest.approx(kept["n"].sum())


@pytest.mark.parametrize(("column", "value", "message"), [
    ("age", None, "Row {} has the covariate nan in column 'age' of "),
    *((column, None, "Row {} has no value in column '" + column) for column in ("site", "who")),
    ("n", None, "Row {} has no weight in column 'n' of "),
    ("age", np.inf, "Row {} has the covariate inf in column 'age'"),
    ("n", -1, "Row {} has the weight -1.0 in column 'n' of "),
])  # fmt: skip
def test_rows_that_are_taken_need_values_beside_them(column, value, message, tmp_path):
    uri, _, kept = gappy(tmp_path, "parquet", unlabelled=[20], weightless=[30])
    frame, row = pd.read_parquet(uri), kept.index[50]
    frame.loc[row, column] = value
    frame.to_parquet(uri, row_group_size=17)
    dataset = {"label": "y", "unlabelled": "skip", "weight": "n", "covariates": ["age", "site"]}
    config = config_of(tmp_path / "out", uri, {**dataset, "balance": "who"}, methods=["m-pca0"])
    with pytest.raises(InputError, match=message.format(row)):
        run(config)


@pytest.mark.parametrize("weight", [None, "n"])
def test_batches_that_count_alike(weight, tmp_path):
    """A batch counts as often as all rows together over the number of batches, whatever the weights of its rows."""
    X, y, w, part = table(120, 5)
    names = np.asarray(["east", "north", "west"])[np.where(part == 1, 1, part * (np.arange(120) < 40))]
    w = w if weight else np.ones_like(w)
    uri = write("parquet", tmp_path / "rows", X, y, n=w, site=names)
    results = run(config_of(tmp_path / "out", uri, {"weight": weight, "balance": "site", "drop": ["n"] * (not weight)}))
    totals = {name: w[names == name].sum() for name in names}
    balanced = w * [w.sum() / (3 * totals[name]) for name in names]
    np.testing.assert_allclose(results["count"]["weights"], np.bincount(y, balanced), rtol=1e-12)
    for method in METHODS:
        config = config_of(tmp_path / "out", uri)
        expected = config.reducer(method, 2).fit(X, y, sample_weight=balanced)
        found = load_model(str(tmp_path / "out"), method)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9, err_msg=method)
    with pytest.raises(InputError, match="lets the names in 'site' count alike"):
        refreshed(tmp_path / "out", uri, tmp_path / "live")
