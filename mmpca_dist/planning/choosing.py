"""What a run will cost that may have to choose its numbers of components before it fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.planning.evaluating import plan_evaluation
from mmpca_dist.planning.making import Request, make_plan
from mmpca_dist.planning.plan import Plan
from mmpca_dist.planning.scoring import Judging

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

NAME = "choose: "
"""Before the names of passes."""


def plan_run(dataset: Dataset, spans: list[Span], request: Request, choosing: Judging | None = None) -> Plan:
    """Return the plan of a run over ``spans`` of a data set.

    Parameters
    ----------
    choosing : Judging, optional
        The evaluation that numbers of components, up to the largest, are chosen by before the fit to all rows.
    """
    fit = make_plan(dataset, spans, request)
    if choosing is None:
        return fit
    choice = plan_evaluation(dataset, spans, request, choosing)
    advice = " Most of it is for the choice by n_components: auto; give them as numbers, or fewer evaluation.folds."
    return replace(
        fit,
        passes=[*(replace(one, name=NAME + one.name) for one in choice.passes), *fit.passes],
        more_passes=choice.more_passes + fit.more_passes,
        memory=max(choice.memory, fit.memory),
        kept=max(choice.kept, fit.kept),
        search=_both(choice.search, fit.search),
        work=[replace(one, name=f"{one.name} for the choice") for one in choice.work],
        advice=fit.advice + (advice if choice.memory > fit.memory else ""),
    )


def _both(choice: SearchCosts | None, fit: SearchCosts | None) -> SearchCosts | None:
    """Return the costs of searches one after the other."""
    if choice is None or fit is None:
        return fit
    return replace(
        fit,
        pairs=choice.pairs + fit.pairs,
        scratch=max(choice.scratch, fit.scratch),
        memory=max(choice.memory, fit.memory),
        read=choice.read + fit.read,
        preparation=choice.preparation + fit.preparation,
        products=choice.products + fit.products,
        proved=choice.proved and fit.proved,
    )
