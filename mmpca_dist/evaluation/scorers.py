"""Count the errors of fitted classifiers on the rows held out, for all methods and sizes in one pass.

Linear classifiers of all methods and sizes are scored by one matrix product, unless classes are many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.ranking import RANKED_BYTES, ranking_scores, ranks
from mmpca_dist.evaluation.reductions import Reduction, Reductions
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.sampled_margins import Sample, Sampling
from mmpca_dist.evaluation.scores import count_wrong, error_counts, error_line
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.methods.base.transform import centred
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.tree_reduction import concatenated
from mmpca_dist.passes.units import read_batches
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import FittedClassifier, linear_parts
from mmpca_dist.predictors.specification import Rule
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

SCORED_ROWS = 4096
"""Rows that are scored at once."""
MAX_DECISIONS = 4096
"""Decisions on a row that one product of all columns makes. With more classes, products of the reduced rows are far
smaller."""

UNRANKED = (
    "AUC and average precision of classifiers from moments are left out: they rank the scores of all rows held out, "
    f"which take more than {RANKED_BYTES >> 20} MiB. Evaluate fewer methods, sizes or classifiers."
)


@dataclass(frozen=True)
class _Product:
    """L linear classifiers of few classes: decisions are ``(x - centre) @ weights + offsets``."""

    numbers: list[int]
    """Which of all classifiers they are."""
    centre: NDArray[np.float64]
    weights: NDArray
    """Shape (d, L u), u = 1 for two classes, else C."""
    offsets: NDArray[np.float64]

    def decisions(self, rows: NDArray) -> NDArray:
        """Return the decisions on rows, shape (n, L u)."""
        return np.asarray(centred(rows, self.centre, self.weights.dtype) @ self.weights + self.offsets)


@dataclass(frozen=True)
class Scorer:
    """Classifiers that are scored on the rows of a part held out."""

    part: int
    scored: Sequence[tuple[Reduction, ClassifierSection]]
    """R of them."""
    of_reduced: Mapping[int, FittedClassifier]
    """The classifiers that take reduced rows, by their numbers among all."""
    reductions: Reductions
    classes: NDArray
    product: _Product | None = None
    """The others."""
    without: int | None = None
    """Another part that did not train, either: errors are those of nested folds, and scores are not ranked."""

    def count_errors(
        self, batch: Batch, codes: NDArray[np.intp], held_out: NDArray[np.intp], scores: NDArray | None = None
    ) -> NDArray:
        """Return how many of the rows ``held_out`` of a batch every classifier gets wrong, or their weights.

        The shape is (R, ...), as of `count_wrong`. Of two classes, ``scores`` (n, R) are filled.
        """
        n_classes, weights = len(self.classes), batch.weight
        errors = error_counts((len(self.scored),), n_classes, weights is not None)
        for start in range(0, len(held_out), SCORED_ROWS):
            block = held_out[start : start + SCORED_ROWS]
            rows, true = batch.X[block], codes[block]
            own = None if weights is None else weights[block]
            if self.product is not None:
                decisions = self.product.decisions(self.reductions.in_columns(rows))
                if n_classes == 2:
                    taken_for = (decisions > 0).astype(np.intp)
                else:
                    taken_for = np.argmax(decisions.reshape(len(true), -1, n_classes), axis=2)
                errors[self.product.numbers] += count_wrong(taken_for, own, true, n_classes)
                if scores is not None:
                    scores[start : start + len(true), self.product.numbers] = decisions
            if self.of_reduced:
                Z = self.reductions.reduced(rows)
                for number, rule in self.of_reduced.items():
                    reduced = Z[:, self.scored[number][0].columns]
                    found = None if scores is None else ranking_scores(rule, reduced)
                    if scores is not None:
                        scores[start : start + len(true), number] = np.nan if found is None else found
                    if found is not None and isinstance(rule, Rule):
                        taken_for = (found > 0).astype(np.intp)
                    else:
                        taken_for = np.searchsorted(self.classes, rule.predict(reduced))
                    errors[number] += count_wrong(taken_for, own, true, n_classes)
        return errors

    def lines(self, errors: NDArray, ranked: Mapping[str, NDArray]) -> list[dict[str, Any]]:
        """Return the lines of a record, given the errors of every classifier, and what `score_all` ranks."""
        counts = zip(self.scored, errors, strict=True)
        lines = [error_line(item, spec, count, len(self.classes)) for (item, spec), count in counts]
        if ranked:
            for line, scores in zip(lines, ranked["scores"].T, strict=True):
                some = None if np.isnan(scores).any() else scores
                line |= ranks(some, ranked["positive"], ranked.get("weight"))
        return lines


Rules = Mapping[tuple[int, str], Rule]
"""Classifiers from moments by position of the method and size, and label."""


def make_scorer(
    part: int, centre: NDArray[np.float64], reductions: Reductions, rules: Rules, classes: NDArray,
    request: EvaluationRequest,
) -> Scorer:  # fmt: skip
    """Combine all classifiers from moments, of every method and size; ``centre`` is the mean of the rows that train.

    Where moments are merged, products of all columns have the precision of the request.
    """
    specs = request.classifiers.from_moments
    scored = [(item, spec) for item in reductions.items for spec in specs]
    n_decisions = sum(not item.sizes for item, _ in scored) * (1 if len(classes) == 2 else len(classes))
    numbers, weights, offsets = [], [], []
    of_reduced: dict[int, FittedClassifier] = {}
    for number, (item, spec) in enumerate(scored):
        rule = rules[number // len(specs), spec.label]
        parts = linear_parts(rule)
        if not request.merged or parts is None or item.sizes or n_decisions > MAX_DECISIONS:
            of_reduced[number] = rule
            continue
        coef, intercept = parts
        A = reductions.matrix[:, item.columns]
        middle = centre if reductions.mean is None else centre - reductions.mean
        weights.append(A @ coef.T)
        offsets.append(coef @ (A.T @ middle) + intercept)
        numbers.append(number)
    product = None
    if numbers:
        dtype = np.float32 if request.precision == "single" else np.float64
        product = _Product(numbers, centre, np.concatenate(weights, axis=1).astype(dtype), np.concatenate(offsets))
    return Scorer(part, scored, of_reduced, reductions, classes, product)


Totals = tuple[NDArray, Sample, list[dict[str, NDArray]], NDArray[np.float64]]
"""Errors, shape (H, R, ...) as of `count_wrong`, rows to measure margins on, an empty mapping where none are sampled,
and of each part ``scores`` of R classifiers, with ``positive`` and ``weight`` of the rows; empty where these are not
kept. Sums of the squared weights of the rows held out, shape (H,), come last."""


def score_all(
    rows: Rows, splits: Splits, scorers: Sequence[Scorer], name: str, sampling: Sampling | None = None
) -> Totals:
    """Count the errors of H scorers, of up to R classifiers each, in a pass of this name; and draw a sample of rows.

    Of two classes, scores of the rows held out are kept where all together are few.
    """
    if sampling is None and not scorers[0].scored:
        return np.zeros((len(scorers), 0)), {}, [{} for _ in scorers], np.zeros(len(scorers))
    ranked = [one for one in scorers if one.without is None]
    kept = 8 * sum(len(one.scored) * splits.counts[0, :, one.part].sum() for one in ranked) <= RANKED_BYTES
    ranks = len(splits.classes) == 2 and bool(kept)
    task = partial(_score_span, splits=splits, scorers=scorers, sampling=sampling, ranks=ranks)
    return rows.pass_over(task, _add, name, kept=sampling is None or not rows.dataset.sparse)  # CSR rows are not stored


def _add(left: Totals, right: Totals) -> Totals:
    ranked = [concatenated(*both) for both in zip(left[2], right[2], strict=True)]
    return left[0] + right[0], concatenated(left[1], right[1]), ranked, left[3] + right[3]


def _score_span(
    dataset: Dataset, span: Span, *, splits: Splits, scorers: Sequence[Scorer], sampling: Sampling | None, ranks: bool
) -> Totals:
    """Return the errors of all classifiers on the rows of every part held out, a sample of rows, and their scores."""
    most = max(len(scorer.scored) for scorer in scorers)
    errors, samples = error_counts((len(scorers), most), len(splits.classes), splits.weights is not None), []
    ranked: list[list[dict[str, NDArray]]] = [[] for _ in scorers]
    squares = np.zeros(len(scorers))
    for batch in read_batches(dataset, span, sparse=dataset.sparse):
        batch = splits.valued(batch)
        parts, codes = splits.codes(batch)[0], batch.codes(splits.classes)
        for h, scorer in enumerate(scorers):
            held_out = np.flatnonzero(parts == scorer.part)
            scores = np.empty((len(held_out), len(scorer.scored))) if ranks and scorer.without is None else None
            errors[h, : len(scorer.scored)] += scorer.count_errors(batch, codes, held_out, scores)
            squares[h] += len(held_out) if batch.weight is None else np.sum(batch.weight[held_out] ** 2)
            if scores is not None:
                weight = {} if batch.weight is None else {"weight": batch.weight[held_out]}
                ranked[h].append({"scores": scores, "positive": codes[held_out] == 1, **weight})
        if sampling is not None:
            samples.append(sampling.take(batch, parts, codes))
    sample, kept = concatenated(*samples) if samples else {}, [concatenated(*each) if each else {} for each in ranked]
    return errors, sample, kept, squares
