"""From the records of a run to the contents of its report."""

from __future__ import annotations

from typing import Any

import numpy as np
import yaml
from dask.utils import format_bytes, format_time
from numpy.typing import NDArray

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.datasets.dataset import Dataset, Table
from mmpca_dist.datasets.labels import encode
from mmpca_dist.datasets.readers.opening import open_dataset
from mmpca_dist.datasets.stores import storage
from mmpca_dist.datasets.stores.zarr_stores import reading_own
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import classes_of
from mmpca_dist.jobs.job import asked, sizes_of
from mmpca_dist.jobs.models import load_model
from mmpca_dist.jobs.notes import method_notes, proved_of, shared_notes, solver_rows
from mmpca_dist.jobs.object_records import AGAIN
from mmpca_dist.jobs.records import (
    CHOOSE,
    COUNT,
    PLAN,
    PROJECT,
    REDUCE,
    SOLVE,
    ReportRecord,
    Results,
    SearchRecord,
    StageName,
)
from mmpca_dist.jobs.searches import RunSearch, is_search, search_rows, searches_of
from mmpca_dist.methods.registry import title_of
from mmpca_dist.report.choices import tried
from mmpca_dist.report.contents import Choice, Margins, MethodResult, Reconstructions, ReportContents
from mmpca_dist.report.figures import figures
from mmpca_dist.report.page import render
from mmpca_dist.report.rebuilt_rows import reconstructions

SAMPLE_ROWS = 2000
SAMPLE_CHUNKS = 8


def write_report(run: RunDirectory, config: RunConfig, dataset: Table, results: Results) -> ReportRecord:
    """Write ``report/index.html`` and the pictures, and return where they are."""
    contents = report_contents(run, config, dataset, results)
    pictures = figures(contents)
    for picture in pictures:
        storage.write_bytes(run.path("report", f"{picture.name}.png"), picture.png)
    storage.write_bytes(run.path("report", "index.html"), render(contents, pictures).encode())
    return {
        "html": run.path("report", "index.html"),
        "figures": [
            {
                "name": p.name,
                "title": p.title,
                "caption": p.caption,
                "png": run.path("report", f"{p.name}.png"),
            }
            for p in pictures
        ],
        "notes": contents.notes,
        "outputs": ["report/index.html", *(f"report/{p.name}.png" for p in pictures)],
    }


def report_contents(run: RunDirectory, config: RunConfig, dataset: Table, results: Results) -> ReportContents:
    """Gather what the report shows."""
    count = results.of(COUNT)
    classes = classes_of(count)
    projected, codes, note = _sample(run, config, classes, dataset.n_rows)
    methods = [_method_result(run, config, section, results) for section in config.methods]
    searches = [one for one in searches_of(config) if one.stage in results]
    return ReportContents(
        dataset={
            "uri": dataset.uri,
            "n_rows": count["n_rows"],
            "n_features": count["n_features"],
            "dtype": count["dtype"],
            "classes": [str(label) for label in count["classes"]],
            "counts": count["counts"],
            "feature_names": count["feature_names"],
            "image_shape": list(count["image_shape"]) if count["image_shape"] else None,
        },
        methods=methods,
        projected=projected,
        codes=codes,
        sample_note=note,
        plan=plan_and_measured(results),
        stages=[(name, record.get("seconds", 0.0), "") for name, record in results.items()],
        config_yaml=yaml.safe_dump(asked(config, CHOOSE in results), sort_keys=False),
        versions=run.header()["versions"],
        notes=_notes(config, run, results),
        margins=_margins(run, config, methods, searches[0], results) if searches else None,
        search=search_rows(config, results),
        solving=solver_rows(results),
        tolerance=config.solver.tolerance,
        reconstructions=_reconstructions(run, config, dataset, results),
        **_choices(config.labels, results),
    )


def _choices(methods: list[str], results: Results) -> dict[str, Any]:
    """Return what the report shows of the choice of numbers of components; nothing where they were given."""
    record = results.find(CHOOSE)
    if record is None:
        return {}
    choices = []
    for name in methods:
        entry = record["methods"][name]
        cells = tried(name, record)
        chosen = next(cell for cell in cells if cell.n_components == entry["candidate"])
        choices.append(Choice(name, title_of(name), cells, chosen))
    return {"choices": choices, "folds": record["folds"], "judge": record["classifier"], "rule": record["rule"]}


def _reconstructions(run: RunDirectory, config: RunConfig, dataset: Table, results: Results) -> Reconstructions | None:
    """Return a few rows and what the methods rebuild of them, where rows are images."""
    count = results.of(COUNT)
    if not count["image_shape"] or not isinstance(dataset, Dataset):
        return None
    models = ((name, load_model(run.uri, name)) for name in config.labels)
    sizes = {size for name in config.labels for size in sizes_of(config, results, name)}
    return reconstructions(dataset, classes_of(count), models, sorted(sizes))


