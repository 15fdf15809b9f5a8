"""The report of a run: from its records to one HTML file without requests."""

from __future__ import annotations

from dataclasses import replace
from pkgutil import iter_modules

from mmpca_dist import models
from mmpca_dist.jobs.records import ReportRecord
from mmpca_dist.pictures.frame import Figure, PagePart, ReportSection
from mmpca_dist.registry import Registry
from mmpca_dist.report.explorer import loadings_part, points_part
from mmpca_dist.report.pages import page, write_page
from mmpca_dist.report.sections.outlying import OUTLYING, outlying_part
from mmpca_dist.report.sections.projections import PROJECTION, answer_words
from mmpca_dist.results.figures import ABOUT_METHODS, Figures, eigenvalue_tables
from mmpca_dist.results.run_result import RunResult, SolvedRun, result_of

SECTIONS = Registry(
    ReportSection,
    "mmpca_dist.report.sections",
    *(f"{models.__name__}.{family.name}" for family in iter_modules(models.__path__)),
    group="mmpca_dist.sections",
    order=lambda section: section.position,
)
"""The sections with pictures: of methods in general, and those that families bring."""


def write_report(finished: SolvedRun) -> ReportRecord:
    """Write ``report/index.html`` and the pictures, and return where they are."""
    contents = report_contents(finished)
    drawn = figures(contents)
    record = write_page(contents.folder, render(contents, drawn), drawn, contents.config_yaml)
    return {**record, "notes": contents.notes}


def report_contents(finished: SolvedRun) -> RunResult:
    """Gather what the report shows."""
    result = result_of(finished.run, finished.config, finished.results, finished.model)
    shown = _shown(result.methods)
    data = {section.name: section.data(finished, methods) for section, methods in shown if section.data is not None}
    return replace(result, data=data)


def _shown(methods: list[Figures]) -> list[tuple[ReportSection, list[Figures]]]:
    """Return the sections that show any methods, with these."""
    shown = ((section, [m for m in methods if section.name in m.method.sections]) for section in SECTIONS.values())
    return [(section, of_section) for section, of_section in shown if of_section]


def figures(contents: RunResult) -> list[Figure]:
    """Return the pictures of a run, in reading order; those that would show nothing are left out.

    May be called from several threads at once.
    """
    drawn = []
    for section, methods in _shown(contents.methods):
        data = contents.data.get(section.name)
        if section.data is None or data is not None:
            drawn += section.draw(methods, data, contents.dataset)
    return drawn


def render(contents: RunResult, figures: list[Figure]) -> str:
    """Return the report as one HTML document, with pictures in the order in which they are to appear."""
    chosen = [contents.how_chosen] if contents.how_chosen else []
    methods, dataset, sample = contents.methods, contents.dataset, contents.data.get(PROJECTION.name)
    projected = [method for method in methods if PROJECTION.name in method.method.sections]
    still = next((figure for figure in figures if figure.name == PROJECTION.name), None)
    points = points_part(projected, sample, dataset, still)
    shown = points.plots[0].explorer if points.plots else {}
    first = shown["methods"][shown["start"]]["label"] if shown else ""
    scored = contents.data.get(OUTLYING.name)
    outlying = [figure for figure in figures if figure.name.startswith(OUTLYING.name)]
    pictures = [one for one in figures if one not in outlying and (one is not still or not points.plots)]
    (about, tables), commands = eigenvalue_tables(methods), contents.next_with(first)
    asked = {what: text for what, text in commands.items() if text.startswith("mmpca evaluate")}
    others = {what: text for what, text in commands.items() if what not in asked}
    parts = [
        *([points] if projected else []),
        *([outlying_part(scored, outlying)] if scored is not None else []),
        *loadings_part(methods, dataset, first),
        *([PagePart("next", "What to type next", commands=others)] if others else []),
        PagePart("methods", "Methods", [ABOUT_METHODS, *chosen], tables=[contents.table]),
        *(PagePart(figure.name, figure.title, figures=[figure]) for figure in pictures),
        *([PagePart("eigenvalues", "Eigenvalues", [about], tables=tables)] if tables else []),
        *(PagePart(one.key, one.about, tables=[one]) for one in contents.certificates),
    ]
    lead = [answer_words(sample, projected)] if sample is not None and shown else [contents.intro]
    answer = PagePart("answer", "", lead=lead, commands=asked)
    return page(
        "Run", dataset, parts, {"method": len(methods)}, notes=contents.notes, stages=contents.stages, answer=answer,
        config=contents.config_yaml, libraries=contents.versions, dask_page=contents.dask_page,
    )  # fmt: skip
