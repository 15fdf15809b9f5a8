"""Intervals of one error by nested folds: beside the algorithm row by row, refused, and how often they hold."""

from typing import NamedTuple

import naive_evaluation
import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.evaluating import scored, timeless, with_all_columns
from helpers.tables import config_of, labelled, write_npz, write_parquet
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import ConfigError, InputError
from mmpca_dist.evaluation import engine, scorers
from mmpca_dist.evaluation.comparisons import LEVEL, nested_interval
from mmpca_dist.evaluation.request import Classifiers, EvaluationRequest
from mmpca_dist.evaluation.splits import fold_splits
from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.evaluation.training import merged_moments
from mmpca_dist.methods.all_columns import METHOD
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.runs.evaluate import evaluate, preview_evaluation
from mmpca_dist.tables.readers.memory import rows_in_memory

NESTED = ("inner_errors", "effective_rows")
"""What lines of a split have for intervals alone."""


def asked(tmp_path, name, uri, **changes):
    """Return a configuration with intervals; ``changes`` of its section evaluation go before others."""
    evaluation = {"splits": "folds", "folds": 3, "classifiers": ["lda"], "margins": False, "intervals": True}
    evaluation |= changes.pop("evaluation", {})
    return config_of(
        tmp_path / name, uri, **{"methods": ["pca"], "n_components": [2], "evaluation": evaluation, **changes}
    )


@pytest.mark.parametrize(
    ("n_classes", "weighted", "folds", "count"),
    [(2, False, 3, 1), (2, True, 4, 2), (3, False, 5, 1), (3, True, 3, 2), (2, False, 4, 3), (3, True, 5, 1)],
)
def test_intervals_are_those_of_the_algorithm_row_by_row(n_classes, weighted, folds, count, tmp_path):
    X, y = labelled(84, 4, n_classes, seed=folds, separation=0.5)
    weights = np.random.default_rng(7).integers(1, 4, len(y)) if weighted else np.ones(len(y), int)
    uri = write_parquet(tmp_path / "rows.parquet", X, y, size=13, **({"w": weights} if weighted else {}))
    config = asked(
        tmp_path, "out", uri, methods=["pca", "m-pca0", "m-pca1a"], n_components=[1, 3],
        dataset={"weight": "w"} if weighted else {},
        evaluation={"folds": folds, "count": count, "classifiers": ["fisher", "lda", "naive-bayes", "qda"]},
    )  # fmt: skip
    records, splits, _ = scored(config)
    sections = {section.label: section for section in with_all_columns(config).methods}
    specs = {spec.label: spec for spec in config.evaluation.classifiers}
    cells = ErrorTable.of(records, len(y)).cells()
    assert len(cells) == 3 * 2 * 4  # qda without a penalty leaves all columns out
    compared = 0
    for cell in cells[:: 1 if folds * count < 6 else 3]:
        section, spec = sections[cell.method], specs[cell.classifier]
        expected, doubtful = naive_evaluation.interval(X, y, weights, splits, section, cell.n_components, spec)
        if not doubtful:
            np.testing.assert_allclose(cell.interval, expected, rtol=1e-9, atol=1e-9, err_msg=str(cell.key))
            compared += 1
    assert compared >= 8


def test_nothing_else_depends_on_them(monkeypatch, tmp_path):
    """And of two classes ranks are of models that train on all other folds alone, whose scores alone take memory."""
    monkeypatch.setattr(scorers, "RANKED_BYTES", 8 * 60 * 2)
    X, y = labelled(60, 4, 2, seed=1, separation=0.5)
    uri = write_parquet(tmp_path / "rows.parquet", X, y, size=13)
    plain, *_ = scored(asked(tmp_path, "plain", uri, evaluation={"intervals": False, "margins": True}))
    nested, _, _ = scored(asked(tmp_path, "nested", uri, evaluation={"margins": True}))
    assert all("auc" in line and NESTED[0] not in line for record in plain for line in record["errors"])
    for record, other in zip(nested, plain, strict=True):
        assert record.pop("key") != other.pop("key")
        for line in record["errors"]:
            assert line.pop(NESTED[0]) >= 0 and line.pop(NESTED[1]) == record["rows"] == 20
    assert timeless(nested) == timeless(plain)
    assert all(cell.interval is None for cell in ErrorTable.of(plain, 60).cells())


