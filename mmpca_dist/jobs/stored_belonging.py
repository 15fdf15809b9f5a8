"""Store what a run keeps to tell whether rows belong to those that it was fitted to, and load it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmpca_dist.belonging.held_out import Counts
from mmpca_dist.belonging.limits import ScoreCounts
from mmpca_dist.belonging.model import Belonging
from mmpca_dist.belonging.reference import RowScorer
from mmpca_dist.belonging.score import SCORES, Reference
from mmpca_dist.errors import InputError
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.stored_arrays import load_arrays, save_arrays
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.moments import ClassMoments

ARRAYS = ("spread", "span", "counts", "centres", "scatters", "within")
COUNTS = "_counts"
"""Ends the name of the array of a score's steps and counts."""


def save_belonging(run: RunDirectory, scorer: RowScorer, counts: Counts, classes: Any) -> list[str]:
    """Store what tells of rows whether they belong, by method, and return the names of the outputs."""
    shared: dict[str, Any] = {"mean": scorer.mean, "scale": scorer.scale}
    if scorer.adjustment is not None and len(scorer.adjustment.slopes):
        shared |= {"slopes": scorer.adjustment.slopes, "centre": scorer.adjustment.centre}
    outputs = []
    for method, (columns, reference) in scorer.references.items():
        arrays = shared | {name: getattr(reference, name) for name in ARRAYS}
        arrays |= {"matrix": scorer.matrix[:, columns], "classes": np.searchsorted(classes, reference.classes)}
        arrays |= {f"{name}{COUNTS}": np.stack([own.steps, own.counts]) for name, own in counts[method].items()}
        outputs.append(save_arrays(run, _group(method), arrays))
    return outputs


def load_reduced(run: RunDirectory, method: str, classes: Any) -> ClassMoments:
    """Return the class moments of the coordinates of a run's rows, less those of the mean row."""
    _, own = load_belonging(run, method, classes).scorer.references[method]
    weights = None if len(own.scatters) == len(own.counts) else np.ones((1, len(own.counts)))
    return ClassMoments(own.classes, own.counts, own.counts.astype(np.int64), own.centres, own.scatters, weights)


def load_belonging(run: RunDirectory, method: str, classes: Any) -> Belonging:
    """Return what a run keeps to tell whether rows belong; raise InputError where it keeps nothing."""
    record, section = run.record(records.BELONGING), run.config.belonging
    if record is None or section is None:
        raise InputError(
            f"The run in {run.uri} keeps nothing that tells whether rows belong to those that trained: run it with "
            "belonging: {} in its configuration."
        )
    arrays = load_arrays(run, record, _group(method))
    reference = Reference(classes=classes[arrays["classes"].astype(int)], **{name: arrays[name] for name in ARRAYS})
    adjustment = Adjustment.of_slopes(arrays["slopes"], arrays["centre"]) if "slopes" in arrays else None
    columns = np.arange(arrays["matrix"].shape[1])
    scorer = RowScorer(
        arrays["matrix"], arrays["mean"], arrays.get("scale"), {method: (columns, reference)}, adjustment
    )
    counts = {}
    for name in (SCORES[score].column for score in section.scores):
        steps, numbers = arrays[f"{name}{COUNTS}"]
        counts[name] = ScoreCounts(steps.astype(np.int64), numbers, np.zeros(5))
    return Belonging(method, scorer, counts, section.alpha)


def _group(method: str) -> str:
    return f"belonging/{method}.zarr"
