"""New rows through a finished run: with and without labels, columns by name, nothing left of what fails."""

import shutil
import threading

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from helpers.resuming import rewrite_json
from helpers.runs import Recorder, through
from helpers.tables import config_of, content_of, write_npz, write_parquet, write_zarr
from helpers.transforming import NAMES, D, N, X, Y, fit, projected, table, write_named

from mmpca_dist import load_model, run
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs.listing import find_runs
from mmpca_dist.runs.transform import TransformConfig, transform, transformed


def write_npy(path, X, y=None):
    np.save(path, X)
    return str(path)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A run whose features have names."""
    folder = tmp_path_factory.mktemp("fitted")
    return fit(folder, write_named(folder / "rows.parquet", *table()))


@pytest.fixture(scope="module")
def nameless(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nameless")
    return fit(folder, write_npz(folder / "rows.npz", *table()))


WRITERS = {"zarr": write_zarr, "parquet": write_named, "npz": write_npz, "npy": write_npy}


@pytest.mark.parametrize("labelled", [True, False], ids=["labels", "no labels"])
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.e2e
def test_rows_of_every_format_with_labels_or_without(kind, labelled, fitted, tmp_path):
    X, y = table()
    uri = WRITERS[kind](tmp_path / f"new.{kind}", X, y if labelled else None)
    label = None
    if kind == "npy" and labelled:
        label = write_npy(tmp_path / "labels.npy", y)
    destination = str(tmp_path / "dest")
    manifest = through(fitted, uri, tmp_path / "dest", label=label)
    assert (manifest["rows"], manifest["labels"], manifest["methods"]) == (N, labelled, ["pca", "m-pca0"])
    assert manifest["outputs"] == [
        f"{destination}/projected/{method}.{form}" for method in ("pca", "m-pca0") for form in ("zarr", "parquet")
    ]
    for method in ("pca", "m-pca0"):
        rows, labels = projected(destination, method)
        # Double-precision products in another order: a few units in the last place of |x| |v|.
        np.testing.assert_allclose(rows, X @ load_model(fitted, method).components_.T, rtol=1e-12, atol=1e-12)
        parquet = pq.read_table(f"{destination}/projected/{method}.parquet")
        np.testing.assert_array_equal(np.column_stack([parquet[f"{method}_{j}"] for j in range(2)]), rows)
        if labelled:
            np.testing.assert_array_equal(labels, y)
            assert parquet["label"].to_pylist() == y.tolist()
        else:
            assert labels is None and parquet.column_names == ["row", f"{method}_0", f"{method}_1"]


@pytest.mark.parametrize("label", [{}, {"label": "y"}], ids=["label by default", "label by name"])
def test_rows_whose_label_says_none_are_projected(label, tmp_path):
    X, y = table()
    y[5] = 7
    settings = {"methods": ["pca"], "dataset": {"unlabelled": "skip", "unlabelled_value": 7, **label}}
    uri = write_npz(tmp_path / "rows.npz", X, y)
    config = config_of(tmp_path / "run", uri, n_components=[2], **settings)
    run(config)
    manifest = through(config.output, uri, tmp_path / "dest")
    assert (manifest["rows"], manifest["labels"]) == (N, False)


@pytest.mark.e2e
def test_no_format_writes_no_rows(tmp_path):
    output = fit(tmp_path, "bundled:iris", project={"format": []})
    assert through(output, "bundled:iris", tmp_path / "dest")["outputs"] == []


def test_missing_label_chunks_are_noted(fitted, tmp_path):
    """Fitting refuses them, or knows their fill value as a class; here nothing depends on them."""
    X, y = table()
    uri = write_zarr(tmp_path / "a.zarr", X, y + 5)
    shutil.rmtree(tmp_path / "a.zarr" / "y" / "c")
    recorder = Recorder()
    through(fitted, uri, tmp_path / "dest", recorder)
    notes = recorder.notes
    assert len(notes) == 1 and "lacks label chunks of 60 rows" in notes[0] and "as class 0, the fill value" in notes[0]
    assert projected(tmp_path / "dest")[1].tolist() == [0] * N


def test_some_of_the_methods_each_once(fitted, tmp_path):
    X, y = table()
    new = write_npz(tmp_path / "a.npz", X, y)
    assert through(fitted, new, tmp_path / "dest", methods=["m-pca0", "m-pca0"])["methods"] == ["m-pca0"]
    found = sorted(path.name for path in (tmp_path / "dest" / "projected").iterdir())
    assert found == ["m-pca0.parquet", "m-pca0.zarr"]


def test_columns_of_parquet_are_taken_by_name(fitted, tmp_path):
    """In another order, among others, some of which are not even numbers; in several files."""
    X, y = table()
    order = [2, 0, 3, 1]
    (tmp_path / "new").mkdir()
    for name, part in (("a", slice(0, 20)), ("b", slice(20, N))):
        write_named(
            tmp_path / "new" / f"{name}.parquet", X[part][:, order], y[part], [NAMES[i] for i in order],
            id=[f"row {i}" for i in range(N)][part], age=X[part, 0] * 0,
        )  # fmt: skip
    through(fitted, tmp_path / "new", tmp_path / "dest")
    rows, labels = projected(tmp_path / "dest")
    np.testing.assert_allclose(rows, X @ load_model(fitted, "pca").components_.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(labels, y)


@pytest.mark.e2e
def test_a_feature_called_like_a_label_is_a_feature(tmp_path):
    X, y = table()
    names = ["a", "y", "c", "d"]
    fitted = fit(
        tmp_path, "",
        dataset={"uri": write_named(tmp_path / "rows.parquet", X, None, names, kind=y), "label": "kind"},
    )  # fmt: skip
    assert not through(fitted, write_named(tmp_path / "new.parquet", X, None, names), tmp_path / "dest")["labels"]
    rows, _ = projected(tmp_path / "dest")
    np.testing.assert_allclose(rows, X @ load_model(fitted, "pca").components_.T, rtol=1e-12, atol=1e-12)


REFUSED = {
    # name: (writes the rows, further settings, what the message must say)
    "a missing column": (
        lambda f: write_named(f / "a.parquet", X, Y, ["length", "widht", "height", "weight"]), {},
        [r"lacks 1 of the 4 features", "'width'", "Did you mean 'widht'"]),
    "other columns": (
        lambda f: write_named(f / "a.parquet", X, Y, list("abcd")), {},
        ["lacks 4 of the 4 features", "'length', 'width', 'height', 'weight'"]),
    "another order in Zarr": (
        lambda f: write_zarr(f / "a.zarr", X, Y, names=[NAMES[1], NAMES[0], *NAMES[2:]]), {},
        ["another order", "feature 0 is 'width' in place of 'length'", "Reorder"]),
    "other names in Zarr": (
        lambda f: write_zarr(f / "a.zarr", X, Y, names=[*NAMES[:3], "wait"]), {}, ["lacks 1", "'weight'"]),
    "fewer features": (
        lambda f: write_npz(f / "a.npz", X[:, :3], Y), {}, [r"3 features, but the run was fitted to 4"]),
    "no such label": (lambda f: write_zarr(f / "a.zarr", X), {"label": "kind"}, ["no array 'kind' .dataset.label."]),
    "no such label column": (
        lambda f: write_named(f / "a.parquet", X), {"label": "kind"}, ["no column 'kind'"]),
    "labels that are fewer": (lambda f: write_zarr(f / "a.zarr", X, Y[:-1]), {}, ["60 rows and 59 labels"]),
    "no such method": (
        lambda f: write_zarr(f / "a.zarr", X), {"methods": ["m-pca"]}, ["no method 'm-pca'", "Did you mean 'm-pca0'"]),
    "no rows": (lambda f: write_npz(f / "a.npz", X[:0]), {}, ["has no rows"]),
    "nowhere": (lambda f: str(f / "a.zarr"), {}, ["does not exist|no Zarr group"]),
    "text": (lambda f: "a.csv", {}, [r"Cannot read .*a\.csv: it does not exist"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.e2e
def test_rows_that_do_not_fit_are_refused(case, fitted, tmp_path):
    make, settings, words = REFUSED[case]
    with pytest.raises(InputError) as caught:
        through(fitted, make(tmp_path), tmp_path / "dest", **settings)
    for pattern in words:
        assert caught.match(pattern)
    assert not (tmp_path / "dest").exists()


@pytest.fixture(scope="module")
def of_text(tmp_path_factory):
    """A run of CSV, and its rows."""
    folder = tmp_path_factory.mktemp("text")
    frame = pd.DataFrame(X, columns=NAMES).assign(
        kind=np.where(Y == 0, "a", "b"), town=["north", "north", "south"] * 20
    )
    frame.to_csv(folder / "rows.csv", index=False)
    dataset = {"uri": str(folder / "rows.csv"), "label": "kind", "covariates": ["town"]}
    return fit(folder, "", dataset=dataset), frame


@pytest.mark.parametrize(("changes", "name", "said"), [
    ({}, "out.csv", None),
    ({"kind": ["a", None] * 30}, "out.csv", None),
    ({"width": ["1", "high"] * 30}, "out.csv", "{}.* hold something else: 'width': text: 'high' in row 1 .line 3."),
    ({"width": None}, "out.csv", r"{} has missing values|{}"),
    ({"town": "hill"}, "out.csv", "has town hill in column 'town' of {}, which no row had"),
    ({}, "out.xlsx", "out.xlsx ends like a file, and files for projected rows end with .zarr, .parquet, .csv"),
], ids=["labels", "some labels", "text", "gaps", "unknown", "suffix"])  # fmt: skip
def test_text_is_named_as_it_was_given_and_leaves_nothing_else(changes, name, said, of_text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted, frame = of_text
    frame.assign(**changes).to_csv("new.csv", index=False)
    recorder, config = Recorder(), TransformConfig(output=fitted, dataset="new.csv", destination=name)
    if said is None:
        words = transformed(transform(config, [recorder]))
        assert f"60 rows, with {'the labels of some' if changes else 'their labels'}" in words
        assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "out.csv"]
    else:
        with pytest.raises(InputError, match=said.replace("{}", "new.csv")) as caught:
            transform(config, [recorder])
        assert "converted" not in str(caught.value) and "--set" not in str(caught.value)
        assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]
    assert not any("converted" in note or "Removed" in note for note in recorder.notes)


@pytest.mark.e2e
def test_rows_without_names_go_by_position(nameless, tmp_path):
    uri = write_named(tmp_path / "a.parquet", X, None, list("abcd"))
    through(nameless, uri, tmp_path / "dest")
    expected = X @ load_model(nameless, "pca").components_.T
    np.testing.assert_allclose(projected(tmp_path / "dest")[0], expected, rtol=1e-12, atol=1e-12)


def test_a_destination_that_exists_is_left_alone(fitted, tmp_path):
    (tmp_path / "dest" / "pca.zarr").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"holds other files \('pca.zarr'\) and no run"):
        through(fitted, write_npz(tmp_path / "a.npz", X), tmp_path / "dest")
    assert [path.name for path in (tmp_path / "dest").iterdir()] == ["pca.zarr"]


def many_chunks(folder, n_chunks=40):
    """Return rows in so many reading units, the first of which holds a value that is not finite."""
    rows = np.tile(X, (n_chunks, 1))
    rows[3, 1] = np.nan
    return write_zarr(folder / "a.zarr", rows, None, N)


@pytest.mark.e2e
def test_rows_that_are_not_finite_leave_nothing(fitted, tmp_path, monkeypatch):
    """Nor do tasks that are still running when the first of them fails."""
    monkeypatch.setattr("mmpca_dist.limits.LIMITS.unit_bytes", N * D * 8)
    uri = many_chunks(tmp_path)
    with pytest.raises(InputError, match=r"nan in row 3, column 1"):
        through(fitted, uri, tmp_path / "dest")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("the disk went away")], ids=["interrupt", "error"])
def test_the_same_call_goes_on_after_whatever_stops_it(error, fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("mmpca_dist.limits.LIMITS.unit_bytes", N * D * 8)
    uri = write_zarr(tmp_path / "a.zarr", np.tile(X, (40, 1)))

    class Stop(Callback):
        def on_progress(self, stage, done, total):
            raise error

    config = TransformConfig(output=fitted, dataset=uri, destination=str(tmp_path / "dest"))
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else OSError):
        transform(config, [Stop()])
    assert threading.active_count() <= before, "tasks that still run may write again"
    assert [state.words for state in find_runs(str(tmp_path))] == ["stopped at project; the same command goes on"]
    transform(config)
    expected = np.tile(X, (40, 1)) @ load_model(fitted, "pca").components_.T
    np.testing.assert_allclose(projected(tmp_path / "dest")[0], expected, rtol=1e-12, atol=1e-12)
    assert [state.state for state in find_runs(str(tmp_path))] == ["finished"]


def test_projected_rows_are_no_run(fitted, tmp_path):
    config = TransformConfig(output=fitted, dataset=write_npz(tmp_path / "a.npz", X), destination=str(tmp_path / "b"))
    transform(config)
    with pytest.raises(InputError, match="holds projected rows, and no models"):
        load_model(config.destination, "pca")
    with pytest.raises(OutputError, match="already holds a different run: it holds projected rows"):
        run(config_of(config.destination, "bundled:iris"))


@pytest.mark.e2e
def test_memory_of_this_process_is_refused_for_other_processes(tmp_path):
    uri = write_npz(tmp_path / "rows.npz", X, Y)
    fitted = fit(tmp_path, uri)
    rewrite_json(tmp_path / "fitted" / "run.json", '"threads"', '"local"')
    with pytest.raises(InputError, match="memory of this process"):
        through(fitted, uri, "memory://tests-transforming/dest")


def test_a_run_that_is_not_finished_has_no_model(fitted, tmp_path):
    shutil.copytree(fitted, tmp_path / "half")
    shutil.rmtree(tmp_path / "half" / "records")
    with pytest.raises(InputError, match="is not finished"):
        through(tmp_path / "half", "bundled:iris", tmp_path / "dest")


@pytest.mark.parametrize("named", [True, False])
def test_labels_are_by_default_those_of_the_run(named, tmp_path):
    """The column that was the label is carried along where the new rows have it, and may be missing."""
    X, y = table()
    uri = write_parquet(tmp_path / "a.parquet", X, kind=y)
    write_parquet(tmp_path / "new.parquet", X, **({"kind": y + 1} if named else {}))
    run(content_of(tmp_path / "out", uri, dataset={"label": "kind"}))
    assert through(tmp_path / "out", tmp_path / "new.parquet", tmp_path / "dest")["labels"] == named
    labels = projected(tmp_path / "dest")[1]
    assert labels.tolist() == (y + 1).tolist() if named else labels is None


def test_features_that_are_too_many_are_named(fitted, tmp_path):
    X, _ = table()
    rows = write_zarr(tmp_path / "more.zarr", np.c_[X, X[:, :1]], names=[*NAMES, "my id"])
    with pytest.raises(InputError, match=r"It has 'my id' as well: leave them out as it is ingested, with --drop '"):
        through(fitted, rows, tmp_path / "dest")
    names = [*NAMES[1:], "a", "b"]
    rows = write_zarr(tmp_path / "other.zarr", np.c_[X, X[:, :1]], names=names)
    with pytest.raises(InputError, match=rf"It lacks '{NAMES[0]}'\. It has 'a', 'b' as well"):
        through(fitted, rows, tmp_path / "dest")
