"""New rows that a finished run does not take, or may not: refused in a sentence, with nothing changed."""

import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.refreshing import NAMES, PARTS, X, Y, bits, fill, first_run, fit, nan_rows, state, write
from helpers.runs import Recorder, refreshed
from helpers.tables import config_of, labelled, write_npz, write_zarr

from mmpca_dist import load_model, load_moments, run
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs.refresh_inputs import arrivals

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return first_run(tmp_path_factory.mktemp("base"))


REFUSED = {
    # name: (writes the new rows, what the message must say)
    "fewer columns": (lambda f: write_npz(f / "a.npz", X[:9, :3], Y[:9]), "3 features, but the run was fitted to 5"),
    "no labels": (lambda f: write_npz(f / "a.npz", X[:9]), "no array 'y'"),
    "text labels": (lambda f: write_npz(f / "a.npz", X[:9], Y[:9].astype(str)), "Labels were int64 and are now <U"),
    "not finite": (nan_rows, "Found nan in row 7, column 2"),
    "no rows": (lambda f: write_npz(f / "a.npz", X[:0], Y[:0]), "has no rows"),
    "nowhere": (lambda f: str(f / "missing"), "does not exist"),
    "text": (lambda f: (f / "a.csv").write_text("a,b\n1,2\n") and str(f / "a.csv"), "/a.csv has no column .label"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.e2e
def test_rows_that_do_not_fit_are_refused_and_leave_nothing(case, base, tmp_path):
    make, message = REFUSED[case]
    before = state(base)
    with pytest.raises(InputError, match=message):
        refreshed(base, make(tmp_path), tmp_path / "live")
    assert not (tmp_path / "live").exists()
    assert state(base) == before


@pytest.mark.e2e
def test_other_names_of_columns_are_refused(tmp_path):
    base = fit(tmp_path / "base", write("zarr", tmp_path / "first", X, Y))
    other = write_zarr(tmp_path / "other.zarr", X, Y, names=[*NAMES[:-1], "another"])
    with pytest.raises(InputError, match="lacks 1 of the 5 features"):
        refreshed(base, other, tmp_path / "live")


@pytest.mark.e2e
def test_runs_that_keep_no_moments_are_refused(tmp_path):
    rng = np.random.default_rng(7)
    wide = write_npz(tmp_path / "wide.npz", rng.standard_normal((12, 30)), np.arange(12) % 2)
    passes = write_npz(tmp_path / "rows.npz", X, Y)
    cases = (
        (fit(tmp_path / "wide", wide), "fewer rows than columns"),
        (fit(tmp_path / "passes", passes, solver={"kind": "krylov"}, methods=["pca", "fisher-score"]), "pass by pass"),
        (fit(tmp_path / "medians", passes, methods=["m-pca1b"]), "No method .* m-pca1b: the median"),
    )
    for base, reason in cases:
        with pytest.raises(InputError, match=reason):
            refreshed(base, passes, tmp_path / "live")
    with pytest.raises(InputError, match="There is no run in"):
        refreshed(tmp_path / "nothing", passes, tmp_path / "live")
    shutil.rmtree(tmp_path / "medians" / "records")
    with pytest.raises(InputError, match="is not finished"):
        refreshed(tmp_path / "medians", passes, tmp_path / "live")
    assert not (tmp_path / "live").exists()


@pytest.mark.e2e
def test_rows_that_may_be_in_already_are_refused(base, tmp_path):
    inbox = Path(fill(tmp_path / "inbox", names=["a"]))
    refreshed(base, inbox, tmp_path / "live")
    before = state(tmp_path / "live")
    write_npz(inbox / "a.npz", X[PARTS["b"]], Y[PARTS["b"]])
    with pytest.raises(
        InputError, match=r"a\.npz is not what was taken up under this name \(100 rows of .*another name"
    ):
        refreshed(base, inbox, tmp_path / "live")
    write_npz(tmp_path / "first.npz", X[PARTS["b"]], Y[PARTS["b"]])
    with pytest.raises(InputError, match=r"first\.npz is not what was taken up under this name \(160 rows"):
        refreshed(base, tmp_path / "first.npz", tmp_path / "live")
    assert state(tmp_path / "live") == before


@pytest.mark.e2e
def test_a_file_within_the_folder_of_the_run_is_refused(tmp_path):
    """The run has read the folder as one data set: nobody knows which of its files it saw."""
    (tmp_path / "rows").mkdir()
    write("parquet", tmp_path / "rows" / "a", X[:200], Y[:200])
    base = fit(tmp_path / "base", str(tmp_path / "rows"))
    write("parquet", tmp_path / "rows" / "b", X[200:], Y[200:])
    with pytest.raises(InputError, match=r"a\.parquet lies within .*rows would count twice"):
        refreshed(base, tmp_path / "rows", tmp_path / "live")


@pytest.mark.e2e
def test_outputs_that_hold_something_else_are_left_alone(base, tmp_path):
    inbox = fill(tmp_path / "inbox", names=["a"])
    other = fit(tmp_path / "other", write_npz(tmp_path / "other.npz", X[:99], Y[:99]))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("of someone")
    refreshed(base, inbox, tmp_path / "live")
    for given, output, message in (
        (base, other, "already holds another run"),
        (base, base, "is the run itself"),
        (other, tmp_path / "live", "already holds another run, or one refreshed from .*other"),
        (base, tmp_path / "mine", "holds other files"),
    ):
        before = state(output)
        with pytest.raises(OutputError, match=message):
            refreshed(given, inbox, output)
        assert state(output) == before


@pytest.mark.e2e
def test_a_data_set_that_is_refused_holds_up_only_those_after_it(base, tmp_path):
    """What was taken up before stays in; readers keep the models they had until all is solved."""
    inbox = Path(fill(tmp_path / "inbox", names=["a"]))
    refreshed(base, inbox, tmp_path / "live")
    before = bits(tmp_path / "live")
    fill(inbox, names=["b"])
    rows = X[PARTS["c"]].copy()
    rows[0, 0] = np.inf
    write_npz(inbox / "c.npz", rows, Y[PARTS["c"]])
    with pytest.raises(InputError, match="Found inf in row 0"):
        refreshed(base, inbox, tmp_path / "live")
    assert bits(tmp_path / "live") == before
    (inbox / "c.npz").unlink()
    manifest = refreshed(base, inbox, tmp_path / "live")
    assert manifest["solved"] and manifest["taken"] == [] and manifest["rows"] == 330
    fill(inbox, names=["c"])
    assert refreshed(base, inbox, tmp_path / "live")["rows"] == 400
    refreshed(base, inbox, tmp_path / "full")
    assert bits(tmp_path / "live") == bits(tmp_path / "full")


@pytest.mark.e2e
def test_a_data_set_that_changes_while_it_is_read_is_not_taken(base, tmp_path):
    inbox = Path(fill(tmp_path / "inbox", names=["a"]))

    class Touch(Callback):
        def on_pass(self, stage, name):
            os.utime(inbox / "a.npz", (1, 1))

    with pytest.raises(InputError, match=r"a\.npz changed while it was read: it has another"):
        refreshed(base, inbox, tmp_path / "live", Touch())
    assert refreshed(base, inbox, tmp_path / "live")["rows"] == 260


def test_missing_label_chunks_are_the_fill_value_where_it_is_a_known_class(tmp_path):
    """Zarr leaves out chunks that hold the fill value only: here every label is 0, a class of the run."""
    known = fit(tmp_path / "known", write_npz(tmp_path / "first.npz", X, Y))
    unknown = fit(tmp_path / "unknown", write_npz(tmp_path / "second.npz", X, Y + 1))
    new = write_zarr(tmp_path / "new.zarr", X[:50], np.zeros(50, int))
    shutil.rmtree(tmp_path / "new.zarr" / "y" / "c", ignore_errors=True)
    recorder = Recorder()
    refreshed(known, new, tmp_path / "live", recorder)
    assert any("lacks label chunks of 50 rows" in note for note in recorder.notes)
    assert load_moments(str(tmp_path / "live")).counts[0] == 50 + np.sum(Y == 0)
    with pytest.raises(InputError, match="fill value 0 is not the label of any other row"):
        refreshed(unknown, new, tmp_path / "other")


def test_an_address_is_an_inbox_or_a_data_set(tmp_path):
    inbox = Path(fill(tmp_path / "inbox", "zarr", names=["b", "a"]))
    fill(inbox, names=["c"])
    write("parquet", inbox / "p", X, Y)
    assert [found.name for found in arrivals(str(inbox))] == ["a.zarr", "b.zarr", "c.npz", "p.parquet"]
    group = (inbox / "a.zarr").rename(tmp_path / "rows")  # a group by what is in it
    for uri in (str(group), str(inbox / "c.npz"), "bundled:iris", "synthetic:gaussian?n=10&d=2"):
        (found,) = arrivals(uri)
        assert found.uri == uri
    with pytest.raises(InputError, match="does not exist"):
        arrivals(str(tmp_path / "missing"))


def in_a_linked_folder(first, inbox):
    (inbox.parent / "again").symlink_to(first.parent)
    inbox.rmdir()
    inbox.symlink_to(inbox.parent / "again")
    (inbox / "other.npz").symlink_to(inbox / first.name)


LINKS = {
    "symbolic": ("npz", lambda first, inbox: (inbox / "other.npz").symlink_to(first)),
    "hard": ("npz", lambda first, inbox: os.link(first, inbox / "other.npz")),
    "in a linked folder": ("npz", in_a_linked_folder),
    "of a backup": ("zarr", lambda first, inbox: shutil.copytree(first, inbox / "other.zarr", copy_function=os.link)),
}


@pytest.mark.parametrize("case", LINKS)
@pytest.mark.e2e
def test_links_to_rows_that_are_in_are_refused(case, tmp_path):
    """They counted twice: the first data set under another name, and so do new ones that are links to one another."""
    kind, link = LINKS[case]
    (tmp_path / "data").mkdir()
    first = Path(write(kind, tmp_path / "data" / "first", X[PARTS["first"]], Y[PARTS["first"]]))
    base, inbox = fit(tmp_path / "base", str(first)), tmp_path / "inbox"
    inbox.mkdir()
    link(first, inbox)
    with pytest.raises(
        InputError, match=rf"other\.{kind} and .*{first.name} are, or hold, links to the same files: rows"
    ):
        refreshed(base, inbox, tmp_path / "live")
    assert not (tmp_path / "live").exists()
    new = Path(fill(tmp_path / "new", names=["a"]))
    (new / "b.npz").symlink_to(new / "a.npz")
    with pytest.raises(InputError, match=r"b\.npz and .*a\.npz are, or hold, links"):
        refreshed(base, new, tmp_path / "live")


@pytest.mark.parametrize("kind", ["npz", "zarr"])
@pytest.mark.e2e
def test_copies_of_rows_that_are_in_are_asked_about(kind, tmp_path):
    """In another format the moments differ by rounding; names, times and sizes tell nothing."""
    first = write("npz", tmp_path / "first", X[PARTS["first"]], Y[PARTS["first"]])
    base, inbox, recorder = fit(tmp_path / "base", first), tmp_path / "inbox", Recorder()
    fill(inbox, names=["a", "b"])
    write(kind, inbox / "copy", X[PARTS["first"]], Y[PARTS["first"]])
    write(kind, inbox / "later", X[PARTS["b"]], Y[PARTS["b"]])
    result = refreshed(base, inbox, tmp_path / "live", recorder)
    notes = [note for note in recorder.notes if "Is it a copy?" in note]
    suffix = "npz" if kind == "npz" else "zarr"
    assert notes[0].startswith(f"{inbox}/copy.{suffix} has as many rows as {first}, and the same moments.")
    assert notes[1].startswith(f"{inbox}/later.{suffix} has as many rows as {inbox}/b.npz, and the same moments.")
    assert len(notes) == 2 and result["rows"] == 2 * 160 + 100 + 2 * 70
    assert refreshed(base, inbox, tmp_path / "live", again := Recorder())["solved"] is False and not again.notes


BESIDE = ["n", "size", "price", "cost", "label"]
ROLES = {
    "label alone": {"label": "label"},
    "weight": {"label": "label", "weight": "n"},
    "covariates": {"label": "label", "covariates": ["size"]},
    "weight and covariates": {"label": "label", "weight": "n", "covariates": ["size"]},
    "targets": {"target": ["price", "cost"], "covariates": ["size"]},
    "slices": {"target": {"column": "price", "slices": 3}, "weight": "n"},
    "rows without labels": {"label": "label", "unlabelled": "skip", "missing": "mean"},
}


def frame(n):
    X, y = labelled(n, 4, 3, seed=3)
    rng = np.random.default_rng(4)
    price = np.arange(n) % 90 + X[:, 0] / 10  # the slices of any 90 rows are those of all
    table = pd.DataFrame(X, columns=list("abcd")).assign(
        n=rng.integers(1, 4, n), size=rng.standard_normal(n), price=price, cost=rng.standard_normal(n), label=y
    )
    table.loc[::17, "label"] = None
    return table


def used(dataset):
    """Return the columns that play no role in a run, and the settings that leave them out."""
    named = str(dataset)
    return {**dataset, "drop": [name for name in BESIDE if f"'{name}'" not in named]}


@pytest.mark.parametrize("kind", ["parquet", pytest.param("csv", marks=pytest.mark.e2e)])
@pytest.mark.parametrize("roles", ROLES)
def test_the_own_table_is_not_taken_again(roles, kind, tmp_path):
    dataset, whole = used(ROLES[roles]), frame(270)
    if "unlabelled" not in dataset:
        whole["label"] = whole["label"].fillna(0)
    write = pd.DataFrame.to_parquet if kind == "parquet" else pd.DataFrame.to_csv
    inbox, others = tmp_path / "inbox", {} if kind == "parquet" else {"index": False}
    inbox.mkdir()
    write(whole[:180], inbox / f"first.{kind}", **others)
    methods = ["pls"] if roles == "targets" else ["pca", "fisher"]
    settings = {"methods": methods, "n_components": 1}
    named = {**dataset, "data_dir": str(inbox)} if roles == "weight" else dataset
    uri = f"first.{kind}" if roles == "weight" else str(inbox / f"first.{kind}")
    base = str(tmp_path / "base")
    run(config_of(base, uri, dataset=named, **settings))
    assert not refreshed(base, inbox, tmp_path / "live")["solved"]
    write(whole[180:], inbox / f"second.{kind}", **others)
    manifest = refreshed(base, inbox, tmp_path / "live")
    assert manifest["rows"] == (270 if "unlabelled" not in dataset else int(whole["label"].notna().sum()))
    if roles == "slices":
        return  # slices are those of the first rows; of all rows they end elsewhere
    write(whole, tmp_path / f"all.{kind}", **others)
    run(config_of(tmp_path / "twin", str(tmp_path / f"all.{kind}"), dataset=dataset, **settings))
    for method in methods:
        found, expected = (load_model(str(tmp_path / name), method) for name in ("live", "twin"))
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7, err_msg=method)
