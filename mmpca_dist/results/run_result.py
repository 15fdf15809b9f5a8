"""The result of a run: its figures, tables, sentences and commands, for everything that shows them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import finished, load_model, open_run, solved_methods
from mmpca_dist.jobs.job import sizes_of
from mmpca_dist.jobs.records import Results, SearchRecord, StageName
from mmpca_dist.jobs.run_needs import SEARCH, SWEEP, kind_of
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.pictures.frame import Heading, PrintedTable
from mmpca_dist.planning.plan import counted_names
from mmpca_dist.results.certificates import certificates_of, erasure_rows, search_rows, solver_rows, summaries
from mmpca_dist.results.figures import Figures, figures, methods_table
from mmpca_dist.results.forms import written
from mmpca_dist.results.result import Result, about_config, config_in
from mmpca_dist.tables.facts import Table
from mmpca_dist.tables.readers.formats import TEXT

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
    "erasure": (
        "What is erased",
        "Other models than those below may tell the classes still. New rows have some of what the sample did not show.",
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
class SolvedRun:
    """A run whose stages before the report are done, as the sections of its report see it."""

    run: RunDirectory
    config: RunConfig
    table: Table
    results: Results

    loaded: dict[str, MomentReducer] = field(default_factory=dict)

    def model(self, label: str) -> MomentReducer:
        """Return the fitted estimator of a method, which is read once."""
        if label not in self.loaded:
            self.loaded[label] = load_model(self.run.uri, label)
        return self.loaded[label]


@dataclass(frozen=True, kw_only=True)
class RunResult(Result):
    """The result of a run, with the parts that only its page shows."""

    dataset: dict[str, Any]
    """``uri``, ``n_rows``, ``n_features``, ``dtype``, ``classes`` (names; none without labels), ``counts`` (rows each),
    ``feature_names`` (or None) and ``image_shape`` (height and width of a row in C order, or None)."""
    methods: list[Figures]
    table: PrintedTable
    """The table of methods, with small print."""
    certificates: list[PrintedTable] = field(default_factory=list)
    """Proofs of solvers and searches, and what was planned and measured."""
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds of each stage."""
    config_yaml: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    how_chosen: str = ""
    """How numbers of components were chosen; empty where the configuration gives them."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """For each section of the page that has any, what its pictures show beyond the methods."""
    dask_page: bool = False
    """Whether Dask's own report lies beside the page."""
    evaluates: bool = True
    """Whether `mmpca evaluate` takes the configuration: not that of a refreshed run, which has no data set of its own.
    """
    maps: bool = False
    """Whether rows go through row maps."""
    labelled: bool = True
    """Whether rows have an outcome."""

    @property
    def intro(self) -> str:
        """The run in words for those who see a page for the first time."""
        dataset = self.dataset
        aim = f"predict {', '.join(dataset['targets'])}" if "targets" in dataset else "tell its classes apart"
        aim = aim if self.labelled else "hold most of what its rows differ in"
        return (
            f"This run reduced a table of {dataset['n_rows']:,} rows and {dataset['n_features']:,} features to a few "
            f"numbers a row, its components, which are to {aim}."
        )

    def next_with(self, first: str = "") -> dict[str, str]:
        """Return commands by their purpose, the method whose label for drawing is ``first`` in the example."""
        if not self.folder or not self.methods:
            return {}
        output, dataset = shlex.quote(self.folder), self.dataset
        suffix = ".csv" if TEXT.is_named_by(str(dataset["uri"]).lower()) else ".parquet"
        method = next((one for one in self.methods if one.label == first), self.methods[0])
        commands = {}
        if self.evaluates:
            aim = "Which method and how many components serve best on rows that are held out"
            commands[f"{aim}{about_config(self.folder)}:"] = f"mmpca evaluate {config_in(self.folder)}"
        new = "Project new rows with the models of this run:"
        commands[new] = f"mmpca transform {output} new_rows{suffix} {output}-new{suffix}"
        in_python = (
            "Use a model in Python; X is a data frame with the columns of the table, or an array of its features:"
        )
        commands[in_python] = self._use_in_python(method)
        return commands

    def _use_in_python(self, method: Figures) -> str:
        """Return lines of Python that project rows X as `mmpca transform` does."""
        load = f"load_model({self.folder!r}, {method.name!r})"
        if not self.maps:
            return f"from mmpca_dist import load_model\n\nmodel = {load}\nZ = model.transform(X)"
        names = [name.removeprefix("obs/") for role, name, *_ in self.dataset["played"] if role == "covariates"]
        beside = f", covariates=X[{names!r}]" if names else ""
        return (
            f"from mmpca_dist import load_maps, load_model\n\nmaps, model = load_maps({self.folder!r}), {load}\n"
            f"Z = model.transform(maps.transform(X){beside})"
        )


def certificate_table(name: str, rows: Sequence[tuple[str, str, str]]) -> PrintedTable:
    """Return the table of ``solving`` and ``search`` (what, value, meaning) or ``plan`` (what, planned, measured)."""
    title, words, (what, value, other) = CERTIFICATES[name]
    columns = [Heading(what, "head"), Heading(value, "text" if name == "plan" else "number"), Heading(other)]
    return PrintedTable(columns, rows, key=name, about=title, above=words)


def run_result(output: str) -> RunResult:
    """Return what came out of a finished run; raise InputError where there is none."""
    run = open_run(output)
    finished(run, records.SOLVE)
    return result_of(run, run.config, Results(run.records()))


