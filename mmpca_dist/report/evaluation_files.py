"""Write an evaluation to files: page, pictures, tables as Parquet and CSV."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from mmpca_dist.datasets.stores import storage
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import cells_table
from mmpca_dist.report.evaluation_page import render_evaluation, sections
from mmpca_dist.report.evaluation_rows import (
    cost_rows,
    error_grids,
    margin_grids,
    published_rows,
    published_words,
    standing_rows,
)
from mmpca_dist.report.evaluation_words import words


def write_evaluation_report(folder: str, evaluation: Evaluation) -> dict[str, Any]:
    """Write the page, its pictures and the tables, and return where they are.

    Parameters
    ----------
    folder : str
        Folder of the evaluation, local or a URL. ``report/`` in it gets ``index.html`` and the pictures, ``tables/``
        gets ``errors`` (a row for each split, method, number of components and classifier), ``cells`` (means over
        splits), and, where there are any, ``margins`` and ``published``, each as Parquet and CSV.
    evaluation : Evaluation
    """
    parts = sections(evaluation)
    figures = [figure for part in parts for figure in part.figures]
    outputs = ["report/index.html", *(f"report/{figure.name}.png" for figure in figures)]
    storage.write_bytes(storage.join(folder, outputs[0]), render_evaluation(evaluation, parts).encode())
    for figure in figures:
        storage.write_bytes(storage.join(folder, "report", f"{figure.name}.png"), figure.png)
    for name, table in arrow_tables(evaluation).items():
        outputs += _write_table(folder, name, table)
    return {
        "html": storage.join(folder, outputs[0]),
        "figures": [
            {
                "name": f.name,
                "title": f.title,
                "caption": f.caption,
                "png": storage.join(folder, "report", f"{f.name}.png"),
            }
            for f in figures
        ],
        "notes": evaluation.notes,
        "verdict": " ".join([*words(evaluation), *([published_words(evaluation)] if evaluation.published else [])]),
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
    tables: dict[str, tuple[str, list[dict[str, Any]]]] = {
        "standings": (
            "Every method's lowest mean error, and how it stands against the reference",
            standing_rows(evaluation),
        )
    }
    tested = (
        f"corrected t-test against the reference, Holm's correction for {evaluation.n_tests} tests; sign: sign test of "
        "these splits"
    )
    for number, grid in enumerate(error_grids(evaluation)):
        about = (
            f"Mean and standard deviation of test errors (%), * the lowest of a column; p: {tested}{_of(grid.title)}"
        )
        tables[f"errors-{number + 1}"] = about, grid.records()
    for number, grid in enumerate(margin_grids(evaluation)):
        about = f"Smallest margin and Wasserstein-1 distance from the original columns{_of(grid.title)}"
        tables[f"margins-{number + 1}"] = about, grid.records()
    costs = [{name: row[name] for name in ("what", "time", "read")} for row in cost_rows(evaluation)]
    if costs:
        tables["costs"] = "Time and bytes read", costs
    if evaluation.compared:
        tables["published"] = "Own figures beside published ones", published_rows(evaluation)
    return tables


def _of(title: str) -> str:
    return f": {title}" if title else ""


def _write_table(folder: str, name: str, table: pa.Table) -> list[str]:
    parquet, text = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    pa.csv.write_csv(table, text)
    names = [f"tables/{name}.parquet", f"tables/{name}.csv"]
    for path, buffer in zip(names, (parquet, text), strict=True):
        storage.write_bytes(storage.join(folder, path), buffer.getvalue())
    return names
