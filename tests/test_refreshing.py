"""New rows into a finished run: as one run over all rows, each once, whatever arrives, dies or is refused."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from naive import exact_class_moments, mpca0_rows
from samples import counts_like_text, labelled, product_bound, write_csr
from test_runs import Recorder, make_config
from test_transforming import write_npz, write_parquet, write_zarr

from mmpca_dist import load_model, load_moments, run
from mmpca_dist.errors import AccessError, InputError, OutputError, PlanError
from mmpca_dist.reducers.methods import METHODS
from mmpca_dist.runs import reporting
from mmpca_dist.runs.arriving import arrivals
from mmpca_dist.runs.directory import RunDirectory
from mmpca_dist.runs.events import Callback
from mmpca_dist.runs.refreshing import RefreshConfig, refresh
from mmpca_dist.runs.summary import components, headline, report_of
from mmpca_dist.runs.transforming import TransformConfig, transform
from mmpca_dist.statistics import gather

D = 5
NAMES = [f"feature {j}" for j in range(D)]
FOLLOW = [name for name, method in METHODS.items() if not (method.needs_medians or method.needs_pairs)]
"""Methods that follow from class moments."""
X, Y = labelled(400, D, 3, seed=11)
PARTS = {"first": slice(0, 160), "a": slice(160, 260), "b": slice(260, 330), "c": slice(330, 400)}


@pytest.fixture(autouse=True)
def plain_reports(monkeypatch):
    """Reports without pictures, which are slow to draw; what is written, and when, stays as it is."""
    monkeypatch.setattr(reporting, "figures", lambda _: [])
    monkeypatch.setattr(reporting, "render", lambda *_: "a page")


def fit(output, uri, **changes):
    settings = {"methods": FOLLOW, "n_components": [1, 2], "project": {"methods": []}, **changes}
    run(make_config(output, uri, **settings))
    return str(output)


def write(kind, path, rows, labels, dtype=np.float64):
    rows = rows.astype(dtype)
    if kind == "zarr":
        return write_zarr(f"{path}.zarr", rows, labels, NAMES)
    if kind == "parquet":
        return write_parquet(f"{path}.parquet", rows, labels, NAMES)
    if kind == "csr":
        indptr = np.arange(0, rows.size + 1, D)
        return write_csr(f"{path}.zarr", (rows.ravel(), np.tile(np.arange(D), len(rows)), indptr), rows.shape,
                         labels=labels)  # fmt: skip
    return write_npz(f"{path}.npz", rows, labels)


def fill(folder, kind="npz", names=("a", "b", "c"), labels=Y, **options):
    """Write parts of the rows into an inbox."""
    folder.mkdir(exist_ok=True)
    for name in names:
        write(kind, folder / name, X[PARTS[name]], labels[PARTS[name]], **options)
    return str(folder)


def refreshed(base, inbox, output, *callbacks, **options):
    return refresh(RefreshConfig(run=str(base), new=str(inbox), output=str(output), **options), list(callbacks))


def bits(output):
    """Return the bytes of all arrays of the newest models and statistics, and the rows in order."""
    folder = Path(RunDirectory(str(output)).record("refresh")["folder"])
    root = Path(output) / folder
    found = {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".zarr" in str(path.relative_to(root))
    }
    taken = RunDirectory(str(root)).record("reduce")["taken"]
    return str(folder), found, [(entry["name"], entry["rows"]) for entry in taken]


def state(folder):
    """Return every file below a folder, its bytes and its time."""
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in Path(folder).rglob("*") if path.is_file()
    }


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting, "figures", lambda _: [])
        patch.setattr(reporting, "render", lambda *_: "a page")
        return fit(folder / "run", write("npz", folder / "first", X[PARTS["first"]], Y[PARTS["first"]]))


@pytest.mark.parametrize("standardize", [False, True], ids=["plain", "standardised"])
@pytest.mark.parametrize("kind", ["npz", "zarr", "parquet", "csr"])
def test_models_are_those_of_one_run_over_all_rows(kind, standardize, tmp_path):
    """The same sums in another order, in double precision: the components of this sample are told apart well."""
    first = write(kind, tmp_path / "first", X[PARTS["first"]], Y[PARTS["first"]])
    base = fit(tmp_path / "base", first, standardize=standardize)
    whole = fit(tmp_path / "whole", write(kind, tmp_path / "all", X, Y), standardize=standardize)
    manifest = refreshed(base, fill(tmp_path / "inbox", kind), tmp_path / "live")
    assert [entry["rows"] for entry in manifest["taken"]] == [100, 70, 70] and manifest["rows"] == 400
    assert manifest["methods"] == FOLLOW and manifest["left_out"] == {}
    for method in FOLLOW:
        found, expected = load_model(manifest["folder"], method), load_model(whole, method)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10, err_msg=method)
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10, err_msg=method)
        np.testing.assert_allclose(found.mean_, expected.mean_, rtol=1e-12)
    np.testing.assert_array_equal(load_moments(str(tmp_path / "live")).counts, load_moments(whole).counts)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_moments_are_those_of_all_rows(precision, dtype, tmp_path):
    """Within what the product of each pass may be off by, and against exact arithmetic."""
    scaled = np.clip(np.rint(20 * X + 128), 0, 255) if dtype in ("int16", "uint8") else X.astype(dtype)
    parts = {name: scaled[part].astype(dtype) for name, part in PARTS.items()}
    base = fit(tmp_path / "base", write_npz(tmp_path / "first.npz", parts["first"], Y[PARTS["first"]]),
               precision=precision, methods=["pca"])  # fmt: skip
    (tmp_path / "inbox").mkdir()
    for name in ("a", "b", "c"):
        write_npz(tmp_path / "inbox" / f"{name}.npz", parts[name], Y[PARTS[name]])
    refreshed(base, tmp_path / "inbox", tmp_path / "live")
    found = load_moments(str(tmp_path / "live"))
    counts, means, scatters = exact_class_moments(scaled, Y, np.unique(Y))
    assert found.counts.tolist() == counts.tolist()
    unit = np.finfo(np.float32 if precision == "single" else np.float64).eps
    np.testing.assert_allclose(found.means, means, rtol=400 * unit, atol=400 * unit * np.abs(scaled).max())
    for c in range(3):
        bound = product_bound(scatters[c], len(X), precision, means[c])
        assert (np.abs(found.scatters[c] - scatters[c]) <= bound).all()


def test_an_inbox_that_grows_gives_the_bits_of_one_that_was_full(base, tmp_path):
    inbox = tmp_path / "inbox"
    for number, name in enumerate("abc"):
        fill(inbox, names=[name])
        manifest = refreshed(base, inbox, tmp_path / "grown")
        assert [entry["name"] for entry in manifest["taken"]] == [f"{name}.npz"]
        assert manifest["data_sets"] == number + 2
    refreshed(base, inbox, tmp_path / "full")
    assert bits(tmp_path / "grown") == bits(tmp_path / "full")
    assert bits(tmp_path / "full")[2] == [("first.npz", 160), ("a.npz", 100), ("b.npz", 70), ("c.npz", 70)]
    # The newest, and the one before for those who are still reading it; of steps between them nothing is left.
    assert sorted(path.name for path in (tmp_path / "grown").iterdir()) == ["000002", "000003", "records", "run.json"]
    assert sorted(path.name for path in (tmp_path / "full").iterdir()) == ["000003", "records", "run.json"]


def test_nothing_new_changes_nothing(base, tmp_path):
    inbox = Path(fill(tmp_path / "inbox", names=["a"]))
    shutil.copy2(tmp_path / "inbox" / "a.npz", tmp_path / "copy.npz")
    first = refreshed(base, inbox, tmp_path / "live")
    before = state(tmp_path / "live")
    (inbox / "notes.txt").write_text("no data set")
    (inbox / ".hidden.npz").write_text("on its way")
    for new in (inbox, inbox / "a.npz"):
        again = refreshed(base, new, tmp_path / "live")
        assert (again["taken"], again["solved"], again["rows"]) == ([], False, 260)
        assert (again["folder"], again["report"]) == (first["folder"], first["report"])
    moved = inbox.rename(tmp_path / "moved")
    assert not refreshed(base, moved, tmp_path / "live")["solved"]
    assert state(tmp_path / "live") == before
    (tmp_path / "empty").mkdir()
    never = refreshed(base, tmp_path / "empty", tmp_path / "never")
    assert (never["solved"], never["folder"], never["report"]) == (False, None, None)
    assert not (tmp_path / "never").exists()


def test_the_rows_of_the_run_itself_are_not_taken_again(tmp_path):
    inbox = Path(fill(tmp_path / "inbox", names=["first"]))
    base = fit(tmp_path / "base", str(inbox / "first.npz"))
    assert not refreshed(base, inbox, tmp_path / "live")["solved"]
    fill(inbox, names=["a"])
    assert refreshed(base, inbox, tmp_path / "live")["rows"] == 260


def test_a_refreshed_run_is_a_run(base, tmp_path):
    inbox = fill(tmp_path / "inbox", names=["a", "b"])
    refreshed(base, inbox, tmp_path / "live")
    live = str(tmp_path / "live")
    assert headline(live).endswith("first.npz and 2 more data sets: 330 rows, 5 features, 3 classes")
    assert [row["method"] for row in components(live)] == FOLLOW
    assert Path(report_of(live)).read_text() == "a page"
    new = write_npz(tmp_path / "new.npz", X[:20], None)
    transform(TransformConfig(output=live, dataset=new, destination=str(tmp_path / "projected"), methods=["m-pca0"]))
    projected = zarr.open_group(str(tmp_path / "projected" / "m-pca0.zarr"), mode="r")["X"][...]
    model = load_model(live, "m-pca0")
    np.testing.assert_allclose(projected, X[:20] @ model.components_.T, rtol=1e-12, atol=1e-12)
    # It is refreshed in turn: what is in stays in, and is not taken again.
    fill(tmp_path / "inbox", names=["c"])
    manifest = refreshed(live, inbox, tmp_path / "second")
    assert [entry["name"] for entry in manifest["taken"]] == ["c.npz"] and manifest["rows"] == 400
    refreshed(base, inbox, tmp_path / "at once")
    for method in FOLLOW:
        one, other = load_model(manifest["folder"], method), load_model(str(tmp_path / "at once"), method)
        np.testing.assert_array_equal(one.components_, other.components_)
    extended = model.partial_fit(X[PARTS["c"]], Y[PARTS["c"]])
    np.testing.assert_allclose(extended.components_, load_model(str(tmp_path / "second"), "m-pca0").components_,
                               atol=1e-10)  # fmt: skip


def test_methods_that_rows_do_not_extend_are_left_out_with_the_reason(tmp_path):
    recorder = Recorder()
    base = fit(tmp_path / "base", write_npz(tmp_path / "first.npz", X[:200], Y[:200]), methods=list(METHODS))
    manifest = refreshed(base, fill(tmp_path / "inbox", names=["c"]), tmp_path / "live", recorder)
    assert manifest["methods"] == FOLLOW and set(manifest["left_out"]) == {"m-pca1b", "m-pca2"}
    assert any(note.startswith("m-pca1b is left out: the median") for note in recorder.notes)
    assert any(note.startswith("m-pca2 is left out: new rows may be nearer") for note in recorder.notes)
    with pytest.raises(InputError, match="no method 'm-pca2'"):
        load_model(str(tmp_path / "live"), "m-pca2")


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_classes_not_seen_before_extend_the_run(text, tmp_path):
    """The new class comes in a data set of its own, and sorts before the others."""
    names = np.array(["mid", "late", "an early one"]) if text else np.array([5, 7, -300])
    labels = names[Y]
    rows, later = Y < 2, Y == 2
    base = fit(tmp_path / "base", write_npz(tmp_path / "first.npz", X[rows][:150], labels[rows][:150]))
    (tmp_path / "inbox").mkdir()
    write_npz(tmp_path / "inbox" / "a.npz", X[rows][150:], labels[rows][150:])
    write_npz(tmp_path / "inbox" / "b.npz", X[later], labels[later])
    recorder = Recorder()
    refreshed(base, tmp_path / "inbox", tmp_path / "live", recorder)
    whole = fit(tmp_path / "whole", write_npz(tmp_path / "all.npz", X, labels))
    (note,) = recorder.notes
    assert f"b.npz brings the class {str(names[2])!r}, not seen before" in note
    for method in FOLLOW:
        found, expected = load_model(str(tmp_path / "live"), method), load_model(whole, method)
        np.testing.assert_array_equal(found.classes_, expected.classes_)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10, err_msg=method)


def test_pooled_scatters_extend_what_their_sum_determines(tmp_path, monkeypatch):
    """Their second sum is weighted by the class counts of the run's own rows: of no use for m-pca0 afterwards."""
    monkeypatch.setattr(gather, "POOLED_BYTES", 100)
    rows = Y[:160] != 1  # which comes later
    base = fit(tmp_path / "base", write_npz(tmp_path / "first.npz", np.vstack([X[:160][rows], X[:160][rows] + 1]),
               np.append(Y[:160][rows], Y[:160][rows] + 5)))  # fmt: skip
    inbox = fill(tmp_path / "inbox", names=["a"])
    refreshed(base, inbox, tmp_path / "live")
    fill(tmp_path / "inbox", names=["b", "c"])
    manifest = refreshed(base, inbox, tmp_path / "live")
    assert "pooled for the class counts" in manifest["left_out"]["m-pca0"] and len(manifest["left_out"]) == 1
    refreshed(base, inbox, tmp_path / "at once")
    assert bits(tmp_path / "live") == bits(tmp_path / "at once")
    everything = write_npz(tmp_path / "all.npz", np.vstack([X[:160][rows], X[:160][rows] + 1, X[160:]]),
                           np.concatenate([Y[:160][rows], Y[:160][rows] + 5, Y[160:]]))  # fmt: skip
    monkeypatch.undo()
    whole = fit(tmp_path / "whole", everything)
    for method in manifest["methods"]:
        found, expected = load_model(str(tmp_path / "live"), method), load_model(whole, method)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10, err_msg=method)
    assert manifest["methods"] == [name for name in FOLLOW if name != "m-pca0"]


