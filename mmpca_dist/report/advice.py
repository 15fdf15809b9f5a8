"""The top of an evaluation: what to use in one sentence, how sure that is, and what to type next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

import numpy as np
import yaml

from mmpca_dist.evaluation.recommendation import Recommendation, recommend
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.report.evaluation_words import corrected, digits, guess, label, small

CONFIG = "CONFIG"
"""What stands for the configuration's file in commands."""


def answer(evaluation: Evaluation) -> list[str]:
    """Return what to use in one sentence, then how sure that is, and whether to try more components."""
    advice, lowest = recommend(evaluation), min(cell.summary.mean for cell in evaluation.distinct)
    if lowest >= evaluation.baseline:
        baseline = f"the baseline ({guess(evaluation)}), {evaluation.baseline:.{digits(evaluation)}f}%"
        return [f"Nothing is learned: no mean error is below that of {baseline}."]
    sentences = [_sentence(evaluation, advice), *_how_sure(evaluation, advice)]
    if advice.beyond:
        sentences.append(
            f"The lowest mean of the reductions is at {evaluation.n_components[-1]} components, the most that were "
            "tried: try more."
        )
    return sentences


def next_commands(evaluation: Evaluation) -> list[str]:
    """Return what to type next: a run of what is recommended, or an evaluation of more components."""
    advice, commands = recommend(evaluation), []
    use, settings = advice.use, evaluation.settings
    if use.method in settings and use.method not in evaluation.unreduced:
        named = [] if use.method == evaluation.reference else evaluation.overridden
        methods = yaml.safe_dump([settings[use.method]], default_flow_style=True, width=math.inf).strip()
        commands.append(_command("run", [f"methods={methods}", f"n_components={use.used}", *named]))
    if advice.beyond:
        sizes = f"n_components=[{', '.join(map(str, advice.beyond))}]"
        commands.append(_command("evaluate", [sizes]) + " --output DIR")
    return commands


def _command(name: str, settings: Sequence[str]) -> str:
    return " ".join([f"mmpca {name} {CONFIG}", *(f"--set {shlex.quote(each)}" for each in settings)])


def _sentence(evaluation: Evaluation, advice: Recommendation) -> str:
    use, whole, reference = advice.use, advice.whole, advice.reference
    keeps_all, several = use.method in evaluation.unreduced, len(evaluation.classifiers) > 1
    under = f" under {label(evaluation, use.classifier)}" if several else ""
    if keeps_all:
        sentence = f"Keep all {use.used:,} columns: {_score(evaluation, use)}{under}"
    else:
        sentence = f"Use {title_of(use.method)} with {_counted(use)}{under}: {_score(evaluation, use)}"
    if whole is not None:
        other = f" under {label(evaluation, whole.classifier)}" if whole.classifier != use.classifier else ""
        subject = f"{title_of(whole.method)} with {_counted(whole)}, the best reduction, has" if keeps_all else None
        subject = subject or f"all {whole.used:,} columns have"
        sentence += f"; {subject} {_score(evaluation, whole, '')}{other}"
    if reference is not None and reference is not whole:
        other = f" under {label(evaluation, reference.classifier)}" if reference.classifier != use.classifier else ""
        needs = "needs" if advice.comes_near else "at its best needs"
        score = _score(evaluation, reference, "")
        sentence += f"; {title_of(reference.method)} {needs} {reference.used} for {score}{other}"
    return f"{sentence}."


def _how_sure(evaluation: Evaluation, advice: Recommendation) -> list[str]:
    """Return what the test against all columns says."""
    if advice.test is None:
        return []
    if advice.use.summary.count == 1:
        return ["One split does not tell how sure this is."]
    difference, predicts = advice.test.difference, "targets" in evaluation.dataset
    other = "that reduction" if advice.use.method in evaluation.unreduced else "all columns"
    if math.isclose(difference, 0, abs_tol=1e-9):
        compared = f"as good as {other}"
    else:
        more = "more" if difference > 0 else "less" if predicts else "fewer"
        unit = "unexplained variance" if predicts else "errors"
        compared = f"{small(abs(difference), digits(evaluation))} percentage points {more} {unit} than with {other}"
    return [f"That is {compared}. {corrected(advice.test)}"]


def _counted(cell: Cell) -> str:
    return f"{cell.used} component" + ("" if cell.used == 1 else "s")


def _score(evaluation: Evaluation, cell: Cell, unit: str = " errors") -> str:
    """Return "5.2% errors", or R^2 and RMSE where numbers are predicted: means over the splits."""
    if "targets" not in evaluation.dataset:
        return f"{cell.summary.mean:.{digits(evaluation)}f}%{unit}"
    own = [line for line in evaluation.table.lines if (line["method"], line["n_components"]) == cell.key[:2]]
    r2, rmse = (float(np.mean([line[name] for line in own])) for name in ("r2", "rmse"))
    return f"R\N{SUPERSCRIPT TWO} {r2:.3f} and RMSE {rmse:.4g}"
