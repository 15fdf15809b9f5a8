"""The stages of an evaluation."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import yaml
from dask.utils import format_bytes

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.configuration.schema import RunConfig, as_config
from mmpca_dist.eigen.options import choose_solver
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.splits import PartSizes
from mmpca_dist.evaluation.tables import LEFT_OUT, RECONSTRUCTION, REGRESSION, ErrorTable
from mmpca_dist.evaluation.training import read_all
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import versions
from mmpca_dist.jobs.events import Callback, told
from mmpca_dist.jobs.first_stages import COUNT, look_ahead, map_stages, planned
from mmpca_dist.jobs.inputs import held_out_in_words, note_on_many, notes_on_parts
from mmpca_dist.jobs.job import Job, Stage, open_job, run_stage
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.all_columns import METHOD
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.passes.rows import spread_sample
from mmpca_dist.planning.plan import Plan
from mmpca_dist.predictors.classifiers import is_from_moments
from mmpca_dist.predictors.fits import GRID, choose_C
from mmpca_dist.results.evaluation import Evaluation
from mmpca_dist.results.notes import goes_by_scatter, note_ahead
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.runs.evaluation_scores import SplitRecords
from mmpca_dist.runs.outcomes import FinishedEvaluation
from mmpca_dist.runs.pilots import planned_evaluation
from mmpca_dist.statistics.widened_rows import adjusted_rows, adjustment_from_pass
from mmpca_dist.tables.column_scatter import ColumnSpread, dominance_note, dominant_columns
from mmpca_dist.tables.dataset import Dataset

SAMPLE_ROWS, SAMPLE_BYTES = 4096, 64 << 20
"""The largest sample of rows that tells which columns hold nearly all of the scatter."""
WITHOUT_ALL = "All columns are not evaluated for comparison: "


def plan_of_evaluation(job: Job) -> Plan:
    """Return the plan of an evaluation, from metadata and labels."""
    splits, dataset = job.splits, job.dataset
    plan, job.left_out = planned_with_all_columns(job)
    notes = [note_on_many(job.config.evaluation, splits), note_ahead(job.config, dataset), job.left_out]
    return replace(plan, note=" ".join(filter(None, notes)))


def planned_with_all_columns(job: Job) -> tuple[Plan, str]:
    """Return the plan of an evaluation, and why all columns are left out, in words; empty where they are not.

    Where they are evaluated, and were not asked for, they become the last method of the job. An evaluation that goes on
    keeps to what it began with, whatever memory there is now.
    """
    plan, config = _planned(job), job.config
    asked = any(section.name == METHOD.name for section in config.methods)
    if asked or config.dataset.classless:  # all columns leave nothing to reconstruct
        return plan, ""
    begun = job.run.record(records.TUNE) if job.key else None
    reason = begun["left_out"] if begun else _impossible(config, job.dataset, job.splits)
    if reason:
        return plan, reason
    before = job.inputs
    methods = [*config.methods, MethodSection.model_validate(METHOD.name)]
    job.inputs = replace(before, config=config.model_copy(update={"methods": methods}))
    larger = _planned(job)
    if begun is None and plan.memory <= plan.memory_limit < larger.memory:
        job.inputs = before
        return plan, (
            f"{WITHOUT_ALL}with them the plan needs {format_bytes(larger.memory)} of memory a worker, and "
            f"{plan.allowed} are allowed. Raise compute.memory_limit."
        )
    return larger, ""


def _planned(job: Job) -> Plan:
    return planned_evaluation(job, evaluation_scores.evaluation_request(job, job.splits))


def _impossible(config: RunConfig, dataset: Dataset, parts: PartSizes) -> str:
    """Return why all columns cannot be evaluated, whatever the memory; empty where they can."""
    n_features, n_train = dataset.n_features, int(parts.n_train.max())
    if choose_solver(config.solver.options(), n_train, n_features, config.needs(), dataset.held).in_passes:
        return f"{WITHOUT_ALL}a solver in passes forms no scatter of {n_features:,} columns."
    turned = [spec.label for spec in config.evaluation.classifiers if not spec.classifier.rotatable]
    if parts.n_train.min() < n_features and turned and not config.dataset.predicts:
        return (
            f"{WITHOUT_ALL}of fewer rows than columns they are coordinates in the span of the rows, and {turned[0]} "
            "depends on the columns themselves. Evaluate with fisher, svm or logistic alone."
        )
    if any(spec.name == "qda" and not spec.options.get("reg_param") for spec in config.evaluation.classifiers):
        return f"{WITHOUT_ALL}qda fails where columns depend on one another. Give qda a reg_param above 0."
    largest = 8 * dataset.n_rows * min(n_features, n_train)
    classifiers = config.evaluation.classifiers
    whole = [spec.label for spec in classifiers if not (is_from_moments(spec) or spec.classifier.out_of_core)]
    if not config.dataset.predicts and whole and largest > LIMITS.gathered_bytes:
        return (
            f"{WITHOUT_ALL}{whole[0]} would be fitted to {format_bytes(largest)} of rows, and may be to "
            f"{format_bytes(LIMITS.gathered_bytes)}."
        )
    return ""


def preview_evaluation(config: RunConfig, callback: Callback | None = None) -> Plan:
    """Return the plan of an evaluation that is not begun, from metadata and labels, as ``preview`` does of a run."""
    return plan_of_evaluation(look_ahead(config, "evaluation", callback))


def _tune(job: Job) -> records.TuneRecord:
    """Choose constants by cross-validation on all rows, the same for all methods and splits.

    Rows are in the original columns, standardised where reductions are.
    """
    config = job.config
    specs = [] if config.dataset.predicts else [s for s in config.evaluation.classifiers if s.C == "auto"]
    if not specs:
        return {"penalties": {}, "left_out": job.left_out}
    if job.dataset.n_bytes > LIMITS.direct_bytes:
        raise InputError(
            f"C: auto tries penalties on all rows in memory, and {job.dataset.uri} is larger than "
            f"{LIMITS.direct_bytes >> 20} MiB. Give C as a number."
        )
    rows = job.rows()
    read = read_all(adjusted_rows(rows, adjustment_from_pass(rows)).dataset, job.splits, job.tasks())
    penalties = choose_C(
        specs,
        read.X,
        read.label,
        read.roles.get("group"),
        read.weight,
        seed=config.evaluation.seed,
        standardize=config.standardizes,
        progress=lambda done, total: job.callback.on_progress("tune", done, total),
    )
    return {"penalties": penalties, "left_out": job.left_out}


def _score(job: Job) -> records.ScoreRecord:
    return evaluation_scores.score_splits(job, records.SCORE, job.results.of(records.TUNE)["penalties"])


def _report(job: Job) -> records.CompareRecord:
    from mmpca_dist.report.evaluation_page import write_evaluation_report

    splits = SplitRecords(job.run.path("splits"), job.key).read(job.results.of(records.SCORE)["n_splits"])
    evaluation, maps = evaluation_of(job, splits), job.results.find(records.MAPS)
    notes = [*evaluation.notes, *filter(None, [_heavy_note(job)])]
    record = write_evaluation_report(job.run.uri, replace(evaluation, notes=notes))
    told = [*job.results.of(records.COUNT)["notes"], *(maps["notes"] if maps else [])]
    for note in record["notes"]:
        if note not in told:
            job.callback.on_note(note)
    return record


def _heavy_note(job: Job) -> str:
    """Return the note of runs on columns that hold nearly all of the scatter, from a sample of the rows; or nothing."""
    config, dataset, count = job.config, job.dataset, job.results.of(records.COUNT)
    if dataset.stored.dominant_columns or not goes_by_scatter(config):
        return note_ahead(config, dataset)
    sample = spread_sample(job.tasks(), dataset, max(2, min(SAMPLE_ROWS, SAMPLE_BYTES // dataset.row_bytes)), 0)
    spread = ColumnSpread(count["n_features"])
    spread.add(sample[:, : count["n_features"]])  # without indicators and covariates
    return dominance_note(dominant_columns(spread.squares), count["feature_names"], count["n_features"]) or ""


def evaluation_of(job: Job, splits: list[dict[str, Any]]) -> Evaluation:
    """Return the results of an evaluation, from the records of its splits."""
    config, count, results = job.config, job.results.of(records.COUNT), job.results
    classless = config.dataset.classless
    classes, counts = ([], []) if classless else ([str(label) for label in count["classes"]], count["counts"])
    maps = results.find(records.MAPS)
    notes = [
        *count["notes"],
        *notes_on_parts(config.evaluation, job.inputs.parts_column, classes, counts),
        *filter(None, [job.left_out]),
        *(maps["notes"] if maps else []),
        *([UNEXPLAINED.format(", ".join(count["targets"]))] if "targets" in count else []),
        *([LEFT] if classless else []),
        *([WEIGHTED] if config.dataset.weighted and not classless and "targets" not in count else []),
        *_counted(config, splits, "unconverged", UNCONVERGED),
        *_counted(config, splits, "edges", AT_EDGE),
        *_largest_penalties(config, splits, results.of(records.TUNE)["penalties"]),
    ]
    cautions = {method: text for record in reversed(splits) for method, text in record["cautions"].items()}
    notes += [f"{title_of(method)}, in a split: {text}" for method, text in cautions.items()]
    notes += [note for record in splits for note in record["notes"]]
    sampled = any(record.get("sampled") for record in splits)
    return Evaluation(
        dataset={
            "uri": config.dataset.uri,
            "classes": classes,
            **{name: fact for name, fact in count.items() if name in FACTS},
        },
        splits=held_out_in_words(config.evaluation, len(splits), classless),
        config=config,
        classifiers=_titles(config, results.of(records.TUNE)["penalties"]),
        table=ErrorTable.of(splits, count["n_rows"]),
        margin_rows="a sample of the rows held out" if sampled else "the rows held out",
        margins=[{**line, "split": record["split"]} for record in splits for line in record["margins"]],
        seconds=_summed(record["seconds"] for record in splits),
        bytes_read=_summed(record["read"] for record in splits),
        baselines=[100 * record["guessed"] / record["rows"] for record in splits],
        notes=list(dict.fromkeys(notes)),
        stages={name: results[name]["seconds"] for name in results},
        config_yaml=yaml.safe_dump(job.inputs.asked.model_dump(mode="json", exclude={"project"}), sort_keys=False),
        folder=job.run.uri,
        versions=versions(),
    )


FACTS = ("n_rows", "n_features", "counts", "targets", "weights", "missing", "feature_names", "stored")
"""The parts of the record of the count that an evaluation tells of its data set."""
WEIGHTED = (
    "Rows have weights: errors are the weights of the rows that are misclassified, in percent of those held out. "
    "Margins are of rows, whatever their weights."
)
UNEXPLAINED = (
    "Errors are the share of the variance of {} in the rows held out that linear regression on the components leaves "
    "unexplained, 100 (1 - R^2) percent; with several targets a mean. Weights count, where rows have any. R^2 and RMSE "
    "of every split are in tables/errors."
)
LEFT = (
    "Errors are the share of the variance of the rows held out, about the mean of the rows that train, that is left "
    "when they are reconstructed from their components; of left-out columns, what is left when the components predict "
    "each column from the others of its row. Weights count, where rows have any."
)


UNCONVERGED = "ended before they reached the tolerance: raise max_iter or tol."
AT_EDGE = "chose the smallest or the largest value that was tried, and values beyond it may err less still."


def _counted(config: RunConfig, splits: list[dict[str, Any]], key: str, what: str) -> list[str]:
    """Return a note for every method some of whose fits are listed in the records."""
    counts = Counter(label for record in splits for label in record[key])
    n_fits = len(splits) * len(config.sizes)
    return [
        f"{section.title}: {counts[section.label]} of {n_fits} fits {what}"
        for section in config.methods
        if counts[section.label]
    ]


def _largest_penalties(config: RunConfig, splits: list[dict[str, Any]], penalties: dict[str, float]) -> list[str]:
    """Return a note for every classifier whose C was chosen and is the largest: of equal ones it is the smallest."""
    chosen = [(line["classifier"], line["C"]) for record in splits for line in record["errors"] if "C" in line]
    chosen += list(penalties.items())
    fits, largest = Counter(label for label, _ in chosen), Counter(label for label, C in chosen if GRID[-1] == C)
    return [
        f"{spec.label}: {largest[spec.label]} of {fits[spec.label]} choices of C ended with the largest value that was "
        f"tried, {GRID[-1]:g}: larger ones may err less still. Give C as a number to try one."
        for spec in config.evaluation.classifiers
        if largest[spec.label]
    ]


def _summed(costs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the costs of all splits together, by method, or by what serves all methods."""
    total: Counter[str] = Counter()
    for cost in costs:
        total.update(cost)
    return dict(total)