def test_m_pca0_of_three_arrivals_is_that_of_all_pairs(base, tmp_path):
    refreshed(base, fill(tmp_path / "inbox"), tmp_path / "live")
    pairs = np.asarray(mpca0_rows(X, Y))
    values = np.linalg.eigvalsh(pairs.T @ pairs / len(pairs))[::-1]
    np.testing.assert_allclose(load_model(str(tmp_path / "live"), "m-pca0").eigenvalues_, values[:2], rtol=1e-10)


def test_sparse_rows_in_pieces(tmp_path):
    parts, dense, y = counts_like_text(300, 12, 3, seed=4)
    data, indices, indptr = parts

    def piece(name, start, stop):
        ends = indptr[start : stop + 1]
        own = slice(ends[0], ends[-1])
        return write_csr(tmp_path / name, (data[own], indices[own], ends - ends[0]), (stop - start, 12),
                         labels=y[start:stop])  # fmt: skip

    base = fit(tmp_path / "base", piece("first.zarr", 0, 150))
    (tmp_path / "inbox").mkdir()
    piece("inbox/b.zarr", 150, 220), piece("inbox/c.zarr", 220, 300)
    refreshed(base, tmp_path / "inbox", tmp_path / "live")
    whole = fit(tmp_path / "whole", write_npz(tmp_path / "all.npz", dense, y))
    for method in FOLLOW:
        found, expected = load_model(str(tmp_path / "live"), method), load_model(whole, method)
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10, err_msg=method)


