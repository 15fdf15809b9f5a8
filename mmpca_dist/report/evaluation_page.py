"""The report of an evaluation: the page, its pictures, and the tables as Parquet and CSV."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import cells_table
from mmpca_dist.jobs.records import CompareRecord
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.report.drawing import Figure
from mmpca_dist.report.error_curves import error_curves, split_errors
from mmpca_dist.report.error_tables import Grid, cost_rows, error_grids, standing_rows
from mmpca_dist.report.evaluation_words import words
from mmpca_dist.report.pages import fill, write_page
from mmpca_dist.report.published_comparison import published_differences, published_rows, published_words
from mmpca_dist.report.signed_margins import margin_figures, margin_grids
from mmpca_dist.stores import storage

MARGIN_WORDS = (
    "What the methods named after the margin seek to keep is the distance between the classes. Here it is measured: "
    "how far rows are from the hyperplane of a linear classifier, negative where they are on the wrong side."
)
MARGIN_TABLE_WORDS = (
    "In the tables, the smallest signed distance, and below it the Wasserstein-1 distance between the signed distances "
    "after projection and those in the original columns; means over the splits."
)


@dataclass(frozen=True)
class Section:
    """A part of the page under one heading."""

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    grids: Sequence[Grid] = ()
    published: Sequence[dict[str, Any]] = field(default=())


def sections(evaluation: Evaluation) -> list[Section]:
    """Return the parts of the page that have pictures, in reading order; those without content are left out."""
    grids = margin_grids(evaluation)
    margins = [MARGIN_WORDS, MARGIN_TABLE_WORDS] if grids else []
    published = [published_words(evaluation)] if evaluation.published else []
    differences, rows = published_differences(evaluation), published_rows(evaluation)
    sections = [
        *(Section(figure.name, figure.title, figures=[figure]) for figure in error_curves(evaluation)),
        Section("splits", "Split by split", figures=split_errors(evaluation)),
        Section("signed-margins", "Margins", margins, margin_figures(evaluation), grids),
        Section("published", "Published figures", published, differences, published=rows),
    ]
    return [section for section in sections if section.figures or section.paragraphs]


def render_evaluation(evaluation: Evaluation, parts: Sequence[Section]) -> str:
    """Return the report of an evaluation as one HTML document; ``parts`` are its `sections`."""
    return fill(
        "evaluation.html",
        evaluation.dataset,
        evaluation.stages,
        methods=evaluation.methods,
        notes=evaluation.notes,
        open_classes=False,
        config=evaluation.config_yaml,
        versions=evaluation.versions,
        n_splits=evaluation.n_splits,
        verdict=words(evaluation),
        splits=evaluation.splits[:1].upper() + evaluation.splits[1:],
        classifiers=list(evaluation.classifiers.values()),
        reference=title_of(evaluation.reference),
        standings=standing_rows(evaluation),
        tests=evaluation.n_tests,
        errors=error_grids(evaluation),
        sections=parts,
        costs=cost_rows(evaluation),
    )


def write_evaluation_report(folder: str, evaluation: Evaluation) -> CompareRecord:
    """Write the page, its pictures and the tables into the folder of the evaluation, and return where they are.

    ``report/`` gets ``index.html`` and the pictures. ``tables/`` gets ``errors`` (a row for each split, method, number
    of components and classifier), ``cells`` (means over splits), and, where there are any, ``margins`` and
    ``published``, each as Parquet and CSV.
    """
    parts = sections(evaluation)
    figures = [figure for part in parts for figure in part.figures]
    record = write_page(folder, render_evaluation(evaluation, parts), figures)
    outputs = list(record["outputs"])
    for name, table in arrow_tables(evaluation).items():
        outputs += _write_table(folder, name, table)
    verdict = [*words(evaluation), *([published_words(evaluation)] if evaluation.published else [])]
    return {
        **record,
        "notes": evaluation.notes,
        "verdict": " ".join(verdict),
        "tables": evaluation_tables(evaluation),
        "outputs": outputs,
    }


def arrow_tables(evaluation: Evaluation) -> dict[str, pa.Table]:
    """Return the tables that are kept as Parquet and CSV, by name."""
    tables = {"errors": evaluation.table.to_arrow(), "cells": cells_table(evaluation.cells.values())}
    if evaluation.margins:
        names = ("split", "method", "n_components", "classifier", "minimum", "wasserstein")
        tables["margins"] = pa.table({name: [record[name] for record in evaluation.margins] for name in names})
    if evaluation.compared:
        tables["published"] = pa.Table.from_pylist(
            [
                {
                    "method": row.own.method,
                    "n_components": row.own.n_components,
                    "classifier": row.own.classifier,
                    "mean": row.own.summary.mean,
                    "deviation": row.own.summary.deviation,
                    "published_mean": row.published.summary.mean,
                    "published_deviation": row.published.summary.deviation,
                    "standard_errors_apart": row.apart,
                    "certain": row.published.certain,
                    "reason": row.reason,
                }
                for row in evaluation.compared
            ]
        )
    return tables


def evaluation_tables(evaluation: Evaluation) -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """Return tables for artifacts: for each key, a description and a dict for each row; texts, no markup."""
    about = "Every method's lowest mean error, and how it compares with the reference"
    tables: dict[str, tuple[str, list[dict[str, Any]]]] = {"standings": (about, standing_rows(evaluation))}
    errors = (
        "Mean and standard deviation of test errors (%), * the lowest of a column; p: corrected t-test against the "
        f"reference, Holm's correction for {evaluation.n_tests} tests; sign: sign test of these splits"
    )
    margins = "Smallest margin and Wasserstein-1 distance from the original columns"
    grids = {"errors": (errors, error_grids(evaluation)), "margins": (margins, margin_grids(evaluation))}
    for name, (about, of_classifiers) in grids.items():
        for number, grid in enumerate(of_classifiers, 1):
            title = f": {grid.title}" if grid.title else ""
            tables[f"{name}-{number}"] = about + title, grid.records()
    costs = [{name: row[name] for name in ("what", "time", "read")} for row in cost_rows(evaluation)]
    if costs:
        tables["costs"] = "Time and bytes read", costs
    if evaluation.compared:
        tables["published"] = "Own figures beside published ones", published_rows(evaluation)
    return tables


def _write_table(folder: str, name: str, table: pa.Table) -> list[str]:
    parquet, text = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    pa.csv.write_csv(table, text)
    names = [f"tables/{name}.parquet", f"tables/{name}.csv"]
    for path, buffer in zip(names, (parquet, text), strict=True):
        storage.write_bytes(storage.join(folder, path), buffer.getvalue())
    return names
