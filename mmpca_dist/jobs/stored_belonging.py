"""Load what a run keeps to tell whether rows belong to those that it was fitted to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmpca_dist.belonging.held_out import Counts
from mmpca_dist.belonging.model import Belonging
from mmpca_dist.belonging.reference import RowScorer
from mmpca_dist.errors import InputError
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.stored_arrays import load_value
from mmpca_dist.statistics.moments import ClassMoments

FOLDS, HELD_OUT = "folds/models.npz", "folds/held-out.npz"
"""The models of the folds, from the reduction, and the counts of the scores of held-out rows, from the projection."""
WHOLE, COUNTS = "belonging/whole.npz", "belonging/counts.npz"
"""The scorer of all rows, and these counts."""


def load_reduced(run: RunDirectory, method: str) -> ClassMoments:
    """Return the class moments of the coordinates of a run's rows, less those of the mean row."""
    _, own = load_belonging(run, method).scorer.references[method]
    weights = None if len(own.scatters) == len(own.counts) else np.ones((1, len(own.counts)))
    return ClassMoments(own.classes, own.counts, own.counts.astype(np.int64), own.centres, own.scatters, weights)


def load_belonging(run: RunDirectory, method: str) -> Belonging:
    """Return what a run keeps to tell whether rows belong; raise InputError where it keeps nothing."""
    scorer, counts, alpha = load_all(run, [method])
    return Belonging(method, scorer, counts[method], alpha)


def load_all(run: RunDirectory, methods: Sequence[str]) -> tuple[RowScorer, Counts, float]:
    """Return the scorer of some methods, the counts of the scores of held-out rows, and alpha; as `load_belonging`."""
    record, section = run.record(records.BELONGING), run.config.belonging
    if record is None or section is None:
        asked = (
            "it was refreshed, and limits are of rows that are held out, where a refresh reads new rows alone. Ask the "
            "run that it extends."
        )
        how = "run it with belonging: {} in its configuration." if section is None else asked
        raise InputError(
            f"The run in {run.uri} keeps nothing that tells whether rows belong to those that trained: {how}"
        )
    (whole,) = load_value(run, record, WHOLE)
    if unsolved := [method for method in methods if method not in whole.references]:
        raise InputError(f"The method {unsolved[0]} of the run in {run.uri} has no components, and so no scores.")
    return whole.only(methods), load_value(run, record, COUNTS), section.alpha
