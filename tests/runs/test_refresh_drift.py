"""Rows whose classes drift: a refresh tells of them, or refuses them, before they are taken in."""

import numpy as np
import pandas as pd
import pytest
from helpers.refreshing import NAMES, PARTS, X, Y, bits, fill, fit, state
from helpers.runs import Recorder, refreshed
from helpers.tables import write_npz

from mmpca_dist import class_moments, load_model, load_moments
from mmpca_dist.errors import InputError

pytestmark = pytest.mark.usefixtures("no_report")


class Alarms(Recorder):
    def __init__(self):
        super().__init__()
        self.alarms = []

    def on_alarm(self, job, dataset, words):
        self.alarms.append((job, dataset, words))


def moved_rows(part="a"):
    """Return rows of which those of class 1 are several standard deviations off in column 2."""
    rows = X[PARTS[part]].copy()
    rows[Y[PARTS[part]] == 1, 2] += 5 * X[:, 2].std()
    return rows


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A run of columns with names, whose first model is m-pca0."""
    folder = tmp_path_factory.mktemp("drift")
    pd.DataFrame(X[:160], columns=NAMES).assign(label=Y[:160]).to_parquet(folder / "first.parquet")
    return fit(folder / "run", str(folder / "first.parquet"), methods=["m-pca0", "pca"], n_components=[2])


def arrived(folder, rows, labels, name="new"):
    uri = str(folder / f"{name}.parquet")
    pd.DataFrame(rows, columns=NAMES).assign(label=labels).to_parquet(uri)
    return uri


def test_a_class_that_moved_is_noted_and_recorded(base, tmp_path):
    """The numbers are those of ``drift`` in the coordinates of the run's first model."""
    heard, labels = Alarms(), Y[PARTS["a"]]
    uri = arrived(tmp_path, moved_rows(), labels)
    entry = refreshed(base, uri, tmp_path / "live", heard)["taken"][0]
    drift = load_moments(base).drift(
        class_moments(moved_rows(), labels, precision="double"), load_model(base, "m-pca0").components_
    )
    expected = next(one for one in drift.classes if one.label == 1)
    (told,) = entry["drift"]["classes"]
    assert entry["drift"]["moved"] == [told["class"]] == ["1"]
    assert (entry["drift"]["new"], entry["drift"]["share"]) == ([], 0)
    numbers = [expected.distance, expected.statistic, expected.adjusted]
    np.testing.assert_allclose([told["distance"], told["F"], told["p"]], numbers, rtol=1e-6)
    assert told["columns"][0] == NAMES[2]
    (note,) = heard.notes
    assert note.startswith(f"{uri} drifts. The class 1 moved by ") and f"most along {NAMES[2]}, " in note
    assert heard.alarms == [("refresh", uri, note.partition("drifts. ")[2])]


def test_rows_of_the_same_distribution_are_taken_in_without_a_word(base, tmp_path):
    heard = Alarms()
    entry = refreshed(base, arrived(tmp_path, X[160:], Y[160:]), tmp_path / "live", heard)["taken"][0]
    assert entry["drift"] == {"classes": [], "moved": [], "new": [], "missing": [], "share": 0}
    assert (heard.notes, heard.alarms) == ([], [])


def test_rows_that_drift_are_refused_before_anything_is_taken_in(base, tmp_path):
    """Neither a folder is made, nor one that is there changed; the same rows are taken in when they are to be."""
    heard = Alarms()
    bad = arrived(tmp_path, moved_rows("b"), Y[PARTS["b"]], "bad")
    with pytest.raises(InputError, match=r"not taken in, as it drifts\. The class 1 moved by .*--drift note"):
        refreshed(base, bad, tmp_path / "none", heard, drift="refuse")
    assert not (tmp_path / "none").exists()
    assert [job for job, *_ in heard.alarms] == ["refresh"]
    refreshed(base, arrived(tmp_path, X[PARTS["a"]], Y[PARTS["a"]], "good"), tmp_path / "live", drift="refuse")
    kept, before = state(tmp_path / "live"), bits(tmp_path / "live")
    with pytest.raises(InputError, match="The class 1 moved"):
        refreshed(base, bad, tmp_path / "live", drift="refuse")
    assert (state(tmp_path / "live"), bits(tmp_path / "live")) == (kept, before)
    manifest = refreshed(base, bad, tmp_path / "live", drift="note")
    assert manifest["solved"] and manifest["rows"] == 330


