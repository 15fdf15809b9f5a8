"""The verdict of an evaluation in sentences, and how these name its cells."""

from __future__ import annotations

import math

from mmpca_dist.errors import plural
from mmpca_dist.evaluation.comparisons import CorrectedTest, SignTest, Summary
from mmpca_dist.evaluation.results import Evaluation, verdict
from mmpca_dist.evaluation.tables import Cell, Key
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.results.forms import with_deviation, written

ALL_COLUMNS = "all columns"
FEW_ROWS = 40
"""With fewer rows, equal methods differ in 7 to 10% of tables at the 5% level (test_equal_methods.py)."""


def digits(evaluation: Evaluation) -> int:
    """Return how many decimals of a percentage tell cells apart: one, or more where standard errors are small."""
    errors = sorted(cell.summary.standard_error for cell in evaluation.cells.values() if cell.summary.deviation > 0)
    if not errors:
        return 1
    return min(max(1, math.ceil(-math.log10(2 * errors[len(errors) // 2]))), 4)


def spread(summary: Summary, decimals: int) -> str:
    """Return mean and deviation: "17.3 (3.0)"."""
    return with_deviation(summary.mean, summary.deviation, f"{{:.{decimals}f}}".format)


def components(evaluation: Evaluation, cell: Cell) -> str:
    """Return "8 components", with how many were asked for where these are more; "30 columns" without a reduction."""
    if cell.method in evaluation.unreduced:
        return f"{cell.used:,} columns"
    words = plural(cell.used, "component")
    return words if cell.used == cell.n_components else f"{words} ({cell.n_components} asked for)"


def named(evaluation: Evaluation, cell: Cell) -> str:
    """Return "M-PCA2 with 8 components under naive Bayes", or "All columns (30) under naive Bayes"."""
    size = f"({cell.used:,})" if cell.method in evaluation.unreduced else f"with {components(evaluation, cell)}"
    return f"{title_of(cell.method)} {size} under {label(evaluation, cell.classifier)}"


def label(evaluation: Evaluation, classifier: str) -> str:
    """Return what a classifier is called in words."""
    return evaluation.classifiers.get(classifier, classifier)


def words(evaluation: Evaluation) -> list[str]:
    """Return the verdict: sentences that tell which cell is best, by how much, and whether that is significant."""
    outcome = verdict(evaluation)
    decimals = digits(evaluation)
    best = outcome.best.summary
    spread = (
        f"standard deviation {best.deviation:.{decimals}f}, corrected standard error "
        f"{best.corrected_standard_error:.{decimals + 1}f}, {best.count} splits"
        if best.count > 1
        else "one split, so that no deviation is known"
    )
    sentences = [
        f"The lowest mean error, {best.mean:.{decimals}f}%, is that of {named(evaluation, outcome.best)} ({spread})."
        + (f" Cells with the same mean: {len(outcome.tied)} more." if outcome.tied else "")
    ]
    if outcome.rival and outcome.test and outcome.t_test:
        sentences.append(_against(evaluation, outcome.best, outcome.rival, outcome.t_test))
        sentences += _tested(evaluation, outcome.best, outcome.test, outcome.t_test)
    sentences.append(_baseline(evaluation, best.mean, decimals))
    if best.count > 1 and len(evaluation.distinct) > 1:
        sentences.append(
            f"This is the lowest of {len(evaluation.distinct)} means, chosen after looking: it tends to be too low. "
            "Corrected standard errors and tests allow for splits that share rows (Nadeau & Bengio 2003)."
        )
    return sentences


def guess(evaluation: Evaluation) -> str:
    """Return what the baseline predicts."""
    return "the mean of the rows that train" if evaluation.predicts else "always the largest class"


def _baseline(evaluation: Evaluation, lowest: float, decimals: int) -> str:
    """Return the error of always naming the largest class, which few look up and unbalanced classes hide."""
    baseline, cells = evaluation.baseline, evaluation.distinct
    sentence = f"Baseline ({guess(evaluation)}): {baseline:.{decimals}f}% error"
    if lowest >= baseline:
        advice = (
            " Some classifiers (fisher midway, svm and logistic without bias) take no account of how frequent classes "
            "are: try others."
        )
        return f"{sentence}, and no mean is lower: nothing is learned.{'' if evaluation.predicts else advice}"
    above = sum(cell.summary.mean >= baseline for cell in cells)
    return f"{sentence}; {above} of {len(cells)} means are no lower." if above else f"{sentence}."


def _against(evaluation: Evaluation, best: Cell, rival: Cell, test: CorrectedTest) -> str:
    difference, decimals = rival.summary.mean - best.summary.mean, digits(evaluation)
    if best.method == evaluation.reference:
        reference = title_of(evaluation.reference)
        opening = f"No method has a lower mean than the reference, {reference}; the nearest is"
    else:
        opening = "The reference at its best is"
    comparison = "the same"
    if not math.isclose(difference, 0, abs_tol=1e-9):
        comparison = f"{small(difference, decimals)} percentage points more"
        if test.standard_error > 0:
            errors = small(difference / test.standard_error, 1)
            comparison += f", {errors} corrected standard errors of the difference"
    return f"{opening} {named(evaluation, rival)}: {rival.summary.mean:.{decimals}f}%, {comparison}."


def regressions(evaluation: Evaluation, key: Key) -> list[list[float]]:
    """Return R^2 and the root mean squared error of each split, where numbers are predicted."""
    return [[line[name] for line in evaluation.table.by_key[key]] for name in ("r2", "rmse")]


def small(value: float, decimals: int) -> str:
    """Return a positive number, never as zero."""
    finest = 10.0**-decimals
    return f"{value:.{decimals}f}" if round(value, decimals) >= finest else f"less than {finest:.{decimals}f}"


def _tested(evaluation: Evaluation, best: Cell, test: SignTest, t_test: CorrectedTest) -> list[str]:
    """Return what tests say of the best cell and its rival: of new rows first, then of these splits."""
    title, splits = title_of(best.method), best.summary.count
    if splits == 1:
        return [f"One split has no standard error: {title} has {'fewer' if test.wins else 'no fewer'} errors in it."]
    return [
        f"{corrected(t_test, title_of(evaluation.reference))} Of these {splits} splits, {title} errs less "
        f"in {test.wins}, more in {test.untied - test.wins} and as often in {splits - test.untied} (sign test of these "
        f"splits: {written('p', test.p_value)}).",
        *_limits(evaluation, t_test, best.summary.overlap),
    ]


def _limits(evaluation: Evaluation, test: CorrectedTest, overlap: float) -> list[str]:
    """Return what weakens a test: folds that are dealt once have little power; of few rows too many tests reject."""
    if test.p_value is None:
        return []
    if evaluation.folds_dealt == 1:
        advice = "Folds that are dealt once show few differences: set evaluation.count to 4 to find more."
        return [] if test.is_significant else [advice]
    if evaluation.dataset["n_rows"] < FEW_ROWS and overlap < 1:
        return [
            f"With fewer than {FEW_ROWS} rows, tests at the 5% level reject too often: equal methods differ in 7 to 10 "
            "percent of tables."
        ]
    return []


def corrected(test: CorrectedTest, other: str) -> str:
    """Return whether two means differ significantly, and by which tests: this one and those against another."""
    if test.p_value is None or test.adjusted is None:
        return (
            "They differ by the same number of rows in every split, so that no deviation is known and nothing tested."
        )
    significant = "significant" if test.is_significant else "not significant"
    return (
        f"The difference is {significant} at the 5% level: {written('p', test.p_value)} by the corrected resampled "
        f"t-test (two-sided), {written('p', test.adjusted)} after Holm's correction for "
        f"{plural(test.tests, 'test')}{f' (this one and those against {other})' if test.tests > 1 else ''}."
    )
