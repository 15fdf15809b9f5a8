"""Own errors compared with published ones."""

from __future__ import annotations

import math

from mmpca_dist.evaluation.published import agreement, has_margin_pca, sources_of
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.frame import Cell, Column, Part, Table
from mmpca_dist.report.evaluation_words import digits, spread
from mmpca_dist.report.pages import DASH


def published_part(evaluation: Evaluation) -> list[Part]:
    """Return own figures next to published ones, where there are any."""
    if evaluation.published is None:
        return []
    tables = [_table(evaluation)] if evaluation.compared else []
    words = [published_words(evaluation)]
    return [Part("published", "Published figures", words, tables=tables)]


def _table(evaluation: Evaluation) -> Table:
    """Return own and published figures side by side, with reasons where they are far apart."""
    decimals = digits(evaluation)
    rows: list[list[Cell | str]] = []
    for row in evaluation.compared:
        missed, apart = row.within is False, _signed(row.apart)
        rows.append(
            [
                str(row.own.n_components),
                title_of(row.own.method),
                row.own.classifier,
                spread(row.own.summary, decimals),
                Cell(spread(row.published.summary, 1), [] if row.published.certain else ["column uncertain"]),
                Cell(mark=apart) if missed else apart,
                row.reason or ("not known" if missed else ""),
            ]
        )
    numbers = [Column(heading, "number") for heading in ("own", "published", "standard errors apart")]
    names = [Column("method", "name"), Column("classifier", "name")]
    columns = [Column("K", "number"), *names, *numbers, Column("reason, where more than two apart")]
    return Table(columns, rows, key="published", about="Own figures and published ones")


def _signed(value: float) -> str:
    if math.isnan(value):
        return DASH
    return f"{value:+.1f}" if abs(value) >= 0.05 else "0.0"


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
