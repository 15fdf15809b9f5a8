"""The result of an evaluation: answer, verdict, tests and tables; and results read from folders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmpca_dist.errors import plural
from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.published import agreement, has_margin_pca, sources_of
from mmpca_dist.evaluation.tables import Cell, cells_table
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import finished
from mmpca_dist.jobs.object_records import AGAIN, read_recorded
from mmpca_dist.jobs.records import COMPARE, CompareRecord
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.frame import Field, Heading, PagePart, PrintedTable
from mmpca_dist.results.answer import advise, digits, recommended, spread, words
from mmpca_dist.results.error_tables import (
    MARGIN_WORDS,
    brief_table,
    class_table,
    costs,
    error_tables,
    margin_tables,
    of_intervals,
    ranking_table,
    regression_table,
    standings,
)
from mmpca_dist.results.evaluation import Evaluation
from mmpca_dist.results.forms import written
from mmpca_dist.results.result import Result, commands_by_purpose
from mmpca_dist.results.run_result import run_result
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import reading_own

COST_WORDS = (
    'What each method costs, over all splits together, and what all of them share. A dash under "read": no pass of its '
    "own. Medians are charged to M-PCA1b as far as they take passes of their own."
)

CLASS_WORDS = (
    "Mean error over the splits, in percent of the rows of each class that are held out. Splits that hold out no row "
    "of a class do not count for it. tables/classes has every method, number of components and classifier."
)


@dataclass(frozen=True, kw_only=True)
class EvaluationResult(Result):
    """The result of an evaluation, with the parts of its page."""

    parts: dict[str, PagePart] = field(default_factory=dict)
    """By name, without pictures: answer, verdict and, where there are any, errors by class, margins, published figures
    and costs."""
    recommended: dict[str, Any] | None = None
    """Method, number of components and classifier that the answer names; None where nothing is learned."""

    def record(self) -> dict[str, Any]:
        """Return what a record keeps of it, for `evaluation_in`."""
        return {
            "answer": self.lead,
            "next": self.commands,
            "recommended": self.recommended,
            "verdict": self.words[0],
            "notes": self.notes,
            # Lists keep the order of columns, which JSON with sorted keys would lose.
            "tables": {
                key: [about, list(rows[0]), *(list(row.values()) for row in rows)]
                for key, (about, rows) in self.tables.items()
            },
        }


def evaluation_result(evaluation: Evaluation) -> EvaluationResult:
    """Return what came out of an evaluation."""
    (answer, commands, more), use, verdict = advise(evaluation), recommended(evaluation), words(evaluation)
    verdict += more
    following = commands_by_purpose(evaluation.folder, commands)
    brief, cost_table = brief_table(evaluation), costs(evaluation)
    parts = [PagePart("answer", "Answer", lead=answer, commands=following), _verdict(evaluation, use, verdict)]
    if evaluation.table.has_classes:
        parts.append(PagePart("class-errors", "Errors by class", [CLASS_WORDS], tables=[class_table(evaluation)]))
    parts.append(_errors(evaluation))
    if margins := margin_tables(evaluation):
        parts.append(PagePart("signed-margins", "Margins", MARGIN_WORDS, tables=margins))
    if evaluation.config.evaluation.published:
        tables = [_published_table(evaluation)] if evaluation.compared else []
        parts.append(PagePart("published", "Published figures", [published_words(evaluation)], tables=tables))
        verdict = [*verdict, published_words(evaluation)]
    if cost_table.rows:
        parts.append(PagePart("costs", "Time and bytes", [COST_WORDS], tables=[cost_table]))
    listed = [brief, *(table for part in parts for table in part.tables if table.key)]
    return EvaluationResult(
        folder=evaluation.folder,
        lead=answer,
        words=[" ".join(verdict)],
        title=brief.about,
        rows=brief.records(),
        numbers=cells_table(evaluation.cells.values()).to_pylist(),
        tables={table.key: (table.about, table.records()) for table in listed},
        next=following,
        commands=commands,
        notes=evaluation.notes,
        parts={part.name: part for part in parts},
        recommended=None if use is None else {"method": use.method, "used": use.used, "classifier": use.classifier},
    )


def _verdict(evaluation: Evaluation, use: Cell | None, lead: list[str]) -> PagePart:
    reference, tests = title_of(evaluation.config.reference), f"{plural(evaluation.n_tests, 'test')} against it"
    about = [
        f"{evaluation.splits[:1].upper()}{evaluation.splits[1:]}. "
        f"{'Error' if evaluation.reconstructs else 'Classifiers'}: {'; '.join(evaluation.classifiers.values())}.",
        f"Mean and standard deviation over the splits, and for how many numbers of components and classifiers the mean "
        f"is significantly below or above that of {reference}: p is at most 0.05 by the corrected resampled t-test "
        f"after Holm's correction for {tests}{'' if evaluation.n_tests else ', as a single split permits none'}."
        + (" Likewise against all columns, with a correction for those tests." if evaluation.all_columns else ""),
    ]
    if use is not None and use.key != lowest(evaluation.distinct).key:
        lead = ["The answer is within one standard error of the lowest mean, which this is about.", *lead]
    return PagePart("verdict", "How sure this is", about, tables=[standings(evaluation)], lead=lead)


def _errors(evaluation: Evaluation) -> PagePart:
    about = (
        "Mean (standard deviation) of the test error over the splits, in percent; the lowest mean of "
        "each column is on a coloured ground. Below it, p of the difference from "
        f"{title_of(evaluation.config.reference)} with as many components under the same classifier: two-sided, by the "
        "corrected resampled t-test (Nadeau & Bengio 2003), after Holm's correction for "
        f"{plural(evaluation.n_tests, 'test')} against it; in bold where "
        'it is at most 0.05 and the method errs less. "Sign": p of the sign test for the method erring less, as in Luo '
        "& Durrant 2017. It is of these splits only: splits share rows, so that of two equal methods one errs less by "
        'it in far more than one data set of twenty. "With 1": the method gave so many components only'
        f"{of_intervals(evaluation)}."
    )
    others = [regression_table(evaluation)] if evaluation.predicts else []
    if any("auc" in line for line in evaluation.table.lines):
        others.append(ranking_table(evaluation))
    return PagePart("errors", "Errors", [about], tables=[*error_tables(evaluation), *others])


def _published_table(evaluation: Evaluation) -> PrintedTable:
    decimals = digits(evaluation)
    rows: list[list[Field | str]] = []
    for row in evaluation.compared:
        missed = row.within is False
        apart = written("apart", row.apart)
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
    published = evaluation.config.evaluation.published
    opening = f"Own figures, of {evaluation.dataset['uri']}, next to those of {sources_of(published)} for {published}. "
    if not evaluation.compared:
        return opening + "None of the published cells was evaluated here."
    if not all_means.compared:
        return opening + "One split has no standard error, so that nothing can be said of the differences."
    missed = [row for row in evaluation.compared if row.within is False]
    unknown = sum(not row.explained for row in missed)
    about = " of PCA and M-PCA" if has_margin_pca(evaluation.compared) else ""
    undecided = f", and {all_means.open} more may be, as published ones are rounded" if all_means.open else ""
    return (
        f"{opening}Of the {all_means.compared} means{about}, {all_means.within} "
        f"({written('share', all_means.within / all_means.compared)}) are within two "
        f"combined standard errors{undecided}. {len(missed)} of all {len(evaluation.compared)} cells miss "
        f"by more, {unknown} of them for no reason that was measured on this data set. Published figures are rounded "
        "to a tenth of a percent."
    )


def result_in(output: str) -> Result:
    """Return what came out of the finished run or evaluation in a folder; raise InputError where there is none."""
    run = RunDirectory(storage.normalize(output))
    if run.exists and run.purpose == "evaluation":
        return evaluation_in(run, finished(run, COMPARE))
    return run_result(output)


def evaluation_in(run: RunDirectory, record: CompareRecord) -> Result:
    """Return what came out of a finished evaluation, from its record."""
    lists: dict[str, list[Any]] = record["tables"]
    tables = {
        key: (about, [dict(zip(names, row, strict=True)) for row in rows])
        for key, (about, names, *rows) in lists.items()
    }
    return Result(
        folder=run.uri,
        lead=record["answer"],
        words=[record["verdict"]],
        title=tables["cells"][0],
        rows=tables["cells"][1],
        numbers=stored_table(run, "cells").to_pylist(),
        tables=tables,
        next=commands_by_purpose(run.uri, record["next"]),
        commands=record["next"],
        notes=record.get("notes", []),
        report=record,
    )


def stored_table(run: RunDirectory, name: str) -> pa.Table:
    """Return a table of a finished evaluation: ``errors``, ``cells`` of mean errors, or ``classes``."""
    path = f"tables/{name}.parquet"
    # Not read_table: Arrow's data set reader may drop the Python bytes from a thread of its own while the interpreter
    # ends, which aborts the process after all is done.
    source = pa.BufferReader(read_recorded(run.uri, finished(run, COMPARE), path))
    with reading_own(run.path(path), AGAIN), pq.ParquetFile(source) as file:
        return file.read(use_threads=False)
