"""The stage that fits row maps, before anything else reads rows."""

from __future__ import annotations

from functools import partial

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs import records
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.records import MapsRecord
from mmpca_dist.jobs.run_stage import PassCounter, measured
from mmpca_dist.jobs.stored_maps import save_fits
from mmpca_dist.passes.row_map_fits import fit_row_maps, spread_sample
from mmpca_dist.tables.mapped_rows import MappedRows, name_of

SEES_ALL = (
    "Row maps were fitted to a sample of all rows, without labels, so held-out rows may be among the landmarks and in "
    "the estimate of gamma."
)
"""A note on evaluations."""


def _fit(job: Job) -> MapsRecord:
    rows, passes = job.inputs.dataset, PassCounter(job, records.MAPS)
    assert isinstance(rows, MappedRows)  # noqa: S101  (the stage is there for row maps alone)
    tasks = job.tasks(records.MAPS, passes)
    with measured(job) as peak:
        fits = fit_row_maps(rows, partial(spread_sample, tasks))
    notes = [
        f"{name_of(row_map)}: {remark}."
        for row_map, fit in zip(rows.maps, fits, strict=True)
        for remark in row_map.remarks(fit)
    ]
    if job.run.purpose == "evaluation":  # whose report is the last stage, and tells all notes
        notes += [SEES_ALL] if passes.names else []
    else:
        for note in notes:
            job.callback.on_note(note)
    return {
        "passes": passes.names,
        "bytes": passes.n_bytes,
        "memory": peak(),
        "notes": notes,
        "outputs": save_fits(job.run, fits),
    }


FIT_MAPS = Stage(records.MAPS, "Fit row maps", _fit)


def map_stages(config: RunConfig) -> list[Stage]:
    """Return the stage that fits the row maps of a configuration; none where there is nothing to fit."""
    return [FIT_MAPS] if any(row_map.own_columns for row_map in config.dataset.maps) else []