def test_the_run_says_what_becomes_of_drift_unless_the_refresh_does(tmp_path):
    settings = {"methods": ["pca"], "refresh": {"drift": "refuse"}}
    base = fit(tmp_path / "run", write_npz(tmp_path / "first.npz", X[:160], Y[:160]), **settings)
    bad = write_npz(tmp_path / "bad.npz", moved_rows(), Y[PARTS["a"]])
    with pytest.raises(InputError, match="The class 1 moved"):
        refreshed(base, bad, tmp_path / "live")
    heard = Alarms()
    entry = refreshed(base, bad, tmp_path / "live", heard, drift="ignore")["taken"][0]
    assert (entry["drift"], heard.notes, heard.alarms) == (None, [], [])
    assert fit(tmp_path / "run", str(tmp_path / "first.npz"), methods=["pca"])  # it is the same run


def test_new_classes_and_changed_shares_are_told(base, tmp_path):
    """New classes are told by a note of their own, and refused; shares alone are noted."""
    labels, heard = np.where(Y[PARTS["a"]] == 0, 7, Y[PARTS["a"]]), Alarms()
    uri = arrived(tmp_path, X[PARTS["a"]], labels, "new")
    with pytest.raises(InputError, match="New: '7', which the run has not seen"):
        refreshed(base, uri, tmp_path / "live", heard, drift="refuse")
    assert len(heard.notes) == 1 and "'7', not seen before" in heard.notes[0]
    rows = np.concatenate([np.flatnonzero(Y[160:] == 0), np.flatnonzero(Y[160:] == 2)[:10]]) + 160
    shares = Alarms()
    taken = refreshed(base, arrived(tmp_path, X[rows], Y[rows], "few"), tmp_path / "live", shares, drift="refuse")
    assert taken["taken"][0]["drift"]["share"] > 0.3
    (note,) = shares.notes
    assert "The shares of the classes changed by " in note and shares.alarms == []


def test_moments_that_do_not_tell_are_taken_in_with_a_word_where_drift_is_refused(tmp_path):
    """Weights that are no counts leave no degrees of freedom."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X, columns=NAMES).assign(label=Y, w=rng.uniform(0.5, 2, len(X)))
    frame[:160].to_parquet(tmp_path / "first.parquet")
    frame[160:].to_parquet(tmp_path / "new.parquet")
    dataset = {"uri": str(tmp_path / "first.parquet"), "weight": "w"}
    base = fit(tmp_path / "run", dataset["uri"], methods=["pca"], dataset=dataset)
    heard = Alarms()
    for output, drift in (("noted", "note"), ("refused", "refuse")):
        refreshed(base, tmp_path / "new.parquet", tmp_path / output, heard, drift=drift)
    (note,) = heard.notes
    assert "is taken in unchecked: its moments do not tell" in note


def test_drift_of_standardised_columns_with_gaps_and_covariates(tmp_path):
    """Moments of widened rows are compared as the models see them."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal(len(X))
    rows = X + np.outer(z, np.arange(1, 6))
    rows[rng.random(X.shape) < 0.05] = np.nan
    moved = rows.copy()
    moved[Y == 1, 2] += 5 * X[:, 2].std()
    for name, each in (("first", rows[:160]), ("same", rows[160:]), ("moved", moved[160:])):
        part = slice(0, 160) if name == "first" else slice(160, None)
        pd.DataFrame(each, columns=NAMES).assign(label=Y[part], z=z[part]).to_parquet(tmp_path / f"{name}.parquet")
    dataset = {"uri": str(tmp_path / "first.parquet"), "covariates": ["z"], "missing": "mean"}
    base = fit(tmp_path / "run", dataset["uri"], methods=["m-pca0"], dataset=dataset, standardize=True)
    for name, expected in (("same", []), ("moved", ["1"])):
        entry = refreshed(base, tmp_path / f"{name}.parquet", tmp_path / f"live-{name}")["taken"][0]
        assert entry["drift"]["moved"] == expected


@pytest.mark.e2e
def test_an_inbox_keeps_what_came_before_the_rows_that_are_refused(base, tmp_path):
    inbox = tmp_path / "inbox"
    fill(inbox, "parquet", names=["a"])
    arrived(inbox, moved_rows("b"), Y[PARTS["b"]], "b")
    with pytest.raises(InputError, match=r"b\.parquet is not taken in"):
        refreshed(base, inbox, tmp_path / "live", drift="refuse")
    (inbox / "b.parquet").unlink()
    assert refreshed(base, inbox, tmp_path / "live", drift="refuse")["rows"] == 260
