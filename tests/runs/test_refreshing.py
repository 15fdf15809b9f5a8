"""New rows into a finished run: as one run over all rows, each once, whatever arrives."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from helpers.operations import artifacts_of
from helpers.refreshing import FOLLOW, NAMES, NEEDS, PARTS, D, X, Y, bits, fill, first_run, fit, nan_rows, state, write
from helpers.runs import Recorder, refreshed, same_models, through
from helpers.samples import product_bound
from helpers.tables import write_npz, write_parquet
from naive import exact_class_moments

from mmpca_dist import load_model, load_moments, run
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.results.evaluation_result import result_in

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return first_run(tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize("standardize", [False, True], ids=["plain", "standardised"])
@pytest.mark.parametrize("kind", ["npz", "zarr", "parquet", "csr", "csv"])
@pytest.mark.e2e
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


@pytest.mark.e2e
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


@pytest.mark.e2e
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


@pytest.mark.e2e
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
    assert result_in(live).lead[0].endswith("first.npz and 2 more data sets: 330 rows, 5 features, 3 classes")
    assert [row["method"] for row in result_in(live).rows] == FOLLOW
    assert Path(result_in(live).report["html"]).read_text() == "a page"
    new = write_npz(tmp_path / "new.npz", X[:20], None)
    through(live, new, tmp_path / "new", methods=["m-pca0"])
    projected = zarr.open_group(str(tmp_path / "new" / "projected" / "m-pca0.zarr"), mode="r")["X"][...]
    model = load_model(live, "m-pca0")
    np.testing.assert_allclose(projected, X[:20] @ model.components_.T, rtol=1e-12, atol=1e-12)
    # It is refreshed in turn: what is in stays in, and is not taken again.
    fill(tmp_path / "inbox", names=["c"])
    manifest = refreshed(live, inbox, tmp_path / "second")
    assert [entry["name"] for entry in manifest["taken"]] == ["c.npz"] and manifest["rows"] == 400
    refreshed(base, inbox, tmp_path / "at once")
    same_models(manifest["folder"], tmp_path / "at once", FOLLOW, atol=0)
    extended = model.partial_fit(X[PARTS["c"]], Y[PARTS["c"]])
    np.testing.assert_allclose(extended.components_, load_model(str(tmp_path / "second"), "m-pca0").components_,
                               atol=1e-10)  # fmt: skip


@pytest.mark.e2e
def test_methods_that_rows_do_not_extend_are_left_out_with_the_reason(tmp_path):
    recorder = Recorder()
    base = fit(tmp_path / "base", write_npz(tmp_path / "first.npz", X[:200], Y[:200]), methods=list(METHODS))
    manifest = refreshed(base, fill(tmp_path / "inbox", names=["c"]), tmp_path / "live", recorder)
    assert set(manifest["left_out"]) == {"m-pca1b", "m-pca2"} | {name for name, needs in NEEDS.items() if needs.swept}
    assert manifest["methods"] == [name for name in METHODS if name not in manifest["left_out"]]
    assert any(note.startswith("m-pca1b is left out: the median") for note in recorder.notes)
    assert any(note.startswith("m-pca2 is left out: new rows may be nearer") for note in recorder.notes)
    assert any(note.startswith("bm2pca is left out: its fit passes over all rows") for note in recorder.notes)
    with pytest.raises(InputError, match="no method 'm-pca2'"):
        load_model(str(tmp_path / "live"), "m-pca2")


def test_a_reference_that_is_left_out_is_no_reference_of_the_refreshed_run(tmp_path):
    settings = {"methods": ["pca", "m-pca1b"], "evaluation": {"reference": "m-pca1b"}}
    base = fit(tmp_path / "base", write_npz(tmp_path / "first.npz", X[:200], Y[:200]), **settings)
    refreshed(base, fill(tmp_path / "inbox", names=["c"]), tmp_path / "live")
    assert load_model(str(tmp_path / "live"), "pca").components_.shape[1] == X.shape[1]


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
@pytest.mark.e2e
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
    (note,) = [note for note in recorder.notes if "not seen before" in note]
    assert f"b.npz brings the class {str(names[2])!r}, not seen before" in note
    same_models(tmp_path / "live", whole, FOLLOW, atol=1e-10)


@pytest.mark.e2e
def test_pooled_scatters_extend_what_their_sum_determines(tmp_path, monkeypatch, limits):
    """Their second sum is weighted by the class counts of the run's own rows: of no use for m-pca0 afterwards."""
    limits.pooled_bytes = 100
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
    same_models(tmp_path / "live", whole, manifest["methods"], atol=1e-10)
    assert manifest["methods"] == [name for name in FOLLOW if name != "m-pca0"]


