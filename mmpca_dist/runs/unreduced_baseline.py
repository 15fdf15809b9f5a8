"""Whether an evaluation compares reductions with all columns, which nobody has to ask for."""

from __future__ import annotations

from dataclasses import replace

from dask.utils import format_bytes

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.eigen.options import choose_solver
from mmpca_dist.evaluation.splits import PartSizes
from mmpca_dist.jobs import records
from mmpca_dist.jobs.first_stages import request_of
from mmpca_dist.jobs.job import Job
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.all_columns import METHOD
from mmpca_dist.planning.evaluation_plan import plan_evaluation
from mmpca_dist.planning.plan import Plan
from mmpca_dist.predictors.classifiers import is_from_moments
from mmpca_dist.runs import score_stage
from mmpca_dist.tables.dataset import Dataset

LEFT_OUT = "All columns are not evaluated for comparison: "


def planned_with_all_columns(job: Job) -> tuple[Plan, str]:
    """Return the plan of an evaluation, and why all columns are left out, in words; empty where they are not.

    Where they are evaluated, and were not asked for, they become the last method of the job. An evaluation that goes on
    keeps to what it began with, whatever memory there is now.
    """
    plan, config = _plan(job), job.config
    if any(not section.method.reduces for section in config.methods):
        return plan, ""
    begun = job.run.record(records.TUNE) if job.key else None
    reason = begun["left_out"] if begun else _impossible(config, job.dataset, job.drawn_splits())
    if reason:
        return plan, reason
    before = job.inputs
    methods = [*config.methods, MethodSection.model_validate(METHOD.name)]
    job.inputs = replace(before, config=config.model_copy(update={"methods": methods}))
    larger = _plan(job)
    if begun is None and plan.memory <= plan.memory_limit < larger.memory:
        job.inputs = before
        return plan, (
            f"{LEFT_OUT}with them the plan needs {format_bytes(larger.memory)} of memory a worker, and {plan.allowed} "
            "are allowed. Raise compute.memory_limit."
        )
    return larger, ""


def _plan(job: Job) -> Plan:
    splits, dataset = job.drawn_splits(), job.dataset
    merged = score_stage.merges(dataset, splits, job.config)
    evaluation = score_stage.evaluation_request(job.config, splits, merged=merged, n_features=dataset.n_features)
    return plan_evaluation(dataset, job.spans, request_of(job), evaluation)


def _impossible(config: RunConfig, dataset: Dataset, parts: PartSizes) -> str:
    """Return why all columns cannot be evaluated, whatever the memory; empty where they can."""
    n_features, n_train = dataset.n_features, int(parts.n_train.max())
    if choose_solver(config.solver.options(), n_train, n_features, config.needs()).in_passes:
        return f"{LEFT_OUT}a solver in passes forms no scatter of {n_features:,} columns."
    turned = [spec.label for spec in config.evaluation.classifiers if not spec.classifier.rotatable]
    if parts.n_train.min() < n_features and turned and not config.dataset.predicts:
        return (
            f"{LEFT_OUT}of fewer rows than columns they are coordinates in the span of the rows, and {turned[0]} "
            "depends on the columns themselves. Evaluate with fisher, svm or logistic alone."
        )
    if any(spec.name == "qda" and not spec.options.get("reg_param") for spec in config.evaluation.classifiers):
        return f"{LEFT_OUT}qda fails where columns depend on one another. Give qda a reg_param above 0."
    largest = 8 * dataset.n_rows * min(n_features, n_train)
    classifiers = config.evaluation.classifiers
    whole = [spec.label for spec in classifiers if not (is_from_moments(spec) or spec.classifier.out_of_core)]
    if not config.dataset.predicts and whole and largest > LIMITS.gathered_bytes:
        return (
            f"{LEFT_OUT}{whole[0]} would be fitted to {format_bytes(largest)} of rows, and may be to "
            f"{format_bytes(LIMITS.gathered_bytes)}."
        )
    return ""