def test_sums_of_scatters_serve_them(limits, merging, tmp_path):
    """But for m-pca0, whose sums are of the classes of what trains, and weights of classes."""
    merging("")
    X, y = labelled(90, 4, 3, seed=1, separation=0.5)
    uri = write_npz(tmp_path / "rows.npz", X, y)
    plain, *_ = scored(asked(tmp_path, "plain", uri))
    limits.pooled_bytes = 0
    pooled, *_ = scored(asked(tmp_path, "pooled", uri))
    assert [record["errors"] for record in pooled] == [record["errors"] for record in plain]
    many = write_npz(tmp_path / "many.npz", np.random.default_rng(0).standard_normal((200, 4)), np.arange(200) % 20)
    for label, changes in (("m-pca0", {"methods": ["m-pca0", "pca"]}), ("class_weight", {"class_weight": "balanced"})):
        with pytest.raises(InputError, match=rf"cannot be had here: {label}: needs more than moments, so leave it out"):
            preview_evaluation(asked(tmp_path, "many", many, **changes))


def test_records_do_not_depend_on_the_workers(tmp_path):
    X, y = labelled(90, 4, 3, seed=1, separation=0.5)
    weights = np.random.default_rng(0).random(90) + 0.1
    uri = write_parquet(tmp_path / "rows.parquet", X, y, size=13, w=weights)
    found = [
        timeless(scored(asked(tmp_path, str(n), uri, dataset={"weight": "w"}, compute={"workers": n}))[0])
        for n in (1, 2)
    ]
    assert found[0] == found[1]
    assert any("effective_rows" in line for record in found[0] for line in record["errors"])


def test_tables_and_the_report_have_them_where_asked_for(tmp_path):
    X, y = labelled(60, 4, 2, seed=1, separation=0.5)
    uri = write_npz(tmp_path / "rows.npz", X, y)
    tables, pages = {}, {}
    for name, intervals in (("with", True), ("without", False)):
        result = evaluate(asked(tmp_path, name, uri, evaluation={"intervals": intervals}))
        folder = tmp_path / name / "evaluation"
        tables[name] = pq.read_table(folder / "tables" / "cells.parquet").to_pylist()
        pages[name] = (folder / "report" / "index.html").read_text()
        about, heading, *rows = result["compare"]["tables"]["cells"]
        assert ("90% intervals" in about) == intervals
        assert all((" to " in row[heading.index("lda")]) == intervals for row in rows)
        errors = pq.read_table(folder / "tables" / "errors.parquet").schema.names
        assert all((column in errors) == intervals for column in NESTED)
    for cell, plain in zip(tables["with"], tables["without"], strict=True):
        assert 0 <= cell["interval_low"] < cell["interval_high"] <= 100
        assert f"{cell['interval_low']:.1f} to {cell['interval_high']:.1f}" in pages["with"]
        assert plain == {**cell, "interval_low": None, "interval_high": None}
    assert "90% interval" in pages["with"] and "90% interval" not in pages["without"]


@pytest.mark.parametrize(
    ("evaluation", "message"),
    [
        ({"splits": "shares"}, "evaluation.intervals is of splits: folds, and has no effect on splits: shares"),
        ({"folds": 2}, r"intervals take three folds or more, and classifiers from moments alone; there are 2\."),
        ({"classifiers": ["lda", "svm"]}, r"classifiers from moments alone; svm is fitted to rows\."),
    ],
)
def test_settings_that_do_not_go_with_them_are_refused(evaluation, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        settings = {"splits": "folds", "classifiers": ["lda"], "intervals": True, **evaluation}
        config_of(tmp_path / "out", "bundled:iris", evaluation=settings)


def refused(kind, tmp_path):
    """Return a configuration of rows or methods whose moments of folds do not tell errors of nested folds."""
    X, y = labelled(60, 4, 3, seed=1)
    if kind == "medians":
        return asked(tmp_path, "out", write_npz(tmp_path / "rows.npz", X, y), methods=["pca", "m-pca1b", "m-pca2"])
    if kind == "sparse":
        return asked(tmp_path, "out", write_npz(tmp_path / "rows.npz", X * (X > 3), y, sparse=True))
    if kind == "wide":  # more rows than columns train while one fold is left out, and fewer while two are
        X = np.random.default_rng(0).standard_normal((60, 30))
        return asked(tmp_path, "out", write_npz(tmp_path / "rows.npz", X, y))
    if kind == "a class":
        y = np.where(np.arange(60) < 58, y % 2, 2)
        return asked(tmp_path, "out", write_npz(tmp_path / "rows.npz", X, y))
    uri = write_parquet(tmp_path / "rows.parquet", X, t=X[:, 0])
    return asked(tmp_path, "out", uri, dataset={"target": "t"})


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("medians", "m-pca1b, m-pca2: needs more than moments, so leave it out"),
        ("sparse", "they merge moments of folds, which sparse rows, sweeps, "),
        ("wide", "solvers in passes, and few rows of many columns or classes do without"),
        ("a class", "with two folds left out, a class has no row that trains"),
        ("numbers", "they are of errors of classes, and there are numbers to predict"),
    ],
)
def test_what_moments_do_not_tell_is_refused_before_work(kind, message, tmp_path):
    with pytest.raises(InputError, match=f"evaluation.intervals cannot be had here: .*{message}.*"):
        preview_evaluation(refused(kind, tmp_path))


