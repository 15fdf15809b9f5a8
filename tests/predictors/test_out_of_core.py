"""Evaluations whose reduced rows are more than memory: classifiers that learn block by block, and what refuses."""

from concurrent.futures import ThreadPoolExecutor

import dask
import numpy as np
import pytest
from helpers.evaluating import KNN, by_cell, scored, timeless
from helpers.resuming import small_units
from helpers.tables import config_of, labelled, write_zarr
from helpers.watching import watched

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import fit_rows, linear_parts
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.tables.readers.zarr_dense import ZarrRows

LOGISTIC = {"name": "dask-logistic", "C": 0.1, "bias": True, "options": {"tol": 1e-3}}
ROWS, CHUNK = 400, 90
CLASSIFIERS = ["fisher", "incremental", LOGISTIC]


@pytest.fixture
def rows(tmp_path, limits, monkeypatch):
    """Chunks that are reading units, and blocks of rows that train which begin and end inside them."""
    limits.training_block_rows, limits.direct_bytes = 64, 0
    small_units(monkeypatch, unit_bytes=CHUNK * 5 * 8)
    X, y = labelled(ROWS, 5, 2, seed=1, separation=0.5)
    write_zarr(tmp_path / "rows.zarr", X, np.asarray(["elm", "oak"])[y], CHUNK)
    return tmp_path


def evaluated(rows, name, classifiers=CLASSIFIERS, **changes):
    evaluation = {"splits": "folds", "folds": 2, "classifiers": classifiers}
    return scored(config_of(rows / name, rows / "rows.zarr", n_components=[1, 3], evaluation=evaluation, **changes))


def assert_alike(records, expected):
    """The same errors, and margins up to the rounding of sums in another order."""
    assert by_cell(records) == by_cell(expected)
    for found, other in zip(records, expected, strict=True):
        assert len(found["margins"]) == len(other["margins"]) > 0
        for line, known in zip(found["margins"], other["margins"], strict=True):
            assert line["method"] == known["method"] and line["classifier"] == known["classifier"]
            np.testing.assert_allclose(line["quantiles"], known["quantiles"], rtol=1e-4, atol=1e-5)


def among(record, classifiers):
    """Return the record of a split without the lines of other classifiers."""
    names = {ClassifierSection.model_validate(each).label for each in classifiers}
    lines = {part: [line for line in record[part] if line["classifier"] in names] for part in ("errors", "margins")}
    return record | lines


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.e2e)])
def test_errors_are_those_of_rows_in_memory(every, rows, monkeypatch):
    """Blocks are the same, wherever they come from; of the larger limit, single components are gathered."""
    with monkeypatch.context() as patched:
        patched.setattr(evaluation_scores, "route", lambda *_: (False, True))
        patched.setattr(LIMITS, "direct_bytes", 1 << 20)
        # Logistic regression takes as long as all else.
        expected, _, _ = evaluated(rows, "direct", CLASSIFIERS if every else CLASSIFIERS[:2])
    monkeypatch.setattr(evaluation_scores, "read_all", pytest.fail)
    for limit in (1 << 30, 8 * ROWS * 2, 1) if every else (8 * ROWS * 2,):  # the second has rows from both places
        monkeypatch.setattr(LIMITS, "gathered_bytes", limit)
        classifiers = CLASSIFIERS if every and limit == 8 * ROWS * 2 else CLASSIFIERS[:2]
        records, _, results = evaluated(rows, f"limit {limit}", classifiers)
        assert_alike(records, [among(record, classifiers) for record in expected])
        names = results["score"]["passes"]
        assert (names.count("gather"), names.count("classify")) == (limit > 1, limit < 1 << 30)
    assert sum(line["errors"] for record in records for line in record["errors"]) > 50


@pytest.mark.e2e
def test_passes_are_told_and_read_every_row_once_with_the_same_bits_for_any_workers(rows, monkeypatch, limits):
    read = watched(monkeypatch, ZarrRows, "read", lambda found, *_, **__: len(found))
    limits.gathered_bytes = 1
    one, _, results = evaluated(rows, "one", compute={"workers": 1})
    names = results["score"]["passes"]
    assert names.count("fit") > 2 * 2 * (1 + 2)  # folds and sizes, of which a logistic regression takes some steps
    assert sum(read) == ROWS * len(names)
    assert results["score"]["bytes"] == ROWS * 5 * 8 * len(names)
    three, _, _ = evaluated(rows, "three", compute={"workers": 3})
    assert timeless(three) == timeless(one)


@pytest.mark.parametrize(("classifiers", "name"), [(["incremental", "svm"], "svm"), (["fisher", KNN], "knn")])
def test_others_are_refused_before_errors_are_counted(classifiers, name, rows, limits):
    limits.gathered_bytes = 8 * ROWS
    told = f"In split 0: 400 rows of 3 components are .* {name} may be fitted to. .*incremental, dask-logistic"
    with pytest.raises(InputError, match=told):
        evaluated(rows, "refused", classifiers)


@pytest.mark.parametrize("user", [{}, {"scheduler": "threads", "num_workers": 3}])
@pytest.mark.e2e
def test_fits_side_by_side_leave_dask_as_it_was(user):
    Z, y = labelled(300, 3, 2, seed=2)

    def fit(name):
        return linear_parts(fit_rows(ClassifierSection(name=name), Z, y))[0].tobytes()

    names = ["incremental", "dask-logistic"] * 8
    with dask.config.set(user):
        before = {name: dask.config.get(name, None) for name in ("scheduler", "num_workers")}
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(fit, names))
        assert {name: dask.config.get(name, None) for name in before} == before
    assert found == [fit(name) for name in names]


def test_parts_share_passes_as_memory_permits_with_the_same_bits(rows, limits):
    """Eight columns of each of three parts, and all 20 columns: all at once, all but some, or fewer parts at a time."""
    classifiers = ["fisher", "svm", KNN]
    evaluation = {"splits": "folds", "folds": 3, "classifiers": classifiers}
    found, passes = [], []
    for columns in (44, 28, 24, 16, 8):
        limits.gathered_bytes = 8 * ROWS * columns
        config = config_of(
            rows / f"{columns}", rows / "rows.zarr",
            methods=["pca", "m-pca0"], n_components=[3, 4], evaluation=evaluation,
        )  # fmt: skip
        records, _, results = scored(config)
        found.append(timeless(records))
        passes.append(results["score"]["passes"].count("gather"))
    assert all(other == found[0] for other in found[1:])
    assert passes == [1, 2, 2, 3, 6]
