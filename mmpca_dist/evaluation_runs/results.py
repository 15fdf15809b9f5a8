"""Tables and report of an evaluation, from the records of its splits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.datasets.stores import storage
from mmpca_dist.datasets.stores.zarr_stores import reading_own
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.jobs.configured_splits import describe, notes_on
from mmpca_dist.jobs.directory import RunDirectory, versions
from mmpca_dist.jobs.finished_runs import finished
from mmpca_dist.jobs.job import Job, asked
from mmpca_dist.jobs.object_records import AGAIN, read_recorded
from mmpca_dist.jobs.records import COMPARE, COUNT, TUNE


def evaluation_of(job: Job, records: list[dict[str, Any]]) -> Evaluation:
    """Return what an evaluation has found, from the records of its splits."""
    config, count, results = job.config, job.results.of(COUNT), job.results
    wanted, classes = config.evaluation, [str(label) for label in count["classes"]]
    told = [note for record in records for note in record.get("notes", [])]
    return Evaluation(
        dataset={
            "uri": config.dataset.uri,
            "n_rows": count["n_rows"],
            "n_features": count["n_features"],
            "classes": classes,
            "counts": count["counts"],
        },
        splits=describe(config, len(records)),
        methods=config.labels,
        own_units=frozenset(one.label for one in config.methods if not one.method.orthonormal),
        n_components=config.sizes,
        classifiers=_titles(config, results.of(TUNE)["penalties"]),
        reference=config.reference,
        table=ErrorTable.of(records, count["n_rows"]),
        margin_rows=_margin_rows(records),
        standardized=config.standardize,
        margins=[{**line, "split": record["split"]} for record in records for line in record["margins"]],
        seconds=_summed([record["seconds"] for record in records]),
        bytes_read=_summed([record.get("read", {}) for record in records]),
        published=wanted.published,
        baselines=[100 * record["guessed"] / record["rows"] for record in records if "guessed" in record],
        notes=list(dict.fromkeys([*notes_on(config, classes, count["counts"]), *told])),
        stages=[(name, results[name]["seconds"], "") for name in results],
        config_yaml=yaml.safe_dump(asked(config, job.run.config.chooses, exclude={"project"}), sort_keys=False),
        versions=versions(),
    )


def _margin_rows(records: list[dict[str, Any]]) -> str:
    sampled = any(record.get("margin_rows", record["rows"]) < record["rows"] for record in records)
    return "a sample of the rows held out" if sampled else "the rows held out"


def _summed(costs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what all splits have taken together, by method, or by what serves all methods."""
    found: Counter[str] = Counter()
    for one in costs:
        found.update(one)
    return dict(found)


def _titles(config: RunConfig, penalties: dict[str, float]) -> dict[str, str]:
    """Return what classifiers are called in words, with their constants."""
    titles = {}
    for spec in config.evaluation.classifiers:
        penalty = penalties.get(spec.label, spec.C)
        given = f", C = {penalty:g}" if isinstance(penalty, float) else ", C nested" if penalty == "nested" else ""
        titles[spec.label] = spec.label + given
    return titles


def error_rows(output: str) -> list[dict[str, str]]:
    """Return the errors of a finished evaluation as a table: a row for each method and number of components.

    Rows that say the same of as many components as a method gave are shown once.
    """
    run = RunDirectory(storage.normalize(output))
    rows: dict[tuple[str, int], dict[str, str]] = {}
    used: dict[tuple[str, int], int] = {}
    for cell in _stored_cells(run):
        key = cell["method"], cell["n_components"]
        used[key] = cell["used"]
        line = rows.setdefault(key, {"method": cell["method"], "components": _size(cell)})
        deviation = "" if cell["deviation"] is None else f" ({cell['deviation']:.1f})"
        line[cell["classifier"]] = f"{cell['mean']:.2f}{deviation}"
    distinct: dict[tuple[Any, ...], dict[str, str]] = {}
    for key, line in rows.items():
        errors = tuple((name, told) for name, told in line.items() if name != "components")
        distinct.setdefault((used[key], *errors), line)
    return list(distinct.values())


def _size(cell: dict[str, Any]) -> str:
    asked, used = cell["n_components"], cell["used"]
    return str(asked) if asked == used else f"{used} of {asked}"


def _stored_cells(run: RunDirectory) -> list[dict[str, Any]]:
    compared, path = finished(run, COMPARE), "tables/cells.parquet"
    # Not read_table: Arrow's data set reader may drop the Python bytes from a thread of its own while the interpreter
    # ends, which aborts the process after all is done.
    source = pa.BufferReader(read_recorded(run.uri, compared, path))
    with reading_own(run.path(path), AGAIN), pq.ParquetFile(source) as file:
        return file.read(use_threads=False).to_pylist()


def headline_of(output: str) -> str:
    """Return the verdict of a finished evaluation, in words."""
    return str(finished(RunDirectory(storage.normalize(output)), COMPARE)["verdict"])


def notes_of(output: str) -> list[str]:
    """Return what a reader of a finished evaluation must know, as its report has it."""
    return list(finished(RunDirectory(storage.normalize(output)), COMPARE).get("notes", []))


def report_of(output: str) -> str:
    """Return where the report of a finished evaluation is."""
    return str(finished(RunDirectory(storage.normalize(output)), COMPARE)["html"])