def test_the_plan_counts_models_that_coexist(tmp_path):
    """Five folds make 15 models, of ten pairs and of the folds."""
    X, y = labelled(200, 30, 2, seed=1)
    uri = write_npz(tmp_path / "rows.npz", X, y)
    plain, nested = (
        preview_evaluation(asked(tmp_path, name, uri, evaluation={"folds": 5, "intervals": name == "nested"}))
        for name in ("plain", "nested")
    )
    assert (plain.fits, nested.fits) == (5, 15)
    assert nested.memory > plain.memory


def test_intervals_stay_between_the_naive_one_and_root_k_times_it():
    """Where folds and their inner folds agree, where they do not, and without an error."""
    rows, training = np.full(4, 25), np.full(4, 75)
    reach = 100 * ndtri((1 + LEVEL) / 2) * np.sqrt(0.2 * 0.8 / 99)
    for errors, factor in (([5, 5, 5, 5], 1), ([0, 10, 0, 10], 2)):
        low, high = nested_interval(errors, np.full(4, 15), rows, training, rows)
        assert (high + low) / 2 == pytest.approx(20) and (high - low) / 2 == pytest.approx(factor * reach)
    assert nested_interval([0] * 4, [0] * 4, rows, training, rows) == (0, 0)


class Kind(NamedTuple):
    """Tables of two normal classes, so far apart in each column, and so often dealt into five folds."""

    n: int
    columns: int
    distance: float
    count: int
    tables: int
    least: float
    """Coverage that the tables agree with."""


KINDS = [Kind(60, 20, 0.5, 1, 1000, 0.8), Kind(100, 20, 0.4, 1, 1000, 0.86), Kind(200, 3, 1.0, 1, 1000, 0.87),
         Kind(100, 20, 0.4, 4, 400, 0.87)]  # fmt: skip
CHANCE = 1e-5
"""The chance that a coverage equal to a bound fails a test."""


def one_table(kind, seed):
    """Return the error of lda on new rows, its mean over folds and its interval, in percent."""
    rng, reducer = np.random.default_rng([*kind[:2], seed]), METHOD.reducer(None, METHOD.options())
    y = rng.integers(2, size=kind.n)
    X = rng.standard_normal((kind.n, kind.columns)) + kind.distance * y[:, None]
    rows = Rows.of(rows_in_memory(X, y, "rows"), Threads(1))
    splits = fold_splits(rows, 5, n_splits=kind.count, seed=seed)
    request = EvaluationRequest(
        methods={"all-columns": reducer}, unreduced=frozenset({"all-columns"}), sizes=[1],
        needs=Needs.of_all([reducer.needs()], 1), classifiers=Classifiers([ClassifierSection.model_validate("lda")]),
        parts=splits, merged=True, in_memory=False, margins=False, n_blocks=1, precision="double", intervals=True,
    )  # fmt: skip
    records = [
        record
        for split in range(kind.count)
        for record in engine.evaluate(rows, splits.only(split), request, merged_moments)
    ]
    (cell,) = ErrorTable.of(records, kind.n).cells()
    means = [np.mean(X[y == label], axis=0) for label in (0, 1)]
    w = np.linalg.solve(np.cov((X - np.stack(means)[y]).T, bias=True), means[1] - means[0])
    at_zero = np.log(np.mean(y) / np.mean(1 - y)) - w @ (means[0] + means[1]) / 2
    ends = np.array([at_zero, -at_zero - kind.distance * np.sum(w)]) / np.linalg.norm(w)
    return 100 * np.mean(ndtr(ends)), cell.summary.mean, *cell.interval


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.n} x {kind.columns}, {kind.count}")
def test_intervals_contain_the_error_in_about_nine_of_ten_tables(kind):
    """Their coverage is at least the stated one, below 96%, and above that of naive intervals, but for a chance."""
    true, mean, low, high = np.array([one_table(kind, seed) for seed in range(kind.tables)]).T
    reach = ndtri((1 + LEVEL) / 2) * np.sqrt(mean * (100 - mean) / (kind.n - 1))
    nested, naive = (low <= true) & (true <= high), np.abs(mean - true) <= reach
    widths = np.mean(high - low) / np.mean(2 * reach)
    print(kind, f"nested {np.mean(nested):.3f}, naive {np.mean(naive):.3f}, wider by {widths:.2f}")
    assert binom.ppf(CHANCE, kind.tables, kind.least) <= np.sum(nested) <= binom.isf(CHANCE, kind.tables, 0.96)
    better, worse = np.sum(nested & ~naive), np.sum(naive & ~nested)
    assert better >= binom.isf(0.01, better + worse, 0.5)
    assert widths < 5**0.5