def _margins(
    run: RunDirectory,
    config: RunConfig,
    methods: list[MethodResult],
    search: RunSearch,
    results: Results,
) -> Margins:
    """Return the distances of pairs, and the lengths of their differences that the methods' components see."""
    pairs = search.load_pairs(run, results)
    after = {}
    for method in methods:
        components = np.asarray(method.components, np.float64)
        basis = components if method.orthonormal else np.linalg.qr(components.T)[0].T
        after[method.name] = np.linalg.norm(pairs.sample @ basis.T, axis=1)
    before = np.linalg.norm(pairs.sample, axis=1)
    return Margins(pairs.edges, pairs.counts, before, after, config.standardize)


def _method_result(run: RunDirectory, config: RunConfig, section: MethodSection, results: Results) -> MethodResult:
    name, method = section.label, section.method
    model = load_model(run.uri, name)
    entry = results.of(SOLVE)["models"][name]
    requested, proved = sizes_of(config, results, name), proved_of(results).get(name, {})
    history = proved.get("history", [])
    return MethodResult(
        name=name,
        title=section.title,
        components=model.components_.astype(np.float32),  # of many columns, and all methods at once
        eigenvalues=model.eigenvalues_,
        residuals=model.residuals_,
        relative_errors=model.relative_errors_,
        total=model.total_,
        limit=entry["limit"],
        sizes=sorted({min(size, entry["n_components"]) for size in requested}),
        requested=requested,
        orthonormal=method.orthonormal,
        ordered=method.ordered,
        values=method.values,
        history=history,
        first_pass=proved.get("passes", 0) - len(history) + 1,
    )


def _notes(config: RunConfig, run: RunDirectory, results: Results) -> list[str]:
    """Return the notes that were logged while methods were solved; models of earlier versions have none."""
    recorded = results.of(SOLVE).get("notes")
    if recorded is not None:
        return list(recorded)
    precision, notes = results.of(SOLVE).get("precision", config.precision), []
    for section in config.methods:
        name = section.label
        notes += method_notes(section, load_model(run.uri, name), sizes_of(config, results, name)[-1], precision)
    return notes + shared_notes(config, results)


def plan_and_measured(results: Results) -> list[tuple[str, str, str]]:
    """Return rows (what, planned, measured)."""
    plan, choice = results.find(PLAN), results.find(CHOOSE)
    reduce, project = results.find(REDUCE), results.find(PROJECT)
    searches = [results.of(StageName[SearchRecord](name)) for name in results if is_search(name)]
    stages = [record for record in (choice, reduce, *searches, project) if record is not None]
    passes = [
        *(f"choose: {name}" for name in ([] if choice is None else choice.get("passes", []))),
        *(name for record in (reduce, *searches) if record is not None for name in record["passes"]),
        *(["project"] if project and project["bytes"] else []),
    ]
    measured = {
        "passes over the rows": f"{len(passes)} ({', '.join(passes)})",
        "bytes to read": format_bytes(sum(stage.get("bytes", 0) for stage in stages)),
        "peak memory a worker": format_bytes(max((stage.get("memory", 0) for stage in stages), default=0)),
        "output": format_bytes(project["written"] if project else 0),
        "expected time": format_time(sum(stage.get("seconds", 0) for stage in stages)),
    }
    if searches:
        certificates = [search["certificate"] for search in searches]
        measured["pairs to compare"] = f"{sum(one['work']['compared'] for one in certificates):.2g}"
        scratch = max(one["scratch_bytes"] for one in certificates)
        measured["scratch"] = f"{format_bytes(2 * scratch)} while it was sorted"
    return [(name, value, measured.get(name, "")) for name, value in ([] if plan is None else plan["rows"])]


def _sample(
    run: RunDirectory, config: RunConfig, classes: NDArray, n_rows: int
) -> tuple[dict[str, NDArray], NDArray, str]:
    """Read projected rows for the pictures, evenly spaced within a few chunks."""
    stores = [name for name in config.projected if "zarr" in config.project.format]
    if not stores:
        return {}, np.empty(0, int), "no projected rows are stored as Zarr"
    with reading_own(run.path("projected"), AGAIN):
        return _read_sample(run, stores, classes, n_rows)


def _read_sample(
    run: RunDirectory, stores: list[str], classes: NDArray, n_rows: int
) -> tuple[dict[str, NDArray], NDArray, str]:
    datasets = {name: open_dataset(run.path("projected", f"{name}.zarr")) for name in stores}
    first = datasets[stores[0]]
    edges = first.chunk_edges
    n_chunks = len(edges) - 1
    count = min(n_chunks, SAMPLE_CHUNKS)
    chosen = [int((i + 0.5) * n_chunks / count) for i in range(count)]
    rows: dict[str, list[NDArray]] = {name: [] for name in stores}
    labels = []
    for chunk in chosen:
        start, stop = int(edges[chunk]), int(edges[chunk + 1])
        picks = np.unique(np.linspace(0, stop - start - 1, min(SAMPLE_ROWS // count, stop - start)).astype(int))
        labels.append(first.read_labels(start, stop)[picks])
        for name, dataset in datasets.items():
            rows[name].append(dataset.read_rows(start, stop)[picks])
    codes = encode(np.concatenate(labels), classes, run.uri)
    note = f"all {n_rows} rows" if len(codes) == n_rows else f"{len(codes)} of {n_rows} rows, evenly spaced"
    return {name: np.concatenate(parts) for name, parts in rows.items()}, codes, note
