"""The first stages of every job: count the rows of each class, plan, and fit row maps."""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.schema import Purpose, RunConfig
from mmpca_dist.errors import InputError, plural
from mmpca_dist.jobs import records
from mmpca_dist.jobs.counted import Counted
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.stored_arrays import save_fits
from mmpca_dist.passes.census import notes_on_labels, take_census
from mmpca_dist.passes.rows import fit_row_maps, spread_sample
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.planning.plan import Plan, Resources
from mmpca_dist.planning.run_plan import RunRequest
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.telling_columns import notes_on_telling
from mmpca_dist.statistics.widened_rows import look_at_gaps
from mmpca_dist.tables.column_faults import gaps_by_column
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.levels import notes_on_many
from mmpca_dist.tables.mapped_rows import name_of
from mmpca_dist.tables.roles import SLICES
from mmpca_dist.tables.side_columns import kept_columns
from mmpca_dist.tables.spans import make_spans

INDICATORS_BESIDE_NUMBERS = (
    "Columns are standardised, as indicators of text stand beside numbers: standardize: false leaves them as they are."
)
MAX_NAMED = 5
"""Columns with gaps that a note names."""

SEES_ALL = (
    "Row maps were fitted to a sample of all rows, without labels, so held-out rows may be among the landmarks and in "
    "the estimate of gamma."
)
"""A note on evaluations."""


def gaps_note(missing: NDArray[np.int64], dataset: Dataset) -> str:
    """Return how much is missing, in words: in all, and in the columns that lack most."""
    gaps = gaps_by_column(missing, dataset.feature_names)
    shares = ", ".join(f"{name} {count / dataset.n_rows:.1%}" for name, count in gaps[:MAX_NAMED])
    total = plural(sum(count for _, count in gaps), "value")
    more = ", ..." if len(gaps) > MAX_NAMED else ""
    return (
        f"Missing: {total} of {plural(len(gaps), 'column')} ({shares}{more}). The mean of the column stands for them."
    )


def _count(job: Job) -> records.CountRecord:
    dataset = job.dataset
    census = job.census = take_census(dataset, job.spans, job.tasks("count"))
    for section in job.config.methods:
        pooled = use_pooled(len(census.classes), min(dataset.n_columns, dataset.n_rows))
        section.reducer(None).check_classes(census.classes, census.counts, pooled)
    notes = notes_on_labels(dataset)
    slices = [each.look.tolist() for each in dataset.columns_into("label") if each.role is SLICES]
    for slice_edges in slices:
        edges = ", ".join(f"class {number} up to {edge:.6g}" for number, edge in enumerate(slice_edges, 1))
        notes.append(f"Classes are slices of the target: {edges}, class {len(slice_edges) + 1} above.")
    notes += [dataset.stored.note] if dataset.stored.note else []
    notes += notes_on_many(dataset.stored.levels)
    if job.config.standardizes and job.inputs.asked.standardize is None:
        notes.append(INDICATORS_BESIDE_NUMBERS)
    notes += notes_on_telling(job.rows())
    for note in notes:
        job.callback.on_note(note)
    own_columns = dataset.mapped is not None and dataset.mapped.own_columns
    record: records.CountRecord = {
        **Counted.of(dataset, census),
        "standardize": job.config.standardizes,
        "image_shape": None if own_columns else job.config.dataset.image_shape or dataset.facts.image_shape,
        "notes": notes,
    }
    if job.config.dataset.missing == "mean":
        stored = dataset.unmapped
        missing, means = look_at_gaps(stored, make_spans(stored), job.tasks("count"))
        if missing.any():
            if dataset.mapped is not None:
                raise InputError(
                    f"{dataset.uri} has missing values, and dataset.maps take whole rows: fill them before, or leave "
                    "out dataset.maps."
                )
            record |= {"missing": missing.tolist(), "means": means.tolist()}
            notes.append(gaps_note(missing, dataset))
            job.callback.on_note(notes[-1])
    return record


COUNT = Stage(records.COUNT, "Count classes", _count)


def look_ahead(config: RunConfig, purpose: Purpose, callback: Callback | None) -> Job:
    """Return a job that is not begun, after a look at gaps where these are filled: they make columns of their own."""
    job = Job(Inputs.of(config, purpose, callback), "", Threads(config.compute.n_threads), Callback())
    if job.config.dataset.missing == "mean" or job.config.dataset.covariates:
        job.results[records.COUNT] = _count(job)
    return job


def planned(job: Job, plan: Plan) -> records.PlanRecord:
    """Show the plan of a job, refuse one that is too large, and return its record."""
    job.callback.on_plan(plan)
    plan.refuse_if_too_large()
    return cast(records.PlanRecord, {**plan.to_json(), "rows": plan.rows()})


def request_of(job: Job) -> RunRequest:
    """Return what a plan must know of a run."""
    config = job.config
    n_outcomes = len(job.dataset.targets) or len(job.census.classes)
    width = min(config.largest or job.dataset.n_features, job.dataset.n_features, job.dataset.n_rows)
    blocks = {
        section.label: section.method.blocks(config.largest or width, n_outcomes, job.dataset.n_columns)
        for section in config.methods
    }
    return RunRequest(
        job.dataset,
        job.spans,
        job.census.sizes,
        config.needs(),
        resources_of(config, config.output),
        widths=[width * blocks[label] for label in config.projected],
        formats=len(set(config.project.format)),
        kept=len(kept_columns(job.dataset, config.project.keep)),
        n_methods=sum(blocks.values()),
        standardize=config.standardizes,
        solver=config.solver.options(),
    )


def resources_of(config: RunConfig, output: str) -> Resources:
    """Return what a run, or a projection by its methods into ``output``, may use."""
    compute = config.compute
    return Resources(
        precision=config.precision,
        output=output,
        workers=compute.most_workers,
        threads_per_worker=compute.threads_per_worker,
        in_process=compute.cluster == "threads",
        memory_limit=compute.memory_bytes,
    )


def _fit(job: Job) -> records.MapsRecord:
    rows = job.inputs.dataset
    assert rows.mapped is not None  # noqa: S101  (the stage is there for row maps alone)
    fits = fit_row_maps(rows, partial(spread_sample, job.tasks(records.MAPS)))
    notes = [
        f"{name_of(row_map)}: {remark}."
        for row_map, fit in zip(rows.mapped.maps, fits, strict=True)
        for remark in row_map.remarks(fit)
    ]
    if job.run.purpose == "evaluation":  # whose report is the last stage, and tells all notes
        notes += [SEES_ALL] if job.passes.names else []
    else:
        for note in notes:
            job.callback.on_note(note)
    return {"notes": notes, "outputs": save_fits(job.run, fits)}


def map_stages(config: RunConfig) -> list[Stage]:
    """Return the stage that fits the row maps of a configuration; none where there is nothing to fit."""
    fitted = any(row_map.own_columns for row_map in config.dataset.maps)
    return [Stage(records.MAPS, "Fit row maps", _fit, measured=True)] if fitted else []
