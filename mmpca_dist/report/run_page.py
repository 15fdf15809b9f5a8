"""The report of a run: from its records to one HTML file without requests."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import iter_modules
from typing import Any

import yaml
from dask.utils import format_bytes, format_time

from mmpca_dist import models
from mmpca_dist.jobs.finished_runs import solved_methods
from mmpca_dist.jobs.notes import search_rows, solver_rows
from mmpca_dist.jobs.records import (
    CHOOSE,
    COUNT,
    MAPS,
    PLAN,
    PROJECT,
    REDUCE,
    SOLVE,
    PassesRecord,
    ReportRecord,
    Results,
    SearchRecord,
    StageName,
)
from mmpca_dist.jobs.run_needs import SEARCH, SWEEP, kind_of
from mmpca_dist.pictures.frame import Figure, Heading, PagePart, PrintedTable, ReportSection
from mmpca_dist.planning.plan import counted_names
from mmpca_dist.registry import Registry
from mmpca_dist.report.explorer import loadings_part, points_part
from mmpca_dist.report.method_results import MethodResult, SolvedRun, eigenvalue_parts, methods_part
from mmpca_dist.report.pages import about_config, config_in, page, write_page
from mmpca_dist.report.sections.projections import PROJECTION
from mmpca_dist.tables.readers.formats import TEXT

SECTIONS = Registry(
    ReportSection,
    "mmpca_dist.report.sections",
    *(f"{models.__name__}.{family.name}" for family in iter_modules(models.__path__)),
    group="mmpca_dist.sections",
    order=lambda section: section.position,
)
"""The sections with pictures: of methods in general, and those that families bring."""
CERTIFICATES = {
    "solving": (
        "The solver",
        "No matrix of all pairs of columns was formed: every pass over the rows applied the scatters to a block of "
        "vectors. This is what is proved of the components that came out.",
        ("", "proved", "what it means"),
    ),
    "search": (
        "The search for nearest rows",
        "M-PCA2 needs, for every row, the nearest row of another class. Rows are put into cells of rows near to one "
        "another, and only what may hold something nearer is looked at; this is what that took, and how much of it is "
        "proved.",
        ("", "found", "what it means"),
    ),
    "plan": (
        "Plan and measurement",
        "What the run was expected to need, computed before it began, and what it did need. The plan of memory and "
        "scratch is an upper bound. That of the time is a guess at the passes alone, without the start of each stage.",
        ("", "planned", "measured"),
    ),
}
"""For each, title, words and headings."""


@dataclass(frozen=True)
class ReportContents:
    """Everything a report of a run shows."""

    dataset: dict[str, Any]
    """``uri``, ``n_rows``, ``n_features``, ``dtype``, ``classes`` (names), ``counts`` (rows per class),
    ``feature_names`` (or None) and ``image_shape`` (height and width of a row in C order, or None)."""
    methods: list[MethodResult]
    stages: dict[str, float]
    """Seconds of each stage."""
    config_yaml: str
    versions: dict[str, str]
    notes: list[str]
    data: Mapping[str, Any] = field(default_factory=dict)
    """For each section that has any, what its pictures show beyond the methods."""
    certificates: Mapping[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    """``solving`` and ``search`` (what, value, meaning) and ``plan`` (what, planned, measured); may be empty."""
    how_chosen: str = ""
    """How numbers of components were chosen; empty where the configuration gives them."""
    output: str = ""
    dask_page: bool = False
    """Whether Dask's own report lies beside this one."""
    evaluates: bool = True
    """Whether `mmpca evaluate` takes the configuration: not that of a refreshed run, which has no data set of its own.
    """
    maps: bool = False
    """Whether rows go through row maps."""

    def use_in_python(self, method: MethodResult) -> str:
        """Return lines of Python that project rows X as `mmpca transform` does."""
        load = f"load_model({self.output!r}, {method.name!r})"
        if not self.maps:
            return f"from mmpca_dist import load_model\n\nmodel = {load}\nZ = model.transform(X)"
        names = [name.removeprefix("obs/") for role, name, *_ in self.dataset["played"] if role == "covariates"]
        beside = f", covariates=X[{names!r}]" if names else ""
        return (
            f"from mmpca_dist import load_maps, load_model\n\nmaps, model = load_maps({self.output!r}), {load}\n"
            f"Z = model.transform(maps.transform(X){beside})"
        )


