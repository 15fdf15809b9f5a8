"""Own errors beside published ones."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.ticker import FixedLocator

from mmpca_dist.evaluation.published import WITHIN, agreement, has_margin_pca, sources_of
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import FAINT, FEW_COLOURS, PAGE_WIDTH, plain
from mmpca_dist.pictures.frame import Cell, Column, Figure, Part, Table
from mmpca_dist.report.evaluation_words import digits, spread
from mmpca_dist.report.pages import DASH

FARTHEST = 8.0
"""Combined standard errors at which points of the picture are held."""


def published_part(evaluation: Evaluation) -> list[Part]:
    """Return own figures beside published ones, where there are any."""
    if evaluation.published is None:
        return []
    tables = [_table(evaluation)] if evaluation.compared else []
    words = [published_words(evaluation)]
    return [Part("published", "Published figures", words, _differences(evaluation), tables)]


def _differences(evaluation: Evaluation) -> list[Figure]:
    """Return one picture of own less published means in combined standard errors; none where nothing is published."""
    rows = [row for row in evaluation.compared if row.within is not None]
    if not rows:
        return []
    by_size = sorted(rows, key=lambda row: row.published.n_components)
    lines = list(dict.fromkeys((row.published.n_components, row.published.method) for row in by_size))
    classifiers = [name for name in evaluation.classifiers if any(row.own.classifier == name for row in rows)]
    sheet = drawing.sheet(PAGE_WIDTH, 0.19 * len(lines) + 1.1)
    panels = sheet.subplots(1, len(classifiers), sharey=True, squeeze=False)[0]
    for panel, classifier in zip(panels, classifiers, strict=True):
        panel.axvspan(-WITHIN, WITHIN, color=FAINT, alpha=0.16, linewidth=0)
        panel.axvline(0, color=FAINT, linewidth=0.8)
        for row in rows:
            if row.own.classifier == classifier:
                position = lines.index((row.published.n_components, row.published.method))
                colour = FEW_COLOURS[0] if row.within else FEW_COLOURS[1]
                beyond = abs(row.apart) > FARTHEST
                panel.plot(
                    [float(np.clip(row.apart, -FARTHEST, FARTHEST))], [position], color=colour, markersize=5.5,
                    marker=("<" if row.apart < 0 else ">") if beyond else "o",
                    markerfacecolor=colour if row.published.certain else "white",
                )  # fmt: skip
        panel.set_xlim(-FARTHEST - 0.8, FARTHEST + 0.8)
        panel.xaxis.set_major_locator(FixedLocator([-8, -4, -2, 0, 2, 4, 8]))
        drawing.named_lines(panel, [f"{plain(title_of(method))}, K = {size}" for size, method in lines])
        panel.grid(axis="y", color=FAINT, alpha=0.2, linewidth=0.6)
        drawing.dress(panel, plain(classifier), "standard errors apart")
    source = sources_of(evaluation.published)
    caption = (
        f"Own mean less the mean published by {source}, in combined standard errors of both: right of zero, own errors "
        "are more. The band is two standard errors wide to either side; points outside it are orange. Hollow: the "
        f"column of the published figure is not certain. Arrows: beyond {FARTHEST:.0f}."
    )
    return [drawing.figure("published-differences", "Own less published errors", caption, sheet)]


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
    return Table(columns, rows, key="published", about="Own figures beside published ones")


def _signed(value: float) -> str:
    if math.isnan(value):
        return DASH
    return f"{value:+.1f}" if abs(value) >= 0.05 else "0.0"


def published_words(evaluation: Evaluation) -> str:
    """Return in words how many means, of PCA and M-PCA where there are such, agree with the published ones."""
    all_means, certain = agreement(evaluation.compared), agreement(evaluation.compared, certain_only=True)
    source = sources_of(evaluation.published)
    opening = f"Own figures, of {evaluation.dataset['uri']}, beside those of {source} for {evaluation.published}. "
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
        f"within two combined standard errors{undecided}. Of the {certain.compared} in columns that are certain, "
        f"{certain.within} are. Of all {len(evaluation.compared)} cells, {len(missed)} miss by more, {unknown} of them "
        "for no reason that was measured on this data set. Published figures are rounded to a tenth of a percent."
    )
