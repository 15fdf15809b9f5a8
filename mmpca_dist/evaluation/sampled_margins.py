"""Margins on samples of the rows: on all rows that are in memory.

A row is in a sample where the hash of its number is small enough: the same rows whatever the chunks and workers. A
sample of few rows is all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.evaluation.margins import classifiers_before, margin_classifiers, margin_notes, records_of_rows
from mmpca_dist.evaluation.reductions import Reductions
from mmpca_dist.evaluation.request import Classifiers
from mmpca_dist.evaluation.scores import Fitted
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.evaluation.thresholds import mix, row_hashes, row_mixes
from mmpca_dist.limits import LIMITS
from mmpca_dist.predictors.fits import FittedClassifier
from mmpca_dist.predictors.linear import LinearRule
from mmpca_dist.tables.batch import Batch

LEAST_ROWS = 64
"""Rows of a part that is measured, and of a class that is fitted to, however wide the rows are."""

KEY = mix(np.full(1, 1 << 62, np.uint64))[0]
"""Neither the key of a split nor the mix of a row number."""

EVERY = np.uint64(2**64 - 1)


Sample = Mapping[str, NDArray]
"""Rows ``X`` (m, d) in the order of their numbers; ``hash``, ``part`` and ``code`` of the class, and ``group`` and
``weight``, if there are any, (m,)."""


@dataclass(frozen=True)
class Sampling:
    """Which rows are sampled, by the largest hash that is."""

    measured: NDArray[np.uint64]
    """Shape (P,): of the rows of each part whose distances are measured while it is held out; zero of other parts."""
    fitted: NDArray[np.uint64]
    """Shape (C,): of the rows of each class that classifiers in the original columns are fitted to while they train;
    zero where moments do."""
    splits: Splits

    @classmethod
    def of(cls, splits: Splits, n_features: int, fitted: bool, every: bool = False) -> Sampling:
        """Return which rows are sampled: ``every`` one, or as many as are affordable.

        With ``fitted``, they are also those that classifiers in the original columns are fitted to.
        """
        affordable = LIMITS.margin_sample_bytes // (8 * n_features)
        sizes, counts = splits.counts[0].sum(axis=0), splits.counts[0].sum(axis=1)
        measured, to_fit = np.zeros(len(sizes), np.uint64), np.zeros(len(counts), np.uint64)
        each = max(min(LIMITS.margin_rows, affordable // len(splits.held_out)), LEAST_ROWS)
        for part in splits.held_out:
            measured[part] = EVERY if every else _largest_hash(each, int(sizes[part]))
        for code, count in enumerate(counts.tolist() if fitted else ()):
            least = max(affordable * count // int(counts.sum()), LEAST_ROWS)
            to_fit[code] = EVERY if every else _largest_hash(least, count)
        return cls(measured, to_fit, splits)

    def take(self, batch: Batch, parts: NDArray, codes: NDArray[np.intp]) -> Sample:
        """Return the sample of consecutive rows, as of `Splits.valued`, given their parts and classes."""
        hashes = row_hashes(row_mixes(batch.start, batch.stop), KEY)
        chosen = np.flatnonzero(hashes <= np.maximum(self.measured[parts], self.fitted[codes]))
        arrays = {"X": batch.X, "hash": hashes, "part": parts, "code": codes}
        arrays |= {name: batch.roles[name] for name in ("group", "weight") if name in batch.roles}
        return {name: each[chosen] for name, each in arrays.items()}

    def is_measured(self, sample: Sample, part: int) -> NDArray[np.bool_]:
        """Return which rows are measured while a part is held out."""
        return (sample["part"] == part) & (sample["hash"] <= self.measured[part])

    def is_fitted_to(self, sample: Sample, part: int) -> NDArray[np.bool_]:
        """Return which rows classifiers are fitted to while a part is held out."""
        return self.splits.trains(part)[sample["part"]] & (sample["hash"] <= self.fitted[sample["code"]])

    def notes(
        self, classifiers: Classifiers, records: Sequence[dict[str, Any]], reductions: Reductions, sparse: bool
    ) -> list[str]:
        """Return what a reader must know of margins: why there are none, and that they are not those of all rows."""
        notes = margin_notes(records, classifiers, sparse and reductions.scale is not None)
        if not records:
            return notes
        if (self.measured[self.measured > 0] < EVERY).any():
            notes.append(
                "Margins are those of samples of the rows held out: a smallest margin is the smallest of a sample."
            )
        labels = {record["classifier"] for record in records}
        if any(spec.label in labels for spec in classifiers.from_rows) and (self.fitted < EVERY).any():
            notes.append(
                "For the margins in the original columns, classifiers are fitted to a sample of the rows that train."
            )
        return notes


def _largest_hash(size: int, count: int) -> np.uint64:
    """Return the hash that about ``size`` of ``count`` rows do not exceed, or all of them."""
    return np.uint64(min((size << 64) // count, int(EVERY)))


def sampled_margins(
    sample: Sample,
    sampling: Sampling,
    part: int,
    reductions: Reductions,
    classifiers: Classifiers,
    before: Mapping[str, LinearRule],
    fitted: Fitted,
) -> dict[str, Any]:
    """Return ``margins`` of a part held out, as of ``margin_records``, and of how many rows they are.

    Where reductions are of standardised columns, so are distances before them: less the means and divided by the
    deviations of the rows that train; CSR rows are only divided. ``before`` are the classifiers in these columns, by
    label, that moments determine; others are fitted to the sample. ``fitted`` are those of reduced rows.
    """
    measured, labels = sampling.is_measured(sample, part), sampling.splits.classes[sample["code"]]
    X, y = sample["X"][measured], labels[measured]
    Z, items = reductions.reduced(X), reductions.items
    specs = margin_classifiers(classifiers, fitted, len(items), issparse(X))
    models = dict[str, FittedClassifier](before)
    if missing := [spec for spec in specs if spec.label not in models]:
        train = sampling.is_fitted_to(sample, part)
        rows = Batch.of_arrays(**{**sample, "label": labels}).take(train)
        rows = replace(rows, X=reductions.standardized(sample["X"][train]))
        models |= classifiers_before(missing, rows, classifiers)
    records = records_of_rows(specs, models, fitted, reductions.standardized(X), Z, items, y)
    sampled = len(y) < sampling.splits.counts[0, :, part].sum().item()
    return {"margins": records, "margin_rows": len(y), "sampled": sampled}
