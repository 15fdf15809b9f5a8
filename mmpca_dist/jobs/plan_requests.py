"""What planning needs to know of a job."""

from __future__ import annotations

from typing import cast

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.records import PlanRecord
from mmpca_dist.planning.plan import Plan, Resources
from mmpca_dist.planning.run_plan import Request
from mmpca_dist.statistics.pairings import median_sets


def planned(job: Job, plan: Plan) -> PlanRecord:
    """Show the plan of a job, refuse one that is too large, and return its record."""
    job.callback.on_plan(plan)
    plan.refuse_if_too_large()
    return cast(PlanRecord, {**plan.to_json(), "rows": plan.rows()})


def request_of(job: Job) -> Request:
    """Return what the plan must know of a job's settings."""
    config, census, needs = job.config, job.counted(), job.config.needs()
    sets = median_sets(len(census.classes), *needs.medians)
    return Request(
        counts=census.counts,
        needs=needs,
        n_methods=len(config.methods),
        n_projected=len(config.projected),
        formats=len(set(config.project.format)),
        median_rows=0 if sets is None else int((sets @ census.counts).sum()),
        resources=resources_of(config, config.output),
        standardize=config.standardize,
        solver=config.solver.options(),
    )


def resources_of(config: RunConfig, output: str) -> Resources:
    """Return what a run, or a projection by its methods into ``output``, may use."""
    compute = config.compute
    return Resources(
        precision=config.precision,
        output=output,
        workers=compute.workers,
        threads_per_worker=compute.threads_per_worker,
        in_process=compute.cluster == "threads",
        memory_limit=compute.memory_bytes,
    )
