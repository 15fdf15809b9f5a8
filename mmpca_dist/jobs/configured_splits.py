"""The splits of a configuration."""

from __future__ import annotations

from collections.abc import Sequence

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.evaluation.splits import Splits, fold_splits, given_splits, share_splits
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.part_column import open_parts


def splits_of(job: Job) -> Splits:
    """Return the splits of an evaluation, from passes over the labels alone, which are made once.

    Raises
    ------
    InputError
        Where a class has too few rows, or a column of parts does not fit.
    """
    if job.splits is None:
        job.splits = _dealt(job)
    return job.splits


def _dealt(job: Job) -> Splits:
    wanted, rows = job.config.evaluation, job.rows()
    if wanted.splits == "shares":
        return share_splits(rows, wanted.train, n_splits=wanted.count, seed=wanted.seed)
    if wanted.splits == "folds":
        return fold_splits(rows, wanted.folds, n_splits=wanted.count, seed=wanted.seed)
    return given_splits(rows, open_parts(job.config, job.dataset), wanted.held_out)


def describe(config: RunConfig, n_splits: int) -> str:
    """Return in words how rows are held out."""
    wanted = config.evaluation
    if wanted.splits == "shares":
        times = f"{wanted.count} stratified splits" if wanted.count > 1 else "one stratified split"
        return f"{times}, {wanted.train} of each class trains"
    if wanted.splits == "folds":
        again = f", dealt {wanted.count} times" if wanted.count > 1 else ""
        return f"{wanted.folds} stratified folds{again}"
    parts = f"{n_splits} parts" if wanted.held_out is None else f"part {wanted.held_out}"
    return f"{parts} of {wanted.column} held out"


def notes_on(config: RunConfig, classes: Sequence[str], counts: Sequence[int]) -> list[str]:
    """Return what is to be known of the splits: folds that hold no row of a class."""
    wanted = config.evaluation
    if wanted.splits != "folds":
        return []
    few = [(name, n) for name, n in zip(classes, counts, strict=True) if n < wanted.folds]
    return [
        f"Class {name} has {n} row{'s' * (n != 1)}: {wanted.folds - n} of the {wanted.folds} folds hold none of it."
        for name, n in few
    ]
