"""Probes of erased rows are right as often as those fitted to erased rows, which neither they nor erasers saw."""

import numpy as np
import pandas as pd
import pytest
from helpers.tables import config_of
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from mmpca_dist import ConceptEraser, open_dataset, run
from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.splits import fold_splits
from mmpca_dist.jobs.records import ERASURE, PROJECT, REDUCE, SOLVE
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.results.run_result import run_result

pytestmark = pytest.mark.usefixtures("no_report")


def table(path, n, d, n_classes=4, seed=0, weights=False, counts=None):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), counts) if counts else np.arange(n) % n_classes
    X = rng.standard_normal((len(y), d)) @ rng.standard_normal((d, d)) + 2 * rng.standard_normal((n_classes, d))[y] + 30
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(d)]).assign(y=y)
    if weights:
        frame["w"] = rng.integers(0, 3, len(y)).astype(float)
    frame.to_parquet(path)
    return X, y, frame.get("w")


def settings(tmp_path, uri, folds=5, weight=None, methods=("erase",), **changes):
    weights = {} if weight is None else {"weight": weight}
    return config_of(
        tmp_path / "out", methods=list(methods), dataset={"uri": uri, "label": "y", **weights},
        evaluation={"folds": folds}, **{"n_components": [2], **changes},
    )  # fmt: skip


def fitted_probes(uri, X, y, folds=5, erase=True):
    """Return how many rows scikit-learn's probes name rightly, each fitted to rows that an eraser of others erased."""
    rows = Rows.of(open_dataset(uri, label="y"), Threads(1))
    (parts,) = fold_splits(rows, folds).codes(rows.dataset.batch(0, len(y), X=False))
    right = 0
    for test in range(folds):
        order = [(test + step) % folds for step in range(1, folds)]
        halves = np.array_split(order, 2)
        seen, probed, tested = (np.isin(parts, some) for some in (*halves, [test]))
        eraser = ConceptEraser(precision="double").fit(X[seen], y[seen])
        change = eraser.transform if erase else np.asarray
        probe = LinearDiscriminantAnalysis().fit(change(X[probed]), y[probed])
        right += np.sum(probe.predict(change(X[tested])) == y[tested])
    return right


@pytest.mark.parametrize("folds", [3, 5])
def test_probes_are_right_as_often_as_those_fitted_to_erased_rows(folds, tmp_path):
    """The same linear discriminants up to rounding: two rows of 1,500 may lie on a border, far below binomial error."""
    uri = str(tmp_path / "rows.parquet")
    X, y, _ = table(uri, 1500, 40)
    config = settings(tmp_path, uri, folds)
    right = run(config)[ERASURE]["right"]["erase"]
    assert abs(right["after"] * 1500 - fitted_probes(uri, X, y, folds)) <= 2
    assert abs(right["before"] * 1500 - fitted_probes(uri, X, y, folds, erase=False)) <= 2
    assert right["before"] > 0.9 and right["largest"] == pytest.approx(0.25, abs=0.01)
    assert right["after"] > 0.25 + 3 * np.sqrt(0.25 * 0.75 / 1500), "new rows keep what 600 rows did not show"


def test_probes_share_the_passes_of_the_run(tmp_path):
    """Bits do not depend on who makes the passes; medians are of all rows, so that the reduction is not of folds."""
    uri = str(tmp_path / "rows.parquet")
    table(uri, 900, 12)
    shared = run(settings(tmp_path / "shared", uri))
    alone = run(settings(tmp_path / "alone", uri, methods=["m-pca1b", "erase"], project={"methods": []}))
    assert shared[REDUCE]["passes"] == ["moments"] and shared[ERASURE]["passes"] == []
    assert "folds/held-out.npz" in shared[PROJECT]["outputs"]
    assert alone[ERASURE]["passes"] == ["moments", "score"]
    assert shared[ERASURE]["right"] == alone[ERASURE]["right"]


def test_more_rows_leave_less(tmp_path):
    found = []
    for n in (800, 16_000):
        uri = str(tmp_path / f"{n}.parquet")
        table(uri, n, 60)
        config = settings(tmp_path / str(n), uri)
        found.append(run(config)[ERASURE]["right"]["erase"]["after"])
    assert found[0] > found[1] + 0.03


def test_weights_count_rows_as_often(tmp_path):
    """Twice a row is not two rows of other folds, so that shares agree up to binomial error alone."""
    uri = str(tmp_path / "rows.parquet")
    X, y, w = table(uri, 3000, 10, weights=True)
    config = settings(tmp_path, uri, weight="w")
    results = run(config)
    right = results[ERASURE]["right"]["erase"]
    assert right["before"] > 0.9 and abs(right["after"] - 0.27) < 0.06
    eraser = ConceptEraser(precision="double").fit(X, y, sample_weight=w)
    covariance = results[SOLVE]["models"]["erase"]["certificate"]["covariance"]
    assert covariance["before"] == pytest.approx(eraser.certificate_["covariance"]["before"], rel=1e-9)


def test_a_class_that_parts_lack(tmp_path):
    """A class of two rows is in two folds of five: in some of the probes it does not train, and is never named."""
    uri = str(tmp_path / "rows.parquet")
    table(uri, None, 5, 3, counts=[400, 400, 2])
    right = run(settings(tmp_path, uri))[ERASURE]["right"]
    assert 0.4 < right["erase"]["after"] < 0.65


def test_result_says_three_things_and_no_more(tmp_path):
    uri = str(tmp_path / "rows.parquet")
    table(uri, 600, 10)
    run(settings(tmp_path, uri, methods=["pca", {"name": "erase", "label": "less"}], precision="single"))
    result = run_result(str(tmp_path / "out"))
    _, rows = result.tables["erasure"]
    whole = " ".join(" ".join(row.values()) for row in rows)
    assert [row[""].partition(": ")[::2] for row in rows] == [
        ("less", "covariance with the classes"), ("less", "probe of other rows"),
    ]  # fmt: skip
    assert "no linear model with a convex loss does better than a constant" in whole
    assert "linear classifier" not in whole and "single precision" in whole
    assert len(result.words) == 2
    assert "mmpca evaluate" not in str(result.next)


@pytest.mark.parametrize(
    ("changes", "n", "why"),
    [({"solver": {"kind": "krylov"}}, 300, "dense"), ({}, 20, "dense"), ({"folds": 2}, 300, "3 folds")],
    ids=["solver in passes", "wide", "two folds"],
)
def test_what_has_no_probe_says_why(changes, n, why, tmp_path):
    uri = str(tmp_path / "rows.parquet")
    table(uri, n, 30, 3)
    record = run(settings(tmp_path, uri, **changes))[ERASURE]
    assert not record["right"] and why in record["why"]


def test_an_evaluation_refuses_it(tmp_path):
    from mmpca_dist.runs.evaluate import evaluate

    uri = str(tmp_path / "rows.parquet")
    table(uri, 300, 5)
    with pytest.raises(InputError, match="erase: classifiers find nothing"):
        evaluate(settings(tmp_path, uri, methods=["pca", "erase"]))


def test_folds_are_settings_that_results_depend_on():
    def kept(**changes):
        content = {"dataset": {"uri": "bundled:iris"}, "n_components": 2, "output": "x", **changes}
        return parse_config(content, "here").settings()

    assert "evaluation" in kept(methods=["erase"]) and "evaluation" not in kept(methods=["pca"])