def test_few_new_rows_of_one_class_and_columns_by_name(tmp_path):
    """Fewer rows than columns are no matter here; Parquet may have its columns in another order, among others."""
    first = write("parquet", tmp_path / "first", X[:350], Y[:350])
    base = fit(tmp_path / "base", first)
    order, own = [3, 0, 4, 2, 1], np.flatnonzero(Y[350:] == 1)[:3] + 350
    write_parquet(tmp_path / "few.parquet", X[own][:, order], Y[own], [NAMES[j] for j in order], id=["x", "y", "z"])
    refreshed(base, tmp_path / "few.parquet", tmp_path / "live")
    kept = np.append(np.arange(350), own)
    whole = fit(tmp_path / "whole", write_npz(tmp_path / "all.npz", X[kept], Y[kept]))
    for method in FOLLOW:
        found, expected = load_model(str(tmp_path / "live"), method), load_model(whole, method)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-10, err_msg=method)


def test_the_bits_do_not_depend_on_workers(tmp_path, monkeypatch):
    """Several spans a data set, reduced by one thread or by four."""
    monkeypatch.setattr("mmpca_dist.datasets.base.UNIT_BYTES", 25 * D * 8)
    first = write("zarr", tmp_path / "first", X[PARTS["first"]], Y[PARTS["first"]])
    inbox = fill(tmp_path / "inbox", "zarr")
    for workers in (1, 4):
        base = fit(tmp_path / f"base{workers}", first, compute={"workers": workers}, precision="single")
        refreshed(base, inbox, tmp_path / f"live{workers}")
    assert bits(tmp_path / "live1") == bits(tmp_path / "live4")


