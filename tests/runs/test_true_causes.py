"""Refusals and notes name the cause: what was asked for, columns that are constant, the file that was given."""

import numpy as np
import pandas as pd
import pytest
from helpers.runs import Recorder, refreshed
from helpers.tables import config_of, write_parquet
from sklearn.datasets import load_digits

from mmpca_dist import FisherDiscriminant, MarginPCA, load_model, run
from mmpca_dist.errors import InputError

RNG = np.random.default_rng(6)
Y = np.arange(300) % 3


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("asked", [2, [1, 2]])
def test_more_components_than_were_asked_for(asked, tmp_path):
    X = RNG.normal(size=(300, 9)) + Y[:, None]
    run(config_of(tmp_path / "out", write_parquet(tmp_path / "t.parquet", X, Y), methods=["m-pca0", "fisher"],
                  n_components=asked))  # fmt: skip
    with pytest.raises(
        InputError, match=r"n_components=7: m-pca0 .* has 2 components \(as many as its run asked for\)"
    ):
        load_model(str(tmp_path / "out"), "m-pca0", n_components=7)


@pytest.mark.usefixtures("no_report")
def test_the_limit_is_the_cause_where_it_is(tmp_path):
    X = RNG.normal(size=(300, 9)) + Y[:, None]
    run(config_of(tmp_path / "out", write_parquet(tmp_path / "t.parquet", X, Y), methods=["fisher"], n_components=6))
    with pytest.raises(
        InputError, match=r"n_components=7: fisher .* has 2 components \(the number of classes less one"
    ):
        load_model(str(tmp_path / "out"), "fisher", n_components=7)


def noise(*more):
    return np.column_stack([RNG.normal(size=(300, 6)), *more])


CONSTANT = {
    "digits": (load_digits().data, load_digits().target, 3),
    "zeros": (noise(np.zeros(300)), Y, 1),
    "far": (noise(np.full(300, 1e9), np.full(300, -3.3)), Y, 2),
    "integers": (noise(np.full(300, 7)).round(3), Y, 1),
    "indicators of one level": (noise(np.ones((300, 2))), Y, 2),
}


@pytest.mark.parametrize("case", list(CONSTANT))
def test_constant_columns_are_named_as_the_cause(case):
    X, y, count = CONSTANT[case]
    what = f"less {count} constant column{'s' if count > 1 else ''}"
    for precision in ("single", "double"):
        with pytest.raises(InputError, match=what) as caught:
            MarginPCA(100, "pca", precision=precision).fit(X, y)
        assert "standardise" not in str(caught.value)
        assert f"than the {X.shape[1] - count} components" in str(caught.value)


def test_standardising_is_advised_only_where_scales_differ():
    far = noise(1e-7 * RNG.normal(size=300))
    with pytest.raises(InputError, match="Columns of very different scale lose some: standardise them"):
        MarginPCA(7, "pca").fit(far, Y)
    dependent = noise()
    with pytest.raises(InputError, match="zero up to rounding") as caught:
        MarginPCA(7, "pca").fit(np.column_stack([dependent, dependent[:, 0]]), Y)
    assert "standardise" not in str(caught.value)
    assert MarginPCA(7, "pca", standardize=True).fit(far, Y).components_.shape == (7, 7)


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("kind", ["new class", "left out", "unseen text"])
def test_notes_of_a_refresh_name_the_text_that_was_given(kind, tmp_path):
    frame = (
        pd.DataFrame(noise())
        .add_prefix("x")
        .assign(site=RNG.choice(["u", "v"], 300), label=np.asarray(["a", "b", "c"])[Y])
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    dataset = {"unlabelled": "skip"}
    run(config_of(tmp_path / "out", tmp_path / "t.csv", dataset=dataset, methods=["pca"], n_components=2))
    new = frame[:60].copy()
    if kind == "new class":
        new.loc[:20, "label"] = "other"
    if kind == "left out":
        new.loc[:20, "label"] = None
    if kind == "unseen text":
        new.loc[:20, "site"] = "w"
    new.to_csv(tmp_path / "new.csv", index=False)
    told = Recorder()
    refreshed(tmp_path / "out", tmp_path / "new.csv", tmp_path / "live", told)
    notes = [note for note in told.notes if "not seen before" in note or "left out" in note or "w" in note]
    assert notes and not any("parquet" in note for note in notes), told.notes
    assert kind == "unseen text" or any("new.csv" in note for note in notes)


def buried(n, d, classes, seed=0):
    """Return rows whose classes differ in directions that hold a hundredth of the scatter."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    means = np.zeros((classes, d))
    means[:, :3] = rng.normal(size=(classes, 3))
    rows = rng.normal(size=(n, d)) * np.where(np.arange(d) < 3, 0.1, 4) + means[y]
    return rows @ np.linalg.qr(rng.normal(size=(d, d)))[0], y


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (*buried(1000, 20, 5), True), (*buried(1500, 60, 40), True), (*buried(600, 10, 3), True),
        (noise() + 2.0 * Y[:, None], Y, False), (*(load_digits().data, load_digits().target), False),
        (RNG.normal(size=(60, 40)), np.arange(60) % 20, False),
        *((np.random.default_rng(seed).normal(size=(600, 19)), np.arange(600) % 3, False) for seed in range(8)),
    ],
)  # fmt: skip
def test_a_run_says_that_classes_lie_within_a_small_share(X, y, says, tmp_path):
    uri = write_parquet(tmp_path / "t.parquet", X, y)
    notes = run(config_of(tmp_path / "out", uri, methods=["pca"], n_components=1, standardize=False))["solve"]["notes"]
    assert any(note.startswith("The classes lie within a small share of the scatter") for note in notes) is says
    if says:
        assert FisherDiscriminant(1).fit(X, y).eigenvalues_[0] > 1