def write_report(finished: SolvedRun) -> ReportRecord:
    """Write ``report/index.html`` and the pictures, and return where they are."""
    contents = report_contents(finished)
    drawn = figures(contents)
    record = write_page(contents.output, render(contents, drawn), drawn, contents.config_yaml)
    return {**record, "notes": contents.notes}


def report_contents(finished: SolvedRun) -> ReportContents:
    """Gather what the report shows."""
    run, config, results = finished.run, finished.config, finished.results
    count, choice = results.of(COUNT), results.find(CHOOSE)
    solved = solved_methods(run, config.labels)
    methods = [MethodResult.of(finished, section) for section in config.methods if section.label in solved]
    return ReportContents(
        dataset={
            **count,
            "uri": finished.table.uri if "uri" in count else config.dataset.uri,
            "classes": [str(label) for label in count["classes"]],
        },
        methods=methods,
        stages={name: record.get("seconds", 0.0) for name, record in results.items()},
        config_yaml=yaml.safe_dump(run.config.model_dump(mode="json"), sort_keys=False),
        versions=run.header()["versions"],
        notes=_notes(results),
        data={
            section.name: section.data(finished, shown)
            for section, shown in _shown(methods)
            if section.data is not None
        },
        certificates={
            "solving": solver_rows(config, results), "search": search_rows(config, results),
            "plan": plan_and_measured(results),
        },
        output=run.uri,
        dask_page="uri" not in count and config.compute.performance_report,
        evaluates="uri" not in count,
        maps=bool(config.dataset.maps),
        how_chosen=""
        if choice is None
        else f"How many components a method has was chosen by cross-validation in {choice['folds']} folds, under the "
        f"classifier {choice['classifier']}: {choice['rule']}.",
    )  # fmt: skip


def _shown(methods: list[MethodResult]) -> list[tuple[ReportSection, list[MethodResult]]]:
    """Return the sections that show any methods, with these."""
    shown = ((section, [m for m in methods if section.name in m.method.sections]) for section in SECTIONS.values())
    return [(section, of_section) for section, of_section in shown if of_section]


def figures(contents: ReportContents) -> list[Figure]:
    """Return the pictures of a run, in reading order; those that would show nothing are left out.

    May be called from several threads at once.
    """
    drawn = []
    for section, methods in _shown(contents.methods):
        data = contents.data.get(section.name)
        if section.data is None or data is not None:
            drawn += section.draw(methods, data, contents.dataset)
    return drawn


def render(contents: ReportContents, figures: list[Figure]) -> str:
    """Return the report as one HTML document, with pictures in the order in which they are to appear."""
    chosen = [contents.how_chosen] if contents.how_chosen else []
    methods, dataset = contents.methods, contents.dataset
    projected = [method for method in methods if PROJECTION.name in method.method.sections]
    still = next((figure for figure in figures if figure.name == PROJECTION.name), None)
    points = points_part(projected, contents.data.get(PROJECTION.name), dataset, still)
    shown = points.plots[0].explorer if points.plots else {}
    first = shown["methods"][shown["start"]]["label"] if shown else ""
    pictures = [figure for figure in figures if figure is not still or not points.plots]
    parts = [
        *([points] if projected else []),
        *loadings_part(methods, dataset, first),
        *_next(contents, first),
        methods_part(methods, chosen),
        *(PagePart(figure.name, figure.title, figures=[figure]) for figure in pictures),
        *eigenvalue_parts(methods),
        *(_certificate(name, contents.certificates[name]) for name in CERTIFICATES if contents.certificates.get(name)),
    ]
    return page(
        "Run", contents, parts, {"method": len(methods)}, intro=[_intro(contents)], dask_page=contents.dask_page
    )


