"""The report of an evaluation: the page, its pictures, and the tables as Parquet and CSV."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from mmpca_dist.evaluation.tables import cells_table, classes_table
from mmpca_dist.jobs.records import CompareRecord
from mmpca_dist.pictures.frame import Figure, PagePart
from mmpca_dist.report.error_curves import errors_part, split_errors
from mmpca_dist.report.error_maps import confusions, error_map
from mmpca_dist.report.pages import figures_of, page, write_page
from mmpca_dist.report.signed_margins import margin_pictures
from mmpca_dist.results.evaluation import Evaluation
from mmpca_dist.results.evaluation_result import EvaluationResult, evaluation_result
from mmpca_dist.stores import storage

PICTURES: dict[str, Callable[[Evaluation], Sequence[Figure]]] = {
    "class-errors": confusions,
    "errors": lambda evaluation: [error_map(evaluation)],
    "signed-margins": margin_pictures,
}
"""The pictures that parts of the page have."""


def parts(evaluation: Evaluation, result: EvaluationResult | None = None) -> list[PagePart]:
    """Return the parts of the page, in reading order: those of the result, and pictures."""
    shown: list[PagePart] = []
    for name, part in (result or evaluation_result(evaluation)).parts.items():
        shown.append(replace(part, figures=PICTURES[name](evaluation)) if name in PICTURES else part)
        if name == "answer":
            shown.append(errors_part(evaluation))
        elif name == "errors" and (splits := split_errors(evaluation)):
            shown.append(PagePart("splits", "Split by split", figures=splits))
    return shown


def render_evaluation(evaluation: Evaluation, parts: Sequence[PagePart]) -> str:
    """Return the report of an evaluation as one HTML document."""
    return page(
        "Evaluation", evaluation.dataset, parts[1:],
        {"method": len(evaluation.config.labels), "split": evaluation.n_splits},
        notes=evaluation.notes, stages=evaluation.stages, config=evaluation.config_yaml, libraries=evaluation.versions,
        answer=next(iter(parts), None), dask_page=evaluation.config.compute.performance_report,
    )  # fmt: skip


def write_evaluation_report(folder: str, evaluation: Evaluation) -> CompareRecord:
    """Write the page, its pictures and the tables into the folder of the evaluation, and return where they are.

    ``report/`` gets ``index.html`` and the pictures. ``tables/`` gets ``errors`` (a row for each split, method, number
    of components and classifier), ``cells`` (means over splits), and, where there are any, ``classes`` (by class),
    ``margins`` and ``published``, each as Parquet and CSV. Tables of the page with a key are in the record, too.
    """
    result = evaluation_result(evaluation)
    shown = parts(evaluation, result)
    record = write_page(folder, render_evaluation(evaluation, shown), figures_of(shown), evaluation.config_yaml)
    tables = (_write_table(folder, name, table) for name, table in arrow_tables(evaluation).items())
    outputs = [*record["outputs"], *(path for paths in tables for path in paths)]
    return cast(CompareRecord, {**record, **result.record(), "outputs": outputs})


def arrow_tables(evaluation: Evaluation) -> dict[str, pa.Table]:
    """Return the tables that are kept as Parquet and CSV, by name."""
    tables = {"errors": evaluation.table.to_arrow(), "cells": cells_table(evaluation.cells.values())}
    if evaluation.table.has_classes:
        tables["classes"] = classes_table(evaluation.table, evaluation.cells.values(), evaluation.dataset["classes"])
    if evaluation.margins:
        names = ("split", "method", "n_components", "classifier", "minimum", "wasserstein")
        tables["margins"] = pa.table({name: [record[name] for record in evaluation.margins] for name in names})
    if evaluation.compared:
        rows = evaluation.compared
        tables["published"] = pa.table({
            "method": [row.own.method for row in rows],
            "n_components": [row.own.n_components for row in rows],
            "classifier": [row.own.classifier for row in rows],
            "mean": [row.own.summary.mean for row in rows],
            "deviation": [row.own.summary.deviation for row in rows],
            "published_mean": [row.published.summary.mean for row in rows],
            "published_deviation": [row.published.summary.deviation for row in rows],
            "standard_errors_apart": [row.apart for row in rows],
            "certain": [row.published.certain for row in rows],
            "reason": [row.reason for row in rows],
        })  # fmt: skip
    return tables


def _write_table(folder: str, name: str, table: pa.Table) -> list[str]:
    parquet, text = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    pa.csv.write_csv(table, text)
    names = [f"tables/{name}.parquet", f"tables/{name}.csv"]
    for path, buffer in zip(names, (parquet, text), strict=True):
        storage.write_bytes(storage.join(folder, path), buffer.getvalue())
    return names