def result_of(
    run: RunDirectory, config: RunConfig, results: Results, model_of: Callable[[str], MomentReducer] | None = None
) -> RunResult:
    """Return what came out of a run whose methods are solved, from the records of its stages."""
    count, choice = results.of(records.COUNT), results.find(records.CHOOSE)
    solved, followed = solved_methods(run, config.labels), certificates_of(config, results)
    methods = []
    for section in (section for section in config.methods if section.label in solved):
        certificate = followed.get(section.label, {})
        history = certificate.get("history", [])
        first_pass = certificate.get("passes", 0) - len(history) + 1
        sizes = sizes_of(config, results, section.label)
        model = load_model(run.uri, section.label) if model_of is None else model_of(section.label)
        methods.append(figures(model, section, sizes, history, first_pass))
    targets = f"to predict: {', '.join(count['targets'])}" if "targets" in count else ""
    labelled = not config.dataset.classless
    names = list(map(str, count["classes"])) if labelled else []
    dataset = {**count, "uri": count.get("uri", config.dataset.uri), "classes": names}
    outcome = targets or (f"{len(count['classes'])} classes" if labelled else "no labels")
    without = [label for label in config.labels if label not in solved]
    none = {"components": 0, "share": math.nan, "residual": math.nan, "leading eigenvalues": []}
    table, searches = methods_table(methods, without), search_rows(config, results)
    erasures, plan = erasure_rows(config, results), plan_and_measured(results)
    proved = {"solving": solver_rows(config, results), "search": searches, "erasure": erasures, "plan": plan}
    certificates = [certificate_table(name, rows) for name, rows in proved.items() if rows]
    erased = [f"{what}: {value}" for what, value, _ in erasures]
    chosen = [] if choice is None else [f"components: chosen for each method by the {choice['how']}"]
    result = RunResult(
        folder=run.uri,
        lead=[f"{dataset['uri']}: {count['n_rows']:,} rows, {count['n_features']:,} features, {outcome}"],
        words=[*chosen, *(search.line() for search in summaries(config, results)), *erased],
        title=table.about,
        rows=table.texts(),
        legend=table.below,
        numbers=[*(method.numbers for method in methods), *({"method": label, **none} for label in without)],
        tables={one.key: (one.above or one.below, one.records()) for one in (table, *certificates)},
        notes=_notes(results),
        report=results.find(records.REPORT),
        dataset=dataset,
        methods=methods,
        table=table,
        certificates=certificates,
        stages={name: record.get("seconds", 0.0) for name, record in results.items() if name != records.REPORT},
        config_yaml=yaml.safe_dump(run.config.model_dump(mode="json"), sort_keys=False),
        versions=run.header()["versions"],
        dask_page="uri" not in count and config.compute.performance_report,
        evaluates="uri" not in count and labelled and not config.erasing,
        labelled=labelled,
        maps=bool(config.dataset.maps),
        how_chosen=""
        if choice is None
        else f"How many components a method has was chosen by cross-validation in {choice['folds']} folds, under the "
        f"classifier {choice['classifier']}: {choice['rule']}.",
    )
    return replace(result, next=result.next_with())


def _notes(results: Results) -> list[str]:
    maps, parts = results.find(records.MAPS), results.find(records.REDUCE)
    of_parts = [part["note"] for part in (parts or {}).get("taken", []) if "note" in part]
    notes = results.of(records.COUNT)["notes"], of_parts, maps["notes"] if maps else []
    belonging = results.find(records.BELONGING)
    return [
        *(note for each in notes for note in each), *results.of(records.SOLVE)["notes"],
        *(belonging["notes"] if belonging else []),
    ]  # fmt: skip


def plan_and_measured(results: Results) -> list[tuple[str, str, str]]:
    """Return rows (what, planned, measured)."""
    plan, project = results.find(records.PLAN), results.find(records.PROJECT)
    searches = [results.of(StageName[SearchRecord](name)) for name in results if kind_of(name) == SEARCH]
    of_needs = sorted((name for name in results if kind_of(name) in (SEARCH, SWEEP)), key=kind_of)
    of_passes: list[str] = [records.MAPS, records.CHOOSE, records.REDUCE, *of_needs, records.ERASURE]
    names = [name for name in of_passes if name in results]
    of_rows: dict[str, Any] = {name: results[name] for name in names}
    passes = [
        f"choose: {one}" if name == records.CHOOSE else one for name in names for one in of_rows[name].get("passes", [])
    ]
    passes += ["project"] if project and project["bytes"] else []
    stages = [*of_rows.values(), *([project] if project else [])]
    measured = {
        "passes over the rows": f"{len(passes)} ({counted_names(passes)})",
        "bytes to read": written("bytes", sum(stage.get("bytes", 0) for stage in stages)),
        "peak memory": written("bytes", max((stage.get("memory", 0) for stage in stages), default=0)),
        "output": written("bytes", project["written"] if project else 0),
        "expected time": written("time", sum(stage.get("seconds", 0) for stage in stages)),
    }
    if searches:
        certificates = [search["certificate"] for search in searches]
        measured["pairs to compare"] = f"{sum(one['work']['compared'] for one in certificates):,.0f}"
        scratch = max(certificate["scratch_bytes"] for certificate in certificates)
        measured["scratch"] = f"{written('bytes', 2 * scratch)} while it was sorted"
    return [(name, value, measured.get(name, "")) for name, value in (plan["rows"] if plan else [])]