def test_in_memory_storage(tmp_path):
    place = "memory://tests-refreshing"
    for name in ("first", "inbox/a", "inbox/b"):
        group = zarr.open_group(f"{place}/{name}.zarr", mode="w")
        part = PARTS[name.rsplit("/", 1)[-1]]
        group.create_array("X", data=X[part]), group.create_array("y", data=Y[part])
    fit(f"{place}/base", f"{place}/first.zarr")
    assert refreshed(f"{place}/base", f"{place}/inbox", f"{place}/live")["rows"] == 330
    assert not refreshed(f"{place}/base", f"{place}/inbox", f"{place}/live")["solved"]
    np.testing.assert_array_equal(load_moments(f"{place}/live").counts, np.bincount(Y[:330]))


# --- what is refused ------------------------------------------------------------------------------------------------


def nan_rows(folder):
    rows = X[PARTS["a"]].copy()
    rows[7, 2] = np.nan
    return write_npz(folder / "a.npz", rows, Y[PARTS["a"]])


REFUSED = {
    # name: (writes the new rows, what the message must say)
    "fewer columns": (lambda f: write_npz(f / "a.npz", X[:9, :3], Y[:9]), "3 features, but the run in .* to 5"),
    "no labels": (lambda f: write_npz(f / "a.npz", X[:9]), "no array 'y'"),
    "text labels": (lambda f: write_npz(f / "a.npz", X[:9], Y[:9].astype(str)), "Labels were int64 and are now <U"),
    "not finite": (nan_rows, "Found nan in row 7, column 2"),
    "no rows": (lambda f: write_npz(f / "a.npz", X[:0], Y[:0]), "has no rows"),
    "nowhere": (lambda f: str(f / "missing"), "does not exist"),
    "text": (lambda f: (f / "a.csv").write_text("1,2") and str(f / "a.csv"), "mmpca ingest"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_do_not_fit_are_refused_and_leave_nothing(case, base, tmp_path):
    make, message = REFUSED[case]
    before = state(base)
    with pytest.raises(InputError, match=message):
        refreshed(base, make(tmp_path), tmp_path / "live")
    assert not (tmp_path / "live").exists()
    assert state(base) == before


def test_other_names_of_columns_are_refused(tmp_path):
    base = fit(tmp_path / "base", write("zarr", tmp_path / "first", X, Y))
    other = write_zarr(tmp_path / "other.zarr", X, Y, [*NAMES[:-1], "another"])
    with pytest.raises(InputError, match="lacks 1 of the 5 features"):
        refreshed(base, other, tmp_path / "live")


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


def test_a_file_within_the_folder_of_the_run_is_refused(tmp_path):
    """The run has read the folder as one data set: nobody knows which of its files it saw."""
    (tmp_path / "rows").mkdir()
    write("parquet", tmp_path / "rows" / "a", X[:200], Y[:200])
    base = fit(tmp_path / "base", str(tmp_path / "rows"))
    write("parquet", tmp_path / "rows" / "b", X[200:], Y[200:])
    with pytest.raises(InputError, match=r"a\.parquet lies within .*rows would count twice"):
        refreshed(base, tmp_path / "rows", tmp_path / "live")


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


def test_too_little_memory_is_told_before_the_pass(tmp_path):
    base = fit(tmp_path / "base", write_npz(tmp_path / "first.npz", X, Y))
    header = tmp_path / "base" / "run.json"
    header.write_text(header.read_text().replace('"2GiB"', '"1MiB"'))
    with pytest.raises(PlanError, match=r"needs .* of memory .* are allowed"):
        refreshed(base, fill(tmp_path / "inbox"), tmp_path / "live")
    assert not (tmp_path / "live").exists()


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


def test_a_data_set_that_changes_while_it_is_read_is_not_taken(base, tmp_path):
    inbox = Path(fill(tmp_path / "inbox", names=["a"]))

    class Touch(Callback):
        def on_pass(self, stage, name):
            os.utime(inbox / "a.npz", (1, 1))

    with pytest.raises(AccessError, match=r"a\.npz changed while it was read"):
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


# --- the flow -------------------------------------------------------------------------------------------------------


def test_the_flow_tells_what_was_taken_up_and_refuses_mistakes(prefect_server, base, tmp_path):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

    from pipelines.flows import REFUSED as NAME
    from pipelines.refresh import refresh_flow

    inbox = fill(tmp_path / "inbox", names=["a", "b"])
    config = {"run": base, "new": inbox, "output": str(tmp_path / "live")}
    state = refresh_flow(config, return_state=True)  # as a deployment gives it
    assert state.is_completed()
    assert state.message.startswith("170 rows taken up from a.npz, b.npz: 3 data sets with 330 rows are in. Report: ")
    with get_client(sync_client=True) as client:
        keys = ArtifactFilter(key=ArtifactFilterKey(any_=["taken-up", "components"]))
        found = {artifact.key: artifact.data for artifact in client.read_artifacts(artifact_filter=keys)}
    assert '"data set": "b.npz"' in found["taken-up"] and '"rows": 70' in found["taken-up"]
    assert all(method in found["components"] for method in FOLLOW)
    again = refresh_flow(config, return_state=True)
    assert again.is_completed() and again.message.startswith("Nothing new in ")
    nan_rows(tmp_path)
    refused = refresh_flow({**config, "new": str(tmp_path / "a.npz")}, return_state=True)
    assert refused.name == NAME and "is not what was taken up" in refused.message


def test_the_form_of_the_flow_explains_every_parameter():
    schema = RefreshConfig.model_json_schema()
    assert schema["required"] == ["run", "new", "output"]
    assert all(field["description"] and field["examples"] for field in schema["properties"].values())
