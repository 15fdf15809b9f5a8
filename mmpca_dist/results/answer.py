"""The answer and the verdict of an evaluation in sentences, how these name cells, and what to type next."""

from __future__ import annotations

import math
import re
import shlex
from statistics import mean

import yaml

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.errors import plural
from mmpca_dist.evaluation.comparisons import CorrectedTest, SignTest, Summary
from mmpca_dist.evaluation.component_rule import lowest, near_lowest
from mmpca_dist.evaluation.tables import RECONSTRUCTION, Cell, Key
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.results.evaluation import Evaluation, difference_of, verdict
from mmpca_dist.results.forms import with_deviation, written
from mmpca_dist.results.result import config_in

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
    if cell.method in evaluation.config.unreduced:
        return f"{cell.used:,} columns"
    words = plural(cell.used, "component")
    return words if cell.used == cell.n_components else f"{words} ({cell.n_components} asked for)"


def named(evaluation: Evaluation, cell: Cell) -> str:
    """Return "M-PCA2 with 8 components under naive Bayes", or "All columns (30) under naive Bayes"."""
    size = f"({cell.used:,})" if cell.method in evaluation.config.unreduced else f"with {components(evaluation, cell)}"
    under = "" if evaluation.reconstructs else f" under {label(evaluation, cell.classifier)}"
    return f"{title_of(cell.method)} {size}{under}"


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
    of_mean = evaluation.predicts or evaluation.reconstructs
    return "the mean of the rows that train" if of_mean else "always the largest class"


def _baseline(evaluation: Evaluation, lowest: float, decimals: int) -> str:
    """Return the error of always naming the largest class, which few look up and unbalanced classes hide."""
    baseline, cells = evaluation.baseline, evaluation.distinct
    sentence = f"Baseline ({guess(evaluation)}): {baseline:.{decimals}f}% error"
    if lowest >= baseline:
        advice = (
            " Some classifiers (fisher midway, svm and logistic without bias) take no account of how frequent classes "
            "are: try others."
        )
        return f"{sentence}, and no mean is lower: nothing is learned.{advice if evaluation.dataset['classes'] else ''}"
    above = sum(cell.summary.mean >= baseline for cell in cells)
    return f"{sentence}; {above} of {len(cells)} means are no lower." if above else f"{sentence}."


def _against(evaluation: Evaluation, best: Cell, rival: Cell, test: CorrectedTest) -> str:
    difference, decimals = rival.summary.mean - best.summary.mean, digits(evaluation)
    if best.method == evaluation.config.reference:
        reference = title_of(evaluation.config.reference)
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
        f"{corrected(t_test, title_of(evaluation.config.reference))} Of these {splits} splits, {title} errs less "
        f"in {test.wins}, more in {test.untied - test.wins} and as often in {splits - test.untied} (sign test of these "
        f"splits: {written('p', test.p_value)}).",
        *_limits(evaluation, t_test, best.summary.overlap),
    ]


def _limits(evaluation: Evaluation, test: CorrectedTest, overlap: float) -> list[str]:
    """Return what weakens a test: folds that are dealt once have little power; of few rows too many tests reject."""
    if test.p_value is None:
        return []
    if evaluation.config.evaluation.in_folds and evaluation.config.evaluation.count == 1:
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


