"""Nothing of the rows held out is in what is fitted: whatever they and their labels are, it is the same to the bit."""

from collections import defaultdict
from dataclasses import fields

import joblib
import numpy as np
import pytest
from helpers.evaluating import KNN, by_cell, scored
from helpers.samples import batch_of
from helpers.tables import config_of, counts_like_text, labelled, write_npz

from mmpca_dist.evaluation import engine, reduced_rows
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.neighbors import pair_folds, pair_statistics
from mmpca_dist.runs import evaluation_scores

NESTED = {"name": "svm", "C": "nested", "label": "nested"}
CLASSIFIERS = ["fisher", "naive-bayes", "svm", NESTED, KNN]
IN_PASSES = ["pca", "m-pca0", "m-pca1a", "m-pca2", "fisher", "hsic", "lol", "fisher-score", "random-projection"]
EVALUATED = [name for name in METHODS if name != "erase"]  # of which a run has a probe
PARTS = np.asarray(["a", "b", "c"])[np.random.default_rng(0).integers(3, size=60)]


class Fitted:
    """Hashes of what is fitted to the rows that train, of each kind in the order of the parts held out."""

    def __init__(self, patch):
        self.found = defaultdict(list)
        self._watch(patch, engine, "fit_reductions", self._reductions)
        self._watch(patch, reduced_rows, "score", lambda scores: self._keep("from rows", scores.fitted))
        self._watch(patch, engine, "make_scorer", lambda scorer: self._keep("from moments", scorer))
        for module in (pair_folds, pair_statistics):
            self._watch(patch, module, "add_pairs", lambda _, own, neighbors: self._nearest(neighbors))

    @staticmethod
    def _watch(patch, module, name, tell):
        function = getattr(module, name)

        def watched(*given, **options):
            found = function(*given, **options)
            tell(found, *given[: tell.__code__.co_argcount - 1 - hasattr(tell, "__self__")])
            return found

        patch.setattr(module, name, watched)

    def _keep(self, kind, *values):
        self.found[kind].append(joblib.hash(values))

    def _reductions(self, reductions, statistics):
        for name in {field.name for field in fields(statistics)} - {"pairs", "fits"}:
            self._keep(name, getattr(statistics, name))
        (pairs,) = statistics.pairs.values() or (None,)
        self._keep("pairs", *((pairs.scatter, pairs.counts) if pairs else ()))
        if statistics.fits:
            self._keep("fits", *statistics.fits.values())
        self._keep("directions", reductions.matrix, reductions.mean, [item.columns for item in reductions.items])

    def _nearest(self, neighbors):
        queries, *found = neighbors.arrays()
        self._keep("neighbours", *(array[np.argsort(queries)] for array in (queries, *found)))


def fitted_and_errors(config):
    with pytest.MonkeyPatch.context() as patch:
        fitted = Fitted(patch)
        records, *_ = scored(config)
    return fitted.found, by_cell(records)


BY_FOLDS = {"name": "fisher", "shrinkage": "auto", "label": "by-folds"}
"""The shrinkage that rows choose which train."""


def changed(X, y, chosen=PARTS == "b"):
    """Return rows and labels of which the chosen ones are others altogether."""
    rng, X, y = np.random.default_rng(1), X.copy(), y.copy()
    X[chosen] = np.round(1e5 * rng.standard_normal((chosen.sum(), X.shape[1])))
    y[chosen] = rng.permutation(y[chosen])
    return X, y


def one_value_changed(X, y):
    """Return rows of which one that trains while part b is held out is a little different."""
    X = X.copy()
    X[np.flatnonzero(PARTS == "a")[0], 0] += 0.5
    return X, y