def _titles(config: RunConfig, penalties: dict[str, float]) -> dict[str, str]:
    """Return what classifiers are called in words, with their constants."""
    if config.dataset.predicts:
        return {REGRESSION: REGRESSION}
    if config.dataset.classless:
        return {name: name for name in (RECONSTRUCTION, LEFT_OUT)}
    titles = {}
    for spec in config.evaluation.classifiers:
        penalty = penalties.get(spec.label, spec.C)
        constant = f", C = {penalty:g}" if isinstance(penalty, float) else ", C nested" if penalty == "nested" else ""
        titles[spec.label] = spec.label + constant
    return titles


PLAN = Stage(records.PLAN, "Plan", lambda job: planned(job, plan_of_evaluation(job)))
TUNE = Stage(records.TUNE, "Choose penalties of classifiers", _tune)
SCORE = Stage(records.SCORE, "Fit and score on every split", _score)
COMPARE = Stage(records.COMPARE, "Write tables and the report", _report)


def evaluation_stages(config: RunConfig) -> list[Stage]:
    """Return the stages of an evaluation, in order."""
    return [COUNT, PLAN, *map_stages(config), TUNE, SCORE, COMPARE]


def evaluate(
    config: RunConfig | str | os.PathLike | dict[str, Any],
    callbacks: list[Callback] | None = None,
    client: Any = None,
) -> FinishedEvaluation:
    """Evaluate methods without Prefect: every stage in turn, in this process or on the cluster it names."""
    with open_job(as_config(config), told(callbacks), "evaluation", client) as job:
        for stage in evaluation_stages(job.config):
            run_stage(job, stage)
        return FinishedEvaluation(job.results, job.run.uri)