def advise(evaluation: Evaluation) -> tuple[list[str], list[str], list[str]]:
    """Return the answer of an evaluation in sentences, the commands that come next, and whether to try more components.

    The answer names the fewest components whose mean error is at most one corrected standard error above the lowest
    mean, or all columns where no reduction comes so near; why these; and how sure that is.
    """
    if evaluation.reconstructs:
        use = _best_predicting(evaluation)
        return _least_left(evaluation, use), [_run(evaluation, use)] if recommended(evaluation) else [], []
    cells, unreduced = evaluation.distinct, evaluation.config.unreduced
    use, other, reference = cells_of_answer(evaluation)
    if recommended(evaluation) is None:
        baseline = f"the baseline ({guess(evaluation)}), {evaluation.baseline:.{digits(evaluation)}f}%"
        return [f"Nothing is learned: no mean error is below that of {baseline}."], [], []
    answer, more = [_sentence(evaluation, use, other, reference), *_why(evaluation, use)], []
    answer += [] if other is None else _how_sure(evaluation, use, other)
    if use.summary.mean == 0:
        answer.append("Not one row is wrong: make sure that no column is known only together with the label.")
    commands = [] if use.method in unreduced else [_run(evaluation, use)]
    largest, most = evaluation.config.sizes[-1], evaluation.dataset["n_features"]
    reducing = [cell for cell in cells if cell.method not in unreduced]
    if reducing and lowest(reducing).used == largest < most and not _at_limit(evaluation, lowest(reducing)):
        at = f"{largest} components, the most that were tried"
        more.append(f"The lowest mean of the reductions is at {at}: try more.")
        sizes = sorted({largest, min(-(-3 * largest // 2), most), min(2 * largest, most)})
        commands.append(_command(evaluation, "evaluate", "more", f"n_components=[{', '.join(map(str, sizes))}]"))
    return answer, commands, more


def recommended(evaluation: Evaluation) -> Cell | None:
    """Return the cell that the answer says to use; None where nothing is learned."""
    if min(cell.summary.mean for cell in evaluation.distinct) >= evaluation.baseline:
        return None
    return _best_predicting(evaluation) if evaluation.reconstructs else cells_of_answer(evaluation)[0]


def _best_predicting(evaluation: Evaluation) -> Cell:
    """Return the fewest components by which left-out columns are predicted nearly as well as by any."""
    return _fewest(near_lowest(evaluation.distinct))


def _least_left(evaluation: Evaluation, use: Cell) -> list[str]:
    """Return how well left-out columns are predicted, and which method leaves least for each number of components."""
    cells, decimals = evaluation.cells.values(), digits(evaluation)
    sizes = [[c for c in cells if c.n_components == size] for size in evaluation.config.sizes]
    best = [lowest([cell for cell in own if cell.classifier == RECONSTRUCTION]) for own in sizes]
    told = ", ".join(f"{cell.summary.mean:.{decimals}f}% ({named(evaluation, cell)})" for cell in best)
    predicted = (
        f"Use {_named(evaluation, use)}: the other columns of a row predict a column that is left out but for "
        f"{use.summary.mean:.{decimals}f}% of the variance."
        if recommended(evaluation)
        else "No components predict a column that is left out from the others of its row better than its mean does."
    )
    return [
        predicted,
        f"The least of the variance that any method leaves is {told}.",
        "More components never leave more: only left-out columns choose a number.",
    ]


def cells_of_answer(evaluation: Evaluation) -> tuple[Cell, Cell | None, Cell | None]:
    """Return the cells that the answer names: what to use, what it is tested against, and the reference's.

    All columns are tested against the best reduction, and a reduction against all columns. Without these there is no
    test. The reference's is None where it is what to use, or reduces nothing.
    """
    cells, unreduced, reference = evaluation.distinct, evaluation.config.unreduced, evaluation.config.reference
    near = [cell for cell in near_lowest(cells) if cell.used] or cells
    use = _fewest([cell for cell in near if cell.method not in unreduced] or near)
    others = [cell for cell in cells if (cell.method in unreduced) != (use.method in unreduced)]
    other = lowest(others) if others and unreduced else None
    if reference in {use.method, *unreduced}:
        return use, other, None
    own = [cell for cell in near if cell.method == reference]
    return use, other, _fewest(own) if own else lowest([cell for cell in cells if cell.method == reference])


def _at_limit(evaluation: Evaluation, cell: Cell) -> bool:
    """Tell whether the method has no more components: those with one fewer than there are classes."""
    of_classes = _section(evaluation, cell).method.estimator.traits.by_classes
    return of_classes and cell.used >= len(evaluation.dataset["classes"]) - 1


def _section(evaluation: Evaluation, cell: Cell) -> MethodSection:
    return next(section for section in evaluation.config.methods if section.label == cell.method)


def _fewest(cells: list[Cell]) -> Cell:
    return min(cells, key=lambda cell: (cell.used, cell.summary.mean))


def _sentence(evaluation: Evaluation, use: Cell, other: Cell | None, reference: Cell | None) -> str:
    unreduced = evaluation.config.unreduced
    under = "" if len(evaluation.classifiers) == 1 else f" under {label(evaluation, use.classifier)}"
    what = "Keep" if use.method in unreduced else "Use"
    clauses = [f"{what} {_named(evaluation, use)}{under}: {_score(evaluation, use, ' errors')}"]
    beside = [] if other is None else [(_named(evaluation, other), "has" if use.method in unreduced else "have", other)]
    if reference is not None and (other is None or reference.key != other.key):
        is_near = reference in near_lowest(evaluation.distinct)
        verb = f"needs {reference.used} for" if is_near else f"at its best, with {reference.used}, has"
        beside.append((title_of(reference.method), verb, reference))
    for subject, verb, cell in beside:
        elsewhere = "" if cell.classifier == use.classifier else f" under {label(evaluation, cell.classifier)}"
        clauses.append(f"{subject} {verb} {_score(evaluation, cell)}{elsewhere}")
    return "; ".join(clauses) + "."


def _why(evaluation: Evaluation, use: Cell) -> list[str]:
    """Return why the cell is named although another has a lower mean."""
    best = lowest(evaluation.distinct)
    if use.key == best.key or use.summary.mean <= best.summary.mean:
        return []
    decimals, error = digits(evaluation), best.summary.corrected_standard_error
    where = "" if best.classifier == use.classifier else f" under {label(evaluation, best.classifier)}"
    subject = _named(evaluation, best)
    opening = f"A{subject[1:]} have" if best.method in evaluation.config.unreduced else f"{subject} has"
    return [
        f"{opening} the lowest mean, {best.summary.mean:.{decimals}f}%{where}; means within one "
        f"standard error of it, {error:.{decimals + 1}f}, are as good, and of these the fewest components are best."
    ]


def _how_sure(evaluation: Evaluation, use: Cell, other: Cell) -> list[str]:
    """Return what the test against all columns, or of these against the best reduction, says."""
    if use.summary.count == 1:
        return ["One split does not tell how sure this is."]
    test = difference_of(evaluation, use, other, evaluation.all_columns)
    than, keeps = _named(evaluation, other), use.method in evaluation.config.unreduced
    subject = f"A{_named(evaluation, use)[1:]}" if keeps else _named(evaluation, use)  # "All 13 columns"
    if math.isclose(test.difference, 0, abs_tol=1e-9):
        return [f"{subject} {'are' if keeps else 'is'} as good as {than}. {corrected(test, ALL_COLUMNS)}"]
    more = "more" if test.difference > 0 else "less" if evaluation.predicts else "fewer"
    points = f"{small(abs(test.difference), digits(evaluation))} percentage points {more}"
    unit = "unexplained variance" if evaluation.predicts else "errors"
    return [f"{subject} {'have' if keeps else 'has'} {points} {unit} than {than}. {corrected(test, ALL_COLUMNS)}"]


def _named(evaluation: Evaluation, cell: Cell) -> str:
    if cell.method in evaluation.config.unreduced:
        return f"all {cell.used:,} columns"
    return f"{title_of(cell.method)} with {plural(cell.used, 'component')}"


def _score(evaluation: Evaluation, cell: Cell, unit: str = "") -> str:
    """Return "5.2% errors", or R^2 and RMSE where numbers are predicted: means over the splits."""
    if not evaluation.predicts:
        return f"{cell.summary.mean:.{digits(evaluation)}f}%{unit}"
    r2, rmse = map(mean, regressions(evaluation, cell.key))
    return f"R\N{SUPERSCRIPT TWO} {written('r2', r2)} and RMSE {written('rmse', rmse)}"


def _run(evaluation: Evaluation, use: Cell) -> str:
    """Return the command that fits the method with its options; a reference that is another must not be named."""
    section = _section(evaluation, use)
    chosen = section.name if section == MethodSection.model_validate(section.name) else section.model_dump(mode="json")
    method = yaml.safe_dump([chosen], default_flow_style=True, width=math.inf)
    settings = [f"methods={method.strip()}", f"n_components={use.used}"]
    named = evaluation.config.evaluation.reference not in (None, use.method)
    return _command(evaluation, "run", use.method, *settings, *(["evaluation.reference=null"] if named else []))


def _command(evaluation: Evaluation, name: str, aim: str, *settings: str) -> str:
    """Return a command that starts from the stored configuration, with an output of its own."""
    output = f"{evaluation.folder.rpartition('/')[0]}-{re.sub('[^A-Za-z0-9]+', '-', aim).strip('-')}"
    words = [f"mmpca {name} {config_in(evaluation.folder)}", *(f"--set {shlex.quote(each)}" for each in settings)]
    return " ".join([*words, f"--output {shlex.quote(output)}"])
