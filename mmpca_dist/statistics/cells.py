"""``CellMoments``: moments of crossed cells of classes and groups, which answer questions without the rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.faults import Setting
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.census import count_labels
from mmpca_dist.passes.pilot import Pilot
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.column_units import weighted_mean
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.from_rows import rows_and_scheduler, take_moments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.widening import Widening
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.compose import column_of
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import labels_of
from mmpca_dist.tables.labels import label_array
from mmpca_dist.tables.roles import AXIS, CELL
from mmpca_dist.tables.spans import make_spans

LABEL = "label"
"""The axis of the classes."""


@storable
@dataclass(frozen=True)
class CellMoments:
    """Count, mean and scatter of every crossed cell of classes and groups that has rows.

    Each method but ``by_class`` returns other cell moments, for a further question. `MarginPCA.from_moments` and the
    other estimators take them, as they take class moments.

    Attributes
    ----------
    cells : ClassMoments
        Of K cells, whose ``classes`` are their numbers. Where all scatters would be large, they are summed up by the
        levels of each axis.
    axes : tuple of str
        ``"label"``, and the names of the groups.
    levels : tuple of arrays
        The sorted levels of each axis.
    codes : int array of shape (K, A)
        The level of each cell on each axis.
    factors : float64 array of shape (K,)
        How much the rows of each cell count; 0 of cells that are left out.
    removed : tuple of str
        Axes whose effects are removed.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import MarginPCA, cell_moments
    >>> X, y = load_iris(return_X_y=True)
    >>> cells = cell_moments(X, y, {"site": np.arange(150) % 3})
    >>> MarginPCA.from_moments(cells.where(site=[0, 1]).merge({9: [0, 1]}), "pca", 2).classes_.tolist()
    [2, 9]
    """

    cells: ClassMoments
    axes: tuple[str, ...]
    levels: tuple[NDArray, ...]
    codes: NDArray[np.intp]
    factors: NDArray[np.float64]
    removed: tuple[str, ...] = ()

    def __repr__(self) -> str:
        axes = ", ".join(f"{len(own)} {name}" for name, own in zip(self.axes, self.levels, strict=True))
        return f"<CellMoments: {self.cells.n_rows:,} rows, {self.cells.n_features:,} features, {axes}>"

    def where(self, **levels: Any) -> Self:
        """Return the rows with these levels of axes alone, such as ``where(site=["a", "b"])``.

        Raises
        ------
        InputError
            For an axis or a level that is not there, or where no row is left.
        """
        factors = self.factors.copy()
        for name, wanted in levels.items():
            axis = self._axis(name)
            places = [self._level(axis, level) for level in _listed(wanted)]
            factors[~np.isin(self.codes[:, axis], places)] = 0
        if not factors.any():
            raise InputError("No row has all of these levels.")
        return replace(self, factors=factors)

    def merge(self, classes: Mapping[Any, Iterable[Any]]) -> Self:
        """Return the same rows with some classes merged, such as ``merge({"T": ["T1", "T2"]})``.

        Raises InputError for a class that is not there, or is merged twice, and a new name that another class has.
        """
        merged, moved = self.levels[0].astype(object), set[int]()
        for name, members in classes.items():
            for member in members:
                place = self._level(0, member)
                if place in moved:
                    raise InputError(f"The class {member!r} is merged twice.")
                merged[place] = name
                moved.add(place)
        taken = [str(own) for place, own in enumerate(merged) if own in classes and place not in moved]
        if taken:
            raise InputError(f"The classes merged cannot be called {some_names(taken)}: another class is.")
        values = merged.tolist()
        values = list(map(str, values)) if len({type(value) for value in values}) > 1 else values
        new, places = np.unique(label_array(values, "classes"), return_inverse=True)
        codes = np.column_stack([places[self.codes[:, 0]], self.codes[:, 1:]])
        return replace(self, levels=(new, *self.levels[1:]), codes=codes)

    def balance(self, name: str) -> Self:
        """Return the same rows so weighted that in each class all levels of an axis that it has count the same.

        The weights of each class have the same sum as before. Raises InputError for an axis that is not there.
        """
        axis, counts, factors = self._axis(name), self.cells.counts * self.factors, self.factors.copy()
        for label in np.unique(self.codes[:, 0]):
            own = (self.codes[:, 0] == label) & (counts > 0)
            sums = np.bincount(self.codes[own, axis], counts[own], len(self.levels[axis]))
            share = counts[own].sum() / max(np.count_nonzero(sums), 1)
            factors[own] *= share / sums[self.codes[own, axis]]
        return replace(self, factors=factors)

    def remove(self, *names: str) -> Self:
        """Return the same rows less the effects of axes, as covariates of a fit have them, within classes.

        Raises
        ------
        InputError
            For an axis that is not there, or is that of the classes.
        """
        if any(self._axis(name) == 0 for name in names):
            raise InputError("The effects of the classes cannot be removed: name other axes.")
        return replace(self, removed=tuple(dict.fromkeys([*self.removed, *names])))

    def drop(self, columns: Iterable[int]) -> Self:
        """Return the same rows without the columns at these positions.

        Raises InputError for a column that is not there, and where gaps are filled, or there are covariates or targets.
        """
        if self.cells.widening is not None:
            raise InputError("Columns cannot be dropped beside gaps that are filled, covariates or targets.")
        dropped, d = list(columns), self.cells.n_features
        if wrong := [str(column) for column in dropped if column not in range(d)]:
            raise InputError(f"drop takes positions of columns, from 0 to {d - 1}, and found {some_names(wrong)}.")
        kept = np.setdiff1d(np.arange(d), dropped)
        means, scatters = self.cells.means[:, kept], self.cells.scatters[:, kept[:, None], kept]
        return replace(self, cells=replace(self.cells, means=means, scatters=scatters))

    def by_class(self) -> ClassMoments:
        """Return the moments of the classes.

        Raises
        ------
        InputError
            Where scatters are summed up by level, and the question needs those of cells; or an axis whose effects are
            to be removed is determined by the class.
        """
        if not self.removed:
            return replace(self._of_classes(self.cells.means), widening=self.cells.widening)
        if self.cells.widening is not None:
            raise InputError("Effects of axes cannot be removed beside gaps that are filled, covariates or targets.")
        moments = self._widened()
        return Adjustment.of(moments).moments(moments)

    def _widened(self) -> ClassMoments:
        """Return class moments of rows with indicators of the levels that are removed beside their columns.

        They are none where a single level is left, whose effect is in all means alike.
        """
        counting, parts, names = self.factors > 0, [], list[str]()
        for axis in map(self._axis, self.removed):
            present = np.unique(self.codes[counting, axis])[1:]  # one level follows from the others
            parts.append(self.codes[:, axis][:, None] == present)
            names += [f"{self.axes[axis]}={self.levels[axis][level]}" for level in present]
        none = np.zeros(0)
        widening = Widening(self.cells.n_features, none.astype(np.intp), none, tuple(names))
        return replace(self._of_classes(np.concatenate([self.cells.means, *parts], axis=1)), widening=widening)

    def _of_classes(self, means: NDArray[np.float64]) -> ClassMoments:
        """Return the moments of classes from the means of cells (K, e), which may be those of more than d columns."""
        cells, factors, d = self.cells, self.factors, self.cells.n_features
        members = (self.codes[:, 0] == np.arange(len(self.levels[0]))[:, None]) * (factors > 0)
        present = np.flatnonzero(members.any(axis=1))
        targets, weights = members[present] * factors, None
        if cells.pooled and (use_pooled(len(present), means.shape[1]) or not _determined(cells, targets)):
            weights, targets = np.ones((1, len(present))), targets.sum(axis=0, keepdims=True)
        if cells.pooled and not _determined(cells, targets):
            raise InputError(
                f"These moments keep sums of scatters by {', by '.join(self.axes)}, and the question needs those of "
                "single cells. Ask for the levels of one axis, or take moments of fewer groups."
            )
        found = ClassMoments.empty(self.levels[0][present], means.shape[1], weights)
        for at, label in enumerate(present):
            own = np.flatnonzero(members[label])
            counts = cells.counts[own] * factors[own]
            found.counts[at], found.sizes[at] = counts.sum(), cells.sizes[own].sum()
            found.means[at] = weighted_mean(means[own], counts)
            offsets = (means[own] - found.means[at]) * np.sqrt(counts)[:, None]
            found.scatters[at if weights is None else 0] += offsets.T @ offsets
        for scatter, target in zip(found.scatters, targets, strict=True):
            own = np.flatnonzero(target)
            within = cells.scatter(target) if cells.pooled else np.tensordot(target[own], cells.scatters[own], axes=1)
            scatter[:d, :d] += within
        return found

    def _axis(self, name: str) -> int:
        if name not in self.axes:
            raise InputError(
                f"There is no axis {name!r}; there are {', '.join(self.axes)}.{did_you_mean(name, self.axes)}"
            )
        return self.axes.index(name)

    def _level(self, axis: int, level: Any) -> int:
        names = [str(own) for own in self.levels[axis].tolist()]
        if str(level) not in names:
            raise InputError(f"No row has {self.axes[axis]} {level!r}.{did_you_mean(str(level), names)}")
        return names.index(str(level))


def _listed(levels: Any) -> list[Any]:
    return list(levels) if isinstance(levels, (list, tuple, set, np.ndarray)) else [levels]


def _determined(cells: ClassMoments, targets: NDArray[np.float64]) -> bool:
    """Tell whether pooled scatters determine these sums of those of the cells."""
    try:
        for target in targets:
            cells.trace(target)
    except InputError:
        return False
    return True


def cell_moments(
    X: Any, y: Any = None, groups: Any = (), *, precision: str = "single", sample_weight: Any = None
) -> CellMoments:
    """Return the moments of every crossed cell of classes and groups, from one pass over the rows.

    Parameters
    ----------
    X, y, precision, sample_weight : as in ``class_moments``
    groups : mapping of str to arrays of shape (n,), pandas.DataFrame, or list of str
        The group of each row, on each axis; of a ``Dataset`` the names of its columns.

    Returns
    -------
    CellMoments
        With a d x d scatter of every cell that occurs up to 256 MiB; beyond, with sums of them by the levels of each
        axis.

    Raises
    ------
    InputError
        For rows that are not finite, labels that are not classes, and groups of other lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from mmpca_dist import cell_moments
    >>> X, y, site = np.eye(6), [0, 1] * 3, ["a", "a", "a", "b", "b", "b"]
    >>> cell_moments(X, y, {"site": site}).where(site="a").by_class().sizes.tolist()
    [2, 1]
    """
    names = [groups] if isinstance(groups, str) else list(groups)
    axes = [LABEL, *map(str, names)]
    if len(set(axes)) < len(axes):
        raise InputError(f"Groups need names of their own, other than {LABEL!r}: {', '.join(axes[1:])}.")
    if isinstance(X, Dataset):
        for name in axes[1:]:
            column = column_of(X.stored, name, Setting("groups"))
            X = X.with_look(AXIS, column, AXIS.look(X, column, name, None), name)
        return cells_of(_counted(*rows_and_scheduler(X, y, sample_weight)), precision=precision)
    if y is None or not hasattr(groups, "keys"):
        raise InputError("Rows that are no Dataset need y, and groups by name: {'site': [...]} or a data frame.")
    known = [
        label_array(np.asarray(labels_of(y, X)), "y"),
        *(label_array(groups[name], f"groups[{name!r}]") for name in names),
    ]
    if len({len(own) for own in known}) > 1:
        lengths = ", ".join(f"{name} {len(own):,}" for name, own in zip(axes, known, strict=True))
        raise InputError(f"There must be a level of each axis a row; they have: {lengths}.")
    levels, codes = zip(*(np.unique(own, return_inverse=True) for own in known), strict=True)
    _refuse_many(axes, levels)
    keys = np.ravel_multi_index(codes, tuple(map(len, levels)))
    return _of_cells(_counted(*rows_and_scheduler(X, keys, sample_weight)), axes, levels, precision)


def cells_of(rows: Rows, *, precision: str) -> CellMoments:
    """Return the moments of every cell of classes and those groups that columns of the rows tell."""
    plays = rows.dataset.columns_into("axes")
    levels = (rows.census.classes, *(play.look for play in plays))
    axes = [LABEL, *(play.name for play in plays)]
    _refuse_many(axes, levels)
    view = rows.dataset.keyed(partial(_cell_of, levels=levels), CELL)
    census = count_labels(view, rows.spans, replace(rows, progress=None))
    crossed = math.prod(map(len, levels))
    if isinstance(rows.scheduler, Pilot) and crossed <= rows.dataset.n_rows:  # it has seen few, and a run keeps all
        census = census.over(np.arange(crossed))
    return _of_cells(replace(rows, dataset=view, census=census), axes, levels, precision)


def _refuse_many(axes: Sequence[str], levels: Sequence[NDArray]) -> None:
    """Raise InputError where crossed levels are more than can be numbered."""
    sizes = [len(own) for own in levels]
    if math.prod(sizes) > np.iinfo(np.intp).max:
        told = ", ".join(f"{size:,} of {name}" for size, name in zip(sizes, axes, strict=True))
        raise InputError(f"There are too many crossed levels to number: {told}. Leave out some groups.")


def _counted(dataset: Dataset, scheduler: Scheduler) -> Rows:
    spans = make_spans(dataset)
    census = count_labels(dataset, spans, Tasks(scheduler=scheduler))
    return Rows(dataset=dataset, census=census, spans=spans, scheduler=scheduler)


def _of_cells(rows: Rows, axes: Sequence[str], levels: Sequence[NDArray], precision: str) -> CellMoments:
    """Return the moments of cells, whose numbers rows have for their labels."""
    codes = np.column_stack(np.unravel_index(rows.census.classes, tuple(map(len, levels))))
    d, n_levels = rows.dataset.n_features, sum(map(len, levels))
    weights = sums_by_level(codes) if use_pooled(len(codes), d) else None
    if weights is not None and use_pooled(n_levels, d):
        raise InputError(
            f"Scatters of {d:,} columns for each of {n_levels:,} levels of {', '.join(axes)} are more than "
            f"{LIMITS.pooled_bytes >> 20} MiB. Take groups of fewer levels, or fewer columns."
        )
    cells, _ = take_moments(rows, precision=precision, weights=weights)
    return CellMoments(cells, tuple(axes), tuple(levels), codes, np.ones(len(codes)))


def _cell_of(batch: Batch, levels: Sequence[NDArray]) -> NDArray[np.intp]:
    """Return the number of the cell of each row."""
    codes = batch.codes(levels[0]), *batch.roles["axes"].T
    return np.ravel_multi_index(codes, tuple(map(len, levels)))


def sums_by_level(codes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the weights of cells in the sums of scatters by each level of each axis, shape (sum of levels, K)."""
    return np.concatenate([column == np.unique(column)[:, None] for column in codes.T]).astype(np.float64)