def of_each(tmp_path, tables, *, held_out="b", sparse=False, **changes):
    """Yield, of each of several tables of rows and labels, what is fitted while part b is held out, and the errors."""
    np.save(tmp_path / "parts.npy", PARTS)
    evaluation = {"splits": "given", "column": str(tmp_path / "parts.npy"), "held_out": held_out,
                  "classifiers": CLASSIFIERS, "margins": False}  # fmt: skip
    for number, rows in enumerate(tables):
        uri = write_npz(tmp_path / f"{number}.npz", *rows, sparse=sparse)
        settings = {"evaluation": evaluation, "n_components": [1, 3], **changes}
        found, errors = fitted_and_errors(config_of(tmp_path / str(number), uri, **settings))
        assert all(len(hashes) == (3 if held_out is None else 1) for hashes in found.values())
        yield {kind: hashes[held_out is None] for kind, hashes in found.items()}, errors


def assert_blind(tmp_path, X, y, **settings):
    """Return the kinds of things that are the same, whatever is in part b."""
    (fitted, errors), (again, others) = of_each(tmp_path, [(X, y), changed(X, y)], **settings)
    assert fitted == again
    assert errors != others
    return set(fitted)


@pytest.mark.parametrize(
    ("held_out", "standardize"), [pytest.param(None, False, marks=pytest.mark.slow), (None, True), ("b", True)]
)
@pytest.mark.e2e
def test_moments_that_are_merged(held_out, standardize, monkeypatch, tmp_path):
    """Nearest rows come from one search for all three parts, or from one of the rows that train."""
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (True, False))
    X, y = labelled(60, 6, 3, seed=7, separation=0.5)
    methods = [name for name in EVALUATED if not METHODS[name].reducer(None, METHODS[name].options()).needs().swept]
    kinds = assert_blind(tmp_path, X, y, held_out=held_out, standardize=standardize, methods=[*methods, BY_FOLDS])
    assert {"medians", "neighbours", "from moments"} <= kinds


@pytest.mark.parametrize(("d", "standardize"), [(6, True), pytest.param(70, False, marks=pytest.mark.e2e)])
def test_rows_in_memory(d, standardize, tmp_path):
    """More rows than columns, and fewer."""
    X, y = labelled(60, d, 3, seed=7, separation=0.5)
    assert_blind(tmp_path, X, y, standardize=standardize, methods=[*EVALUATED, BY_FOLDS])


@pytest.mark.parametrize("merging", [True, False])
def test_a_nested_penalty_is_blind_to_the_rows_held_out_and_one_chosen_on_all_rows_is_not(
    merging, monkeypatch, tmp_path
):
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merging, not merging))
    np.save(tmp_path / "parts.npy", PARTS)
    rows, found = labelled(60, 6, 2, seed=7, separation=0.5), []
    for number, table in enumerate([rows, changed(*rows)]):
        evaluation = {"splits": "given", "column": str(tmp_path / "parts.npy"), "held_out": "b", "margins": False,
                      "classifiers": [NESTED, {"name": "svm", "C": "auto"}]}  # fmt: skip
        uri = write_npz(tmp_path / f"{number}.npz", *table)
        config = config_of(tmp_path / str(number), uri, n_components=[1, 3], evaluation=evaluation)
        (record,), _, results = scored(config)
        nested = [line["C"] for line in record["errors"] if line["classifier"] == "nested"]
        found.append((nested, results["tune"]["penalties"]))
    (nested, chosen), (again, other) = found
    assert nested == again and len(nested) == 2 * 2
    assert list(chosen) == ["svm"] and chosen != other


@pytest.mark.parametrize("merging", [True, False])
def test_a_value_that_trains_changes_everything(merging, monkeypatch, tmp_path):
    """What the tests above compare does depend on rows."""
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merging, not merging))
    X, y = labelled(60, 4, 3, seed=7, separation=0.5)
    tables, changes = (
        [(X, y), one_value_changed(X, y)],
        {"standardize": True, "methods": ["pca", "m-pca2", *([] if merging else ["bm2pca"])]},
    )
    (fitted, _), (others, _) = of_each(tmp_path, tables, **changes)
    assert {"moments", "mean", "scale", "pairs", "directions", "from rows"} <= set(fitted)
    assert merging or "fits" in fitted
    same = {kind for kind in fitted if fitted[kind] == others[kind]}
    # There are no medians, gaps, weights of classes, groups, and shrinkages that rows choose.
    assert same <= {"medians", "precision", "adjustment", "subtracted", "class_weight", "cells", "shrinkages"}