def _intro(contents: ReportContents) -> str:
    dataset = contents.dataset
    aim = f"predict {', '.join(dataset['targets'])}" if "targets" in dataset else "tell its classes apart"
    return (
        f"This run reduced a table of {dataset['n_rows']:,} rows and {dataset['n_features']:,} features to a few "
        f"numbers a row, its components, which are to {aim}."
    )


def _next(contents: ReportContents, first: str) -> list[PagePart]:
    """Return what to type next, with the method ``first``, which the page shows first, where there is one."""
    if not contents.output or not contents.methods:
        return []
    output, methods = shlex.quote(contents.output), contents.methods
    suffix = ".csv" if TEXT.is_named_by(str(contents.dataset["uri"]).lower()) else ".parquet"
    method = next((one for one in methods if one.label == first), methods[0])
    commands = {}
    if contents.evaluates:
        aim = "Which method and how many components serve best on rows that are held out"
        commands[f"{aim}{about_config(contents.output)}:"] = f"mmpca evaluate {config_in(contents.output)}"
    commands["Project new rows with the models of this run:"] = (
        f"mmpca transform {output} new_rows{suffix} {output}-new{suffix}"
    )
    commands["Use a model in Python; X is a data frame with the columns of the table, or an array of its features:"] = (
        contents.use_in_python(method)
    )
    return [PagePart("next", "What to type next", commands=commands)]


def _certificate(name: str, rows: list[tuple[str, str, str]]) -> PagePart:
    title, words, (what, value, other) = CERTIFICATES[name]
    columns = [Heading(what, "head"), Heading(value, "text" if name == "plan" else "number"), Heading(other)]
    return PagePart(name, title, [words], tables=[PrintedTable(columns, rows)])


def _notes(results: Results) -> list[str]:
    maps, parts = results.find(MAPS), results.of(REDUCE).get("taken", [])
    of_parts = [part["note"] for part in parts if "note" in part]
    return [*results.of(COUNT)["notes"], *of_parts, *(maps["notes"] if maps else []), *results.of(SOLVE)["notes"]]


def plan_and_measured(results: Results) -> list[tuple[str, str, str]]:
    """Return rows (what, planned, measured)."""
    plan, choice = results.find(PLAN), results.find(CHOOSE)
    reduce, project = results.find(REDUCE), results.find(PROJECT)
    searches = [results.of(StageName[SearchRecord](name)) for name in results if kind_of(name) == SEARCH]
    sweeps = [results.of(StageName[PassesRecord](name)) for name in results if kind_of(name) == SWEEP]
    maps = results.find(MAPS)
    stages = [record for record in (maps, choice, reduce, *searches, *sweeps, project) if record is not None]
    passes = [
        *(maps["passes"] if maps else []),
        *(f"choose: {name}" for name in (choice.get("passes", []) if choice else [])),
        *(name for record in (reduce, *searches, *sweeps) if record is not None for name in record["passes"]),
        *(["project"] if project and project["bytes"] else []),
    ]
    measured = {
        "passes over the rows": f"{len(passes)} ({counted_names(passes)})",
        "bytes to read": format_bytes(sum(stage.get("bytes", 0) for stage in stages)),
        "peak memory": format_bytes(max((stage.get("memory", 0) for stage in stages), default=0)),
        "output": format_bytes(project["written"] if project else 0),
        "expected time": format_time(sum(stage.get("seconds", 0) for stage in stages)),
    }
    if searches:
        certificates = [search["certificate"] for search in searches]
        measured["pairs to compare"] = f"{sum(one['work']['compared'] for one in certificates):.2g}"
        scratch = max(certificate["scratch_bytes"] for certificate in certificates)
        measured["scratch"] = f"{format_bytes(2 * scratch)} while it was sorted"
    return [(name, value, measured.get(name, "")) for name, value in (plan["rows"] if plan else [])]
