"""The top of an evaluation: what to use in one sentence, how sure that is, and what to type next."""

from __future__ import annotations

import math
import re
import shlex
from statistics import mean
from typing import Any

import yaml

from mmpca_dist.configuration.method_section import MethodSection
from mmpca_dist.errors import plural
from mmpca_dist.evaluation.component_rule import lowest, near_lowest
from mmpca_dist.evaluation.results import Evaluation, difference_of
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.methods.base.registry import METHODS, title_of
from mmpca_dist.results.forms import written
from mmpca_dist.results.result import config_in
from mmpca_dist.results.verdict import ALL_COLUMNS, corrected, digits, guess, label, regressions, small


def advise(evaluation: Evaluation) -> tuple[list[str], list[str]]:
    """Return the answer of an evaluation in sentences, and the commands that come next.

    The answer names the fewest components whose mean error is at most one corrected standard error above the lowest
    mean, or all columns where no reduction comes so near; how sure that is; and whether to try more components.
    """
    cells, unreduced = evaluation.distinct, evaluation.unreduced
    use, other, reference = cells_of_answer(evaluation)
    if recommended(evaluation) is None:
        baseline = f"the baseline ({guess(evaluation)}), {evaluation.baseline:.{digits(evaluation)}f}%"
        return [f"Nothing is learned: no mean error is below that of {baseline}."], []
    answer = [_sentence(evaluation, use, other, reference)]
    answer += [] if other is None else _how_sure(evaluation, use, other)
    if use.summary.mean == 0:
        answer.append("Not one row is wrong: make sure that no column is known only together with the label.")
    commands = [] if use.method in unreduced else [_run(evaluation, use)]
    largest, most = evaluation.n_components[-1], evaluation.dataset["n_features"]
    reducing = [cell for cell in cells if cell.method not in unreduced]
    if reducing and lowest(reducing).used == largest < most and not _at_limit(evaluation, lowest(reducing)):
        at = f"{largest} components, the most that were tried"
        answer.append(f"The lowest mean of the reductions is at {at}: try more.")
        sizes = sorted({largest, min(-(-3 * largest // 2), most), min(2 * largest, most)})
        commands.append(_command(evaluation, "evaluate", "more", f"n_components=[{', '.join(map(str, sizes))}]"))
    return answer, commands


def recommended(evaluation: Evaluation) -> Cell | None:
    """Return the cell that the answer says to use; None where nothing is learned."""
    learned = min(cell.summary.mean for cell in evaluation.distinct) < evaluation.baseline
    return cells_of_answer(evaluation)[0] if learned else None


def cells_of_answer(evaluation: Evaluation) -> tuple[Cell, Cell | None, Cell | None]:
    """Return the cells that the answer names: what to use, what it is tested against, and the reference's.

    All columns are tested against the best reduction, and a reduction against all columns. Without these there is no
    test. The reference's is None where it is what to use, or reduces nothing.
    """
    cells, unreduced, reference = evaluation.distinct, evaluation.unreduced, evaluation.reference
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
    name = _section(evaluation, cell)["name"]
    of_classes = name in METHODS and METHODS[name].estimator.traits.by_classes
    return of_classes and cell.used >= len(evaluation.dataset["classes"]) - 1


def _section(evaluation: Evaluation, cell: Cell) -> dict[str, Any]:
    methods = yaml.safe_load(evaluation.config_yaml)["methods"]
    sections = ({"name": each} if isinstance(each, str) else each for each in methods)
    return next(each for each in sections if each.get("label", each["name"]) == cell.method)


def _fewest(cells: list[Cell]) -> Cell:
    return min(cells, key=lambda cell: (cell.used, cell.summary.mean))


def _sentence(evaluation: Evaluation, use: Cell, other: Cell | None, reference: Cell | None) -> str:
    unreduced = evaluation.unreduced
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


def _how_sure(evaluation: Evaluation, use: Cell, other: Cell) -> list[str]:
    """Return what the test against all columns, or of these against the best reduction, says."""
    if use.summary.count == 1:
        return ["One split does not tell how sure this is."]
    test = difference_of(evaluation, use, other, evaluation.all_columns)
    than, keeps = _named(evaluation, other), use.method in evaluation.unreduced
    subject = f"A{_named(evaluation, use)[1:]}" if keeps else _named(evaluation, use)  # "All 13 columns"
    if math.isclose(test.difference, 0, abs_tol=1e-9):
        return [f"{subject} {'are' if keeps else 'is'} as good as {than}. {corrected(test, ALL_COLUMNS)}"]
    more = "more" if test.difference > 0 else "less" if evaluation.predicts else "fewer"
    points = f"{small(abs(test.difference), digits(evaluation))} percentage points {more}"
    unit = "unexplained variance" if evaluation.predicts else "errors"
    return [f"{subject} {'have' if keeps else 'has'} {points} {unit} than {than}. {corrected(test, ALL_COLUMNS)}"]


def _named(evaluation: Evaluation, cell: Cell) -> str:
    if cell.method in evaluation.unreduced:
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
    config = yaml.safe_load(evaluation.config_yaml)
    section = _section(evaluation, use)
    name = section["name"]
    default = MethodSection.model_validate(name).model_dump(mode="json")
    chosen = name if section in ({"name": name}, default) else section
    method = yaml.safe_dump([chosen], default_flow_style=True, width=math.inf)
    settings = [f"methods={method.strip()}", f"n_components={use.used}"]
    named = config.get("evaluation", {}).get("reference") not in (None, use.method)
    return _command(evaluation, "run", use.method, *settings, *(["evaluation.reference=null"] if named else []))


def _command(evaluation: Evaluation, name: str, aim: str, *settings: str) -> str:
    """Return a command that starts from the stored configuration, with an output of its own."""
    output = f"{evaluation.folder.rpartition('/')[0]}-{re.sub('[^A-Za-z0-9]+', '-', aim).strip('-')}"
    words = [f"mmpca {name} {config_in(evaluation.folder)}", *(f"--set {shlex.quote(each)}" for each in settings)]
    return " ".join([*words, f"--output {shlex.quote(output)}"])