@pytest.mark.e2e
def test_few_new_rows_of_one_class_and_columns_by_name(tmp_path):
    """Fewer rows than columns are no matter here; Parquet may have its columns in another order, among others."""
    first = write("parquet", tmp_path / "first", X[:350], Y[:350])
    base = fit(tmp_path / "base", first)
    order, own = [3, 0, 4, 2, 1], np.flatnonzero(Y[350:] == 1)[:3] + 350
    write_parquet(tmp_path / "few.parquet", X[own][:, order], Y[own], [NAMES[j] for j in order], id=["x", "y", "z"])
    refreshed(base, tmp_path / "few.parquet", tmp_path / "live")
    kept = np.append(np.arange(350), own)
    whole = fit(tmp_path / "whole", write_npz(tmp_path / "all.npz", X[kept], Y[kept]))
    same_models(tmp_path / "live", whole, FOLLOW, atol=1e-10)


@pytest.mark.e2e
def test_the_bits_do_not_depend_on_workers(tmp_path, monkeypatch):
    """Several spans a data set, reduced by one thread or by four."""
    monkeypatch.setattr("mmpca_dist.limits.LIMITS.unit_bytes", 25 * D * 8)
    first = write("zarr", tmp_path / "first", X[PARTS["first"]], Y[PARTS["first"]])
    inbox = fill(tmp_path / "inbox", "zarr")
    for workers in (1, 4):
        base = fit(tmp_path / f"base{workers}", first, compute={"workers": workers}, precision="single")
        refreshed(base, inbox, tmp_path / f"live{workers}")
    assert bits(tmp_path / "live1") == bits(tmp_path / "live4")


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_the_flow_tells_what_was_taken_up_and_refuses_mistakes(prefect_server, base, tmp_path):
    from mmpca_pipelines.entrypoints import refresh_flow
    from mmpca_pipelines.flows import REFUSED as NAME

    inbox = fill(tmp_path / "inbox", names=["a", "b"])
    config = {"run": base, "new": inbox, "output": str(tmp_path / "live")}
    state = refresh_flow(config, return_state=True)  # as a deployment gives it
    assert state.is_completed()
    assert state.message.startswith("170 rows taken up from a.npz, b.npz: 3 data sets with 330 rows are in. Report: ")
    found = artifacts_of(state)
    assert '"data set": "b.npz"' in found["live-taken-up"] and '"rows": 70' in found["live-taken-up"]
    assert all(method in found["live-components"] for method in FOLLOW)
    again = refresh_flow(config, return_state=True)
    assert again.is_completed() and again.message.startswith("Nothing new in ")
    nan_rows(tmp_path)
    refused = refresh_flow({**config, "new": str(tmp_path / "a.npz")}, return_state=True)
    assert refused.name == NAME and "is not what was taken up" in refused.message


@pytest.mark.e2e
def test_new_rows_are_projected_in_the_formats_of_the_run(tmp_path):
    settings = {"dataset": {"uri": "bundled:iris"}, "methods": "pca", "n_components": 2}
    run({**settings, "project": {"format": ["zarr", "parquet"]}, "output": str(tmp_path / "first")})
    both = str(tmp_path / "both")
    refreshed(tmp_path / "first", "bundled:iris?noise=1&seed=1", both)
    done = through(both, "bundled:iris", tmp_path / "dest")
    assert [Path(place).name for place in done["outputs"]] == ["pca.zarr", "pca.parquet"]