@pytest.mark.e2e
def test_sparse_rows_by_a_solver_in_passes(tmp_path):
    _, X, y = counts_like_text(60, 8, 3, seed=4, dtype="float64", share=0.5)
    solver = {"kind": "krylov", "passes": 6, "oversampling": 5}
    assert_blind(tmp_path, X, y, sparse=True, methods=IN_PASSES, solver=solver)


TIMES = np.random.default_rng(3).permutation(60)


def by_column(tmp_path, tables, values, evaluation, methods):
    """Yield, of each of several tables, what is fitted of each kind, part after part."""
    np.save(tmp_path / "column.npy", values)
    others = {"column": str(tmp_path / "column.npy"), "classifiers": CLASSIFIERS, "margins": False}
    for number, rows in enumerate(tables):
        uri = write_npz(tmp_path / f"{number}.npz", *rows)
        settings = {"methods": methods, "n_components": [1, 3], "evaluation": {**evaluation, **others},
                    "compute": {"workers": 1}}  # fmt: skip
        yield fitted_and_errors(config_of(tmp_path / str(number), uri, **settings))[0]


METHODS_BY_MODE = {
    True: ["pca", "m-pca0", "m-pca1b", "m-pca2", "fisher"],
    False: ["pca", "m-pca1b", "m-pca2", "projection-penalty"],
}
"""By whether moments are merged."""


def assert_unchanged(fitted, again, n_parts, expected):
    """What is fitted is the same while so many of the parts are held out, of which tasks take any first."""
    assert {"moments", "directions", "from rows", "medians"} <= set(fitted)
    same = [number for number in range(n_parts) if fitted["moments"][number] == again["moments"][number]]
    assert len(same) == expected
    for kind, hashes in fitted.items():
        assert len(hashes) == n_parts
        assert all(hashes[number] == again[kind][number] for number in same), kind


@pytest.mark.e2e
@pytest.mark.parametrize("merging", [True, False])
def test_groups_that_are_held_out(merging, monkeypatch, tmp_path):
    """Folds of one group each: while the rows of a group are held out, nothing fitted depends on them."""
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merging, not merging))
    X, y = labelled(60, 6, 3, seed=7, separation=0.5)
    groups = np.random.default_rng(0).integers(6, size=60)
    config = config_of(tmp_path / "codes", write_npz(tmp_path / "codes.npz", X, y), evaluation={
        "splits": "groups", "column": str(tmp_path / "column.npy"), "folds": 3})  # fmt: skip
    np.save(tmp_path / "column.npy", groups)
    ((codes,),) = [splits.codes(batch_of(y)) for _, splits, _ in [scored(config)]]
    tables = [(X, y), changed(X, y, codes == 1)]
    fitted, again = by_column(tmp_path, tables, groups, {"splits": "groups", "folds": 3}, METHODS_BY_MODE[merging])
    assert_unchanged(fitted, again, 3, 1)


@pytest.mark.parametrize("later", [20, 40])
@pytest.mark.parametrize("merging", [True, False])
@pytest.mark.e2e
def test_rows_that_are_later(later, merging, monkeypatch, tmp_path):
    """Neither the window held out nor those after it are in what is fitted to the rows before."""
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merging, not merging))
    X, y = labelled(60, 6, 3, seed=7, separation=0.5)
    tables = [(X, y), changed(X, y, 60 - later <= TIMES)]
    fitted, again = by_column(tmp_path, tables, TIMES, {"splits": "time", "windows": 2}, METHODS_BY_MODE[merging])
    assert_unchanged(fitted, again, 2, 2 if later == 20 else 1)
