"""Needs: the facts of the rows that methods are solved from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mmpca_dist.neighbors.options import Search
from mmpca_dist.passes.sweeps import SweptNeed
from mmpca_dist.statistics.scatters import ClassWeighting


@dataclass(frozen=True)
class Needs:
    """The facts of the rows that methods need in addition to the counts and means of the classes."""

    # weighted sums of class scatters whose leading eigenvectors, at least, are needed
    scatters: frozenset[ClassWeighting] = frozenset({ClassWeighting.EQUAL})
    own: bool = False  # whether components are those of `ClassWeighting.scatter`, and methods take no more of scatters
    full_scatter: tuple[str, ...] = ()  # the methods that need all of such a sum, so that no solver in passes can serve
    columns: bool = False  # whether means and variances of single columns are needed
    medians: tuple[str, ...] = ()  # pairings of classes whose medians are needed; see `medians.median_sets`
    searches: tuple[Search, ...] = ()  # searches for nearest rows of other classes
    swept: tuple[SweptNeed, ...] = ()  # fits by sweeps over the rows
    # scatters by name and label, and whether they are standardised, whose shrinkage rows held out choose
    shrinkages: tuple[tuple[str, str, bool], ...] = ()
    n_components: int | None = None  # the largest number that is asked for; None for all there are

    @classmethod
    def of_all(cls, needs: Iterable[Needs], n_components: int | None = None) -> Needs:
        """Return the union of the needs of methods, for so many components at most."""
        needs = list(needs)
        return cls(
            frozenset().union(*(each.scatters for each in needs)),
            all(each.own or (each.only_numbers and not each.swept) for each in needs),
            tuple(dict.fromkeys(name for each in needs for name in each.full_scatter)),
            any(each.columns for each in needs),
            tuple(sorted({pairing for each in needs for pairing in each.medians})),
            tuple(dict.fromkeys(search for each in needs for search in each.searches)),
            tuple(dict.fromkeys(fit for each in needs for fit in each.swept)),
            tuple(dict.fromkeys(name for each in needs for name in each.shrinkages)),
            n_components,
        )

    @property
    def only_numbers(self) -> bool:
        """Whether means and variances of the classes suffice, without a scatter or differences of rows."""
        return not (self.scatters or self.full_scatter or self.searches)
