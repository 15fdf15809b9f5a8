"""The first stages of a run whose table is the moments of another run; it solves and reports as any other."""

from __future__ import annotations

from typing import cast

from mmpca_dist.errors import InputError
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import fits_of
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.stored_arrays import save_statistics
from mmpca_dist.jobs.stored_moments import StoredMoments
from mmpca_dist.runs.refresh_inputs import maps_record
from mmpca_dist.statistics.working_statistics import tall_statistics


def _table(job: Job) -> StoredMoments:
    return cast(StoredMoments, job.inputs.table)


def _count(job: Job) -> records.CountRecord:
    table, config = _table(job), job.config
    wanted = [
        (job.inputs.asked.chooses, "n_components: auto holds out"),
        (config.belonging is not None, "belonging holds out"),
        *((bool(one.needs.medians), f"{one.label} takes medians of") for one in config.methods),
        *((bool(one.needs.searches), f"{one.label} compares") for one in config.methods),
        *((bool(one.needs.swept), f"{one.label} passes over") for one in config.methods),
        *((bool(one.needs.shrinkages), f"shrinkage: auto of {one.label} holds out") for one in config.methods),
    ]  # fmt: skip
    for refused, what in wanted:
        if refused:
            raise InputError(f"{what} rows, and dataset.moments has none. Leave it out, or run it over the rows.")
    note = (
        f"Solved from the moments of {table.run.uri}, {table.asking}. Rows are not projected: mmpca transform does it."
    )
    job.callback.on_note(note)
    return {**table.counted(), "standardize": config.standardizes, "notes": [note]}


def _reduce(job: Job) -> records.ReduceRecord:
    statistics = tall_statistics(_table(job).moments, precision=job.config.precision)
    return {"outputs": save_statistics(job.run, statistics), "shrinkages": []}


def _maps(job: Job) -> records.MapsRecord:
    base = _table(job).run
    return maps_record(base, job.run, fits_of(base) or [])


COUNT = Stage(records.COUNT, "Ask the moments of a run", _count)
MAPS = Stage(records.MAPS, "Take over row maps", _maps)
REDUCE = Stage(records.REDUCE, "Keep the moments asked for", _reduce, measured=True)
