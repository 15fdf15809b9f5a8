"""The report of an evaluation: the page, its pictures, and the tables as Parquet and CSV."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from mmpca_dist.evaluation.published import agreement, has_margin_pca, sources_of
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import cells_table, classes_table
from mmpca_dist.jobs.notes import plural
from mmpca_dist.jobs.records import CompareRecord
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.frame import Field, Heading, PagePart, PrintedTable
from mmpca_dist.report.advice import advise, recommended
from mmpca_dist.report.error_curves import errors_part, split_errors
from mmpca_dist.report.error_tables import class_table, costs, error_tables, regression_table, standings
from mmpca_dist.report.evaluation_words import digits, spread, words
from mmpca_dist.report.pages import DASH, about_config, figures_of, page, write_page
from mmpca_dist.report.signed_margins import margins_part
from mmpca_dist.stores import storage

COST_WORDS = (
    'What each method costs, over all splits together, and what all of them share. A dash under "read": no pass of its '
    "own. Medians are charged to M-PCA1b as far as they take passes of their own."
)

CLASS_WORDS = (
    "Mean error over the splits, in percent of the rows of each class that are held out. Splits that hold out no row "
    "of a class do not count for it. tables/classes has every method, number of components and classifier."
)


def parts(evaluation: Evaluation) -> list[PagePart]:
    """Return the parts of the page, in reading order; those without content are left out."""
    cost_table, splits = costs(evaluation), split_errors(evaluation)
    classes = [class_table(evaluation)] if evaluation.table.has_classes else []
    return [
        _answer(evaluation),
        errors_part(evaluation),
        _verdict(evaluation),
        *([PagePart("class-errors", "Errors by class", [CLASS_WORDS], tables=classes)] if classes else []),
        _errors(evaluation),
        *([PagePart("splits", "Split by split", figures=splits)] if splits else []),
        *margins_part(evaluation),
        *published_part(evaluation),
        *([PagePart("costs", "Time and bytes", [COST_WORDS], tables=[cost_table])] if cost_table.rows else []),
    ]


def _answer(evaluation: Evaluation) -> PagePart:
    answer, commands = advise(evaluation)
    what = f"Type next{about_config(evaluation.folder)}:"
    return PagePart("answer", "Answer", lead=answer, commands={what: "\n".join(commands)} if commands else {})


def _verdict(evaluation: Evaluation) -> PagePart:
    reference, tests = title_of(evaluation.reference), f"{plural(evaluation.n_tests, 'test')} against it"
    about = [
        f"{evaluation.splits[:1].upper()}{evaluation.splits[1:]}. Classifiers: "
        f"{'; '.join(evaluation.classifiers.values())}.",
        f"Mean and standard deviation over the splits, and for how many numbers of components and classifiers the mean "
        f"is significantly below or above that of {reference}: p is at most 0.05 by the corrected resampled t-test "
        f"after Holm's correction for {tests}{'' if evaluation.n_tests else ', as a single split permits none'}."
        + (" Likewise against all columns, with a correction for those tests." if evaluation.all_columns else ""),
    ]
    return PagePart("verdict", "Verdict", about, tables=[standings(evaluation)], lead=words(evaluation))


def _errors(evaluation: Evaluation) -> PagePart:
    about = (
        "Mean \N{PLUS-MINUS SIGN} standard deviation of the test error over the splits, in percent; the lowest mean of "
        f"each column is on a coloured ground. Below it, p of the difference from {title_of(evaluation.reference)} "
        "with as many components under the same classifier: two-sided, by the corrected resampled t-test (Nadeau & "
        f"Bengio 2003), after Holm's correction for {plural(evaluation.n_tests, 'test')} against it; at most 0.05 is "
        'in bold. "Sign": p of the sign test for the method erring less, as in Luo & Durrant 2017. It is of these '
        "splits only: splits share rows, so that of two equal methods one errs less by it in far more than one data "
        'set of twenty. "With 1": the method gave so many components only.'
    )
    regressions = [regression_table(evaluation)] if evaluation.predicts else []
    return PagePart("errors", "Errors", [about], tables=[*error_tables(evaluation), *regressions])


def published_part(evaluation: Evaluation) -> list[PagePart]:
    """Return own figures next to published ones, where there are any."""
    if evaluation.published is None:
        return []
    tables = [_published_table(evaluation)] if evaluation.compared else []
    return [PagePart("published", "Published figures", [published_words(evaluation)], tables=tables)]


def _published_table(evaluation: Evaluation) -> PrintedTable:
    decimals = digits(evaluation)
    rows: list[list[Field | str]] = []
    for row in evaluation.compared:
        missed = row.within is False
        apart = DASH if math.isnan(row.apart) else f"{row.apart:+.1f}" if abs(row.apart) >= 0.05 else "0.0"
        rows.append(
            [
                str(row.own.n_components),
                title_of(row.own.method),
                row.own.classifier,
                spread(row.own.summary, decimals),
                Field(spread(row.published.summary, 1), [] if row.published.certain else ["column uncertain"]),
                Field(mark=apart) if missed else apart,
                row.reason or ("not known" if missed else ""),
            ]
        )
    numbers = [Heading(heading, "number") for heading in ("own", "published", "standard errors apart")]
    names = [Heading("method", "name"), Heading("classifier", "name")]
    columns = [Heading("K", "number"), *names, *numbers, Heading("reason, where more than two apart")]
    return PrintedTable(columns, rows, key="published", about="Own figures and published ones")


def published_words(evaluation: Evaluation) -> str:
    """Return in words how many means, of PCA and M-PCA where there are such, agree with the published ones."""
    all_means = agreement(evaluation.compared)
    source = sources_of(evaluation.published)
    opening = f"Own figures, of {evaluation.dataset['uri']}, next to those of {source} for {evaluation.published}. "
    if not evaluation.compared:
        return opening + "None of the published cells was evaluated here."
    if not all_means.compared:
        return opening + "One split has no standard error, so that nothing can be said of the differences."
    missed = [row for row in evaluation.compared if row.within is False]
    unknown = sum(not row.explained for row in missed)
    about = " of PCA and M-PCA" if has_margin_pca(evaluation.compared) else ""
    undecided = f", and {all_means.open} more may be, as published ones are rounded" if all_means.open else ""
    return (
        f"{opening}Of the {all_means.compared} means{about}, {all_means.within} ({all_means.share:.0%}) are "
        f"within two combined standard errors{undecided}. {len(missed)} of all {len(evaluation.compared)} cells miss "
        f"by more, {unknown} of them for no reason that was measured on this data set. Published figures are rounded "
        "to a tenth of a percent."
    )


def render_evaluation(evaluation: Evaluation, parts: Sequence[PagePart]) -> str:
    """Return the report of an evaluation as one HTML document."""
    return page(
        "Evaluation", evaluation, parts, {"method": len(evaluation.methods), "split": evaluation.n_splits},
        opens_classes=False, dask_page="\n  performance_report: true\n" in evaluation.config_yaml,
    )  # fmt: skip


def write_evaluation_report(folder: str, evaluation: Evaluation) -> CompareRecord:
    """Write the page, its pictures and the tables into the folder of the evaluation, and return where they are.

    ``report/`` gets ``index.html`` and the pictures. ``tables/`` gets ``errors`` (a row for each split, method, number
    of components and classifier), ``cells`` (means over splits), and, where there are any, ``classes`` (by class),
    ``margins`` and ``published``, each as Parquet and CSV. Tables of the page with a key are in the record, too.
    """
    shown = parts(evaluation)
    record = write_page(folder, render_evaluation(evaluation, shown), figures_of(shown), evaluation.config_yaml)
    outputs = list(record["outputs"])
    for name, table in arrow_tables(evaluation).items():
        outputs += _write_table(folder, name, table)
    verdict = [*words(evaluation), *([published_words(evaluation)] if evaluation.published else [])]
    (answer, commands), use = advise(evaluation), recommended(evaluation)
    return {
        **record,
        "notes": evaluation.notes,
        "answer": answer,
        "next": commands,
        "recommended": None if use is None else {"method": use.method, "used": use.used, "classifier": use.classifier},
        "verdict": " ".join(verdict),
        "tables": evaluation_tables(shown),
        "outputs": outputs,
    }


def evaluation_tables(parts: Sequence[PagePart]) -> dict[str, tuple[str, list[dict[str, str]]]]:
    """Return tables for artifacts: for each key, a description and a dict for each row; texts, no markup."""
    return {table.key: (table.about, table.records()) for part in parts for table in part.tables if table.key}


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
