"""The report of a run: from its records to one HTML file without scripts and requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from dask.utils import format_bytes, format_time

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import classes_of, load_model
from mmpca_dist.jobs.job import sizes_of
from mmpca_dist.jobs.notes import solver_rows
from mmpca_dist.jobs.records import (
    CHOOSE,
    COUNT,
    MAPS,
    PLAN,
    PROJECT,
    REDUCE,
    SOLVE,
    ChoiceRecord,
    PassesRecord,
    ReportRecord,
    Results,
    SearchRecord,
    StageName,
)
from mmpca_dist.jobs.run_needs import SEARCH, SWEEP, kind_of, run_needs
from mmpca_dist.jobs.searches import search_rows
from mmpca_dist.planning.plan import counted_names
from mmpca_dist.report.component_choices import component_choices
from mmpca_dist.report.components import agreement, components
from mmpca_dist.report.drawing import Figure
from mmpca_dist.report.evidence import Evidence, evidence
from mmpca_dist.report.method_results import MethodResult, method_row
from mmpca_dist.report.pages import fill, write_page
from mmpca_dist.report.pair_margins import PairMargins, pair_margins
from mmpca_dist.report.penalty_parts import PenaltyParts, penalty_parts
from mmpca_dist.report.projections import ProjectedSample, projections
from mmpca_dist.report.reconstructions import Reconstructions, reconstructions
from mmpca_dist.report.spectra import convergence, spectra
from mmpca_dist.tables.dataset import Dataset, Table


@dataclass(frozen=True)
class ReportContents:
    """Everything a report of a run shows."""

    dataset: dict[str, Any]
    """``uri``, ``n_rows``, ``n_features``, ``dtype``, ``classes`` (names), ``counts`` (rows per class),
    ``feature_names`` (or None) and ``image_shape`` (height and width of a row in C order, or None)."""
    methods: list[MethodResult]
    sample: ProjectedSample
    plan: list[tuple[str, str, str]]
    """What, planned, measured."""
    stages: dict[str, float]
    """Seconds of each stage."""
    config_yaml: str
    versions: dict[str, str]
    notes: list[str]
    """Warnings, shown at the top."""
    margins: PairMargins | None = None
    """None without a search for nearest rows of other classes."""
    search: list[tuple[str, str, str]] = field(default_factory=list)
    """The certificate of that search: what, value, meaning."""
    solving: list[tuple[str, str, str]] = field(default_factory=list)
    """The certificate of a solver in passes."""
    tolerance: float = 0.0
    """Of that solver."""
    reconstructions: Reconstructions | None = None
    """Where rows are images."""
    choice: ChoiceRecord | None = None
    """None where the configuration gives numbers of components."""
    evidence: list[Evidence] = field(default_factory=list)
    """Of the methods that are fitted by the evidence lower bound."""
    penalty_parts: list[PenaltyParts] = field(default_factory=list)
    """Of the methods with a projection penalty."""


def write_report(run: RunDirectory, config: RunConfig, dataset: Table, results: Results) -> ReportRecord:
    """Write ``report/index.html`` and the pictures, and return where they are."""
    contents = report_contents(run, config, dataset, results)
    pictures = figures(contents)
    record = write_page(run.uri, render(contents, pictures), pictures)
    return {**record, "notes": contents.notes}


def report_contents(run: RunDirectory, config: RunConfig, dataset: Table, results: Results) -> ReportContents:
    """Gather what the report shows."""
    count, choice, searches = results.of(COUNT), results.find(CHOOSE), run_needs(config, SEARCH)
    search = next((search for search in searches if search.stage in results), None)
    methods = [MethodResult.of(run, config, section, results) for section in config.methods]
    return ReportContents(
        dataset={**count, "uri": dataset.uri, "classes": [str(label) for label in count["classes"]]},
        methods=methods,
        sample=ProjectedSample.of(run, config, classes_of(count), dataset.n_rows),
        plan=plan_and_measured(results),
        stages={name: record.get("seconds", 0.0) for name, record in results.items()},
        config_yaml=yaml.safe_dump(run.config.model_dump(mode="json"), sort_keys=False),
        versions=run.header()["versions"],
        notes=_notes(results),
        margins=PairMargins.of(search.load(run, results), methods, config.standardize) if search else None,
        search=search_rows(config, results),
        solving=solver_rows(results),
        tolerance=config.solver.tolerance,
        reconstructions=_reconstructions(run, config, dataset, results),
        choice=choice,
        evidence=_evidence(run, config, dataset.n_rows),
        penalty_parts=_penalty_parts(run, config),
    )


def figures(contents: ReportContents) -> list[Figure]:
    """Return the pictures of a run, in reading order; those that would show nothing are left out.

    ``choice`` (errors against numbers of components, with ``n_components: auto``), ``projection`` (rows along two
    components), ``margins`` and ``margins-kept`` (distances to the nearest row of another class, for m-pca2),
    ``spectrum`` and ``spectrum-by-method`` (eigenvalues), ``convergence`` (residuals after every pass of a solver in
    passes), ``evidence`` and ``relevance`` (of methods that are fitted by the evidence lower bound: how it rose, and
    which components it switched off), ``components`` (images) or ``loadings`` (bars), ``reconstructions`` (of rows that
    are images, from few components), ``penalty-1``, ... (coefficients inside and outside of a subspace), ``agreement``
    (between methods). Methods that do not reduce the rows are in none, but for ``choice`` and ``penalty``. May be
    called from several threads at once.
    """
    methods, dataset = [method for method in contents.methods if method.reduces], contents.dataset
    return [
        *component_choices(contents.choice, [method.name for method in contents.methods]),
        *projections(methods, contents.sample, dataset["classes"]),
        *pair_margins(methods, contents.margins),
        *spectra(methods),
        *convergence(methods, contents.tolerance),
        *evidence(contents.evidence),
        *components(methods, dataset["image_shape"], dataset["feature_names"]),
        *reconstructions(methods, contents.reconstructions, dataset["image_shape"]),
        *penalty_parts(contents.penalty_parts, dataset["image_shape"], dataset["feature_names"]),
        *agreement(methods),
    ]


def render(contents: ReportContents, figures: Sequence[Figure]) -> str:
    """Return the report as one HTML document, with pictures in the order in which they are to appear."""
    return fill(
        "run.html",
        contents.dataset,
        contents.stages,
        choice=contents.choice,
        methods=[method_row(method) for method in contents.methods],
        figures=figures,
        search=contents.search,
        solving=contents.solving,
        plan=contents.plan,
        config=contents.config_yaml,
        versions=contents.versions,
        notes=contents.notes,
        any_imprecise=any(method.imprecise.any() for method in contents.methods),
    )


def _evidence(run: RunDirectory, config: RunConfig, n_rows: int) -> list[Evidence]:
    """Return how the methods whose models keep evidence bounds were fitted."""
    sections = [section for section in config.methods if "bounds_" in section.method.estimator._stored]
    return [Evidence.of(section.title, load_model(run.uri, section.label), n_rows) for section in sections]


def _penalty_parts(run: RunDirectory, config: RunConfig) -> list[PenaltyParts]:
    """Return the coefficients of the methods with a projection penalty."""
    sections = [section for section in config.methods if section.method.blocks == "two by class"]
    return [PenaltyParts.of(section.title, load_model(run.uri, section.label)) for section in sections]


def _reconstructions(run: RunDirectory, config: RunConfig, dataset: Table, results: Results) -> Reconstructions | None:
    """Return a few rows and what the methods rebuild of them, where rows are images."""
    count = results.of(COUNT)
    if not count["image_shape"] or not isinstance(dataset, Dataset):
        return None
    names = [section.label for section in config.methods if section.method.blocks != "two by class"]
    models = ((name, load_model(run.uri, name)) for name in names)
    sizes = {size for name in names for size in sizes_of(config, results, name)}
    return Reconstructions.of(dataset, classes_of(count), models, sorted(sizes))


def _notes(results: Results) -> list[str]:
    """Return the notes of all stages."""
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
        "passes over the rows": f"{len(passes)} ({', '.join(counted_names(passes))})",
        "bytes to read": format_bytes(sum(stage.get("bytes", 0) for stage in stages)),
        "peak memory a worker": format_bytes(max((stage.get("memory", 0) for stage in stages), default=0)),
        "output": format_bytes(project["written"] if project else 0),
        "expected time": format_time(sum(stage.get("seconds", 0) for stage in stages)),
    }
    if searches:
        certificates = [search["certificate"] for search in searches]
        measured["pairs to compare"] = f"{sum(one['work']['compared'] for one in certificates):.2g}"
        scratch = max(certificate["scratch_bytes"] for certificate in certificates)
        measured["scratch"] = f"{format_bytes(2 * scratch)} while it was sorted"
    return [(name, value, measured.get(name, "")) for name, value in (plan["rows"] if plan else [])]
