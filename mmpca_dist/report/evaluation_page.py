"""The page of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.report.drawing import Figure
from mmpca_dist.report.error_curves import error_curves, published_differences
from mmpca_dist.report.evaluation_rows import (
    Grid,
    cost_rows,
    error_grids,
    margin_grids,
    published_rows,
    published_words,
    standing_rows,
)
from mmpca_dist.report.evaluation_words import title_of, words
from mmpca_dist.report.signed_margins import margin_figures
from mmpca_dist.report.split_errors import split_errors
from mmpca_dist.report.templates import fill

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
    sections = [
        *(Section(figure.name, figure.title, figures=[figure]) for figure in error_curves(evaluation)),
        Section("splits", "Split by split", figures=split_errors(evaluation)),
        Section(
            "signed-margins",
            "Margins",
            [MARGIN_WORDS, MARGIN_TABLE_WORDS] if grids else [],
            margin_figures(evaluation),
            grids,
        ),
        Section(
            "published",
            "Published figures",
            [published_words(evaluation)] if evaluation.published else [],
            published_differences(evaluation),
            published=published_rows(evaluation),
        ),
    ]
    return [section for section in sections if section.figures or section.paragraphs]


def render_evaluation(evaluation: Evaluation, parts: Sequence[Section]) -> str:
    """Return the report of an evaluation as one HTML document.

    Parameters
    ----------
    evaluation : Evaluation
    parts : sequence of Section
        As ``sections(evaluation)`` returns them.
    """
    return fill(
        "evaluation.html",
        evaluation.dataset,
        evaluation.stages,
        methods=evaluation.methods,
        notes=evaluation.notes,
        open_classes=False,
        config=evaluation.config_yaml,
        versions=evaluation.versions,
        n_splits=len(evaluation.table.splits),
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
