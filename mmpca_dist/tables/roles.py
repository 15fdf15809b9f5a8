"""Roles of columns: what a stored column means for the rows, and the one table of all roles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.column import Column, Known
from mmpca_dist.tables.covariates import Covariate
from mmpca_dist.tables.labels import distinct_labels, encode, normalize_labels
from mmpca_dist.tables.times import order_keys, times
from mmpca_dist.tables.values import SKIP, Place, SeenRows, names, numbers

Asked = tuple[str, str | None, Any]
"""A column that a configuration asks for: its name, the column (None for that of the labels), and an option."""
SAMPLE = 1 << 20
"""Values of a column, about, that its quantiles are taken of; more are sampled evenly."""


@dataclass(frozen=True)
class Role:
    """The meaning of a column for the rows.

    Attributes
    ----------
    name : str
        What messages and records call it.
    into : str
        The array of a batch that it makes, or changes.
    encode : callable
        Returns the array of some rows: from values, or the batch so far, where they are, and the look.
    columns : callable
        Returns name, column and option of each column that plays it, by the section of a configuration, by default
        none; the column None is that of the labels.
    look : callable
        Looks once at the column in the rows left so far, and returns plain data, by the name and the option.
    combine : callable
        Returns the array of a batch from what an earlier column left there, or None, and the new array.
    keeps : callable, optional
        Returns which rows are left, by the array; the others need no value in later roles.
    why_left_out : str
    reads : tuple of str
        The arrays of a batch that it is made of, where no column plays it.
    to_json, from_json : callable
        Make a look plain for records, and back.
    """

    name: str
    into: str
    encode: Callable[[Any, Place, Any], NDArray]
    columns: Callable[[Any], Sequence[Asked]] = lambda section: ()
    look: Callable[[Any, Column, str, Any], Any] = lambda rows, column, name, option: option
    combine: Callable[[NDArray | None, NDArray], NDArray] = lambda before, now: now
    keeps: Callable[[NDArray], NDArray[np.bool_]] | None = None
    why_left_out: str = ""
    reads: tuple[str, ...] = ()
    to_json: Callable[[Any], Any] = lambda look: look
    from_json: Callable[[Any], Any] = lambda look: look

    @property
    def plural(self) -> str:
        return self.name if self.name.endswith("s") else f"{self.name}s"

    @property
    def setting(self) -> str:
        """The setting that names its columns."""
        return {"known": "label", "slices": "target"}.get(self.name, self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return role_named, (self.name,)


def role_named(name: str) -> Role:
    """Return the role of a name; raise InputError where there is none, such as in the record of another version."""
    for role in (*ROLES, TIME, PART, ONE_CLASS, FACTOR, ONLY, KEY, CELL):
        if role.name == name:
            return role
    raise InputError(f"There is no role {name!r} of columns. Another version of this package may have written it.")


@dataclass(frozen=True, eq=False)
class Played:
    """A role, the column that plays it, and what a look at that has left; without a column it reads batches."""

    role: Role
    column: Column | None
    look: Any = None
    name: str = ""

    @property
    def names(self) -> Sequence[str]:
        """Names of the numbers that it makes."""
        return self.look if isinstance(self.look, tuple) else (self.name,)

    def over(self, source: Any) -> Played:
        """Return the same of another source; a column in the blocks of a task is that of the source."""
        if self.column is None or not self.column.in_blocks:
            return self
        return replace(self, column=source.column(self.column.name, self.role.name))


def says_none(labels: Any, value: str | int | None) -> NDArray[np.bool_]:
    """Return which labels are the ``value`` that says that a row has none; False of all where there is no such."""
    is_text = labels.dtype.kind == "U"
    if value is None or not (is_text or str(value).removeprefix("-").isdecimal()):
        return np.zeros(labels.shape, bool)
    return np.asarray(labels == (str(value) if is_text else int(value)))


def _labelled(known: Known, place: Place, option: tuple[str, str | int | None]) -> NDArray[np.bool_]:
    """Return which rows have a label: a value, and not the one that says there is none."""
    (values, there), (unlabelled, value) = known, option
    if value is None:
        return there
    absent = np.zeros(len(there), bool)
    absent[there] = says_none(normalize_labels(values[there], place.where), value)
    if unlabelled == "refuse" and absent.any():
        raise InputError(
            f"Row {place.row(int(np.argmax(absent)))} of {place.uri} has the label {value!r}, which unlabelled_value "
            "says is none. {skip} leaves out such rows.",
            skip=SKIP,
        )
    return there & ~absent


def _may_lack(section: Any) -> Sequence[Asked]:
    option = section.unlabelled, section.unlabelled_value
    return [] if option == ("refuse", None) else [("", None, option)]


KNOWN = Role("known", "known", _labelled, _may_lack, keeps=lambda known: known, why_left_out="none has a label")

LABEL = Role(
    "label", "label", lambda known, place, look: names(known, place, "label"),
    lambda section: [] if section.target or section.classless else [("", None, None)],
)  # fmt: skip


def _product(before: NDArray | None, now: NDArray) -> NDArray:
    return now if before is None else now * before


def _beside(*names: str | None) -> Sequence[Asked]:
    return [(name, name, None) for name in names if name is not None]


WEIGHT = Role(
    "weight", "weight", lambda known, place, look: numbers(known, place, "weight", positive=True),
    lambda section: _beside(section.weight),
    combine=_product, keeps=lambda weights: weights > 0, why_left_out="all have weight zero",
)  # fmt: skip

Factors = tuple[NDArray, NDArray[np.float64]]
"""Sorted names, and a factor on the weights of the rows of each."""


def _balance(rows: SeenRows, column: Column, name: str, option: Any) -> Factors:
    """Return the factors by which all names in a column count alike; the sum of all weights stays as it is."""
    totals = Counter[Any]()
    for known, place, batch in rows.values(column, "weight"):
        found, codes = np.unique(names(known, place), return_inverse=True)
        totals.update(dict(zip(found.tolist(), np.bincount(codes, batch.weight).tolist(), strict=True)))
        if len(totals) > LIMITS.max_groups:
            raise InputError(f"{column.place} has more than {LIMITS.max_groups} names: which are to count alike?")
    counts = np.asarray([totals[level] for level in sorted(totals)])
    return distinct_labels(sorted(totals)), counts.sum() / (len(counts) * counts)


BALANCE = Role(
    "balance", "weight", lambda known, place, look: look[1][encode(names(known, place), look[0], place.where)],
    lambda section: _beside(section.balance), look=_balance, combine=_product,
    to_json=lambda look: [each.tolist() for each in look],
    from_json=lambda look: (distinct_labels(look[0]), np.asarray(look[1])),
)  # fmt: skip
COVARIATE = Role(
    "covariates", "covariates", lambda known, place, covariate: covariate.encoded(known, place),
    lambda section: _beside(*section.covariates),
    look=lambda rows, column, name, option: Covariate.of(name, rows, column),
    combine=lambda before, now: now if before is None else np.concatenate([before, now], axis=1),
    to_json=Covariate.to_json, from_json=Covariate.from_json,
)  # fmt: skip


def _levels(rows: SeenRows, column: Column, name: str, option: Any) -> NDArray:
    """Return the names in a column, sorted."""
    found = set[Any]()
    for known, place, _ in rows.values(column):
        found.update(names(known, place).tolist())
        if len(found) > LIMITS.max_groups:
            raise InputError(f"{column.place} has more than {LIMITS.max_groups} names: which are groups?")
    return distinct_labels(sorted(found))


AXIS = Role(
    "groups", "axes", lambda known, place, levels: encode(names(known, place), levels, place.where)[:, None],
    lambda section: _beside(*section.groups), look=_levels, combine=COVARIATE.combine,
    to_json=np.ndarray.tolist, from_json=distinct_labels,
)  # fmt: skip
"""The groups of rows on one axis of the cells whose moments are kept."""


def _targets(section: Any) -> Sequence[Asked]:
    if not section.predicts:
        return []
    first, *others = section.target.column
    return [(first, None, None), *_beside(*others)]


def _target(known: Known, place: Place, look: Sequence[str] | None) -> NDArray[np.float64]:
    """Return numbers to predict; those that an estimator is given, which have names, may be unknown."""
    values = numbers(known, place, "target", finite=look is None)
    return values.reshape(len(values), -1)


TARGET = Role("target", "targets", _target, _targets, combine=COVARIATE.combine)


def _slices(section: Any) -> Sequence[Asked]:
    sliced = section.target is not None and not section.predicts
    return [(section.target.column[0], None, section.target.slices)] if sliced else []


def _edges(rows: SeenRows, column: Column, name: str, n_slices: int) -> NDArray[np.float64]:
    """Return where slices end: weighted quantiles of the numbers; fewer than asked for where many tie."""
    step, parts = -(-rows.n_rows // SAMPLE), []
    for known, place, batch in rows.values(column, "weight"):
        some, part = slice(-batch.start % step, None, step), numbers(known, place, "target")
        parts.append((part[some], (np.ones(len(part)) if batch.weight is None else batch.weight)[some]))
    values, weights = map(np.concatenate, zip(*parts, strict=True))
    below = values[values < values.max()]
    if not len(below):
        raise InputError(f"dataset.target: all values in {column.place} are {values[0]:g}: nothing to predict.")
    shares = np.arange(1, n_slices) / n_slices
    edges = np.quantile(values, shares, method="inverted_cdf", weights=weights)
    return np.unique(np.minimum(edges, below.max()))


SLICES = Role(
    "slices", "label", lambda known, place, edges: np.searchsorted(edges, numbers(known, place, "target")) + 1,
    _slices, look=_edges, to_json=np.ndarray.tolist, from_json=np.asarray,
)  # fmt: skip
TIME = Role("time", "label", lambda known, place, look: order_keys(times(known, place)))
PART = Role("part", "label", lambda known, place, look: names(known, place))
"""Groups, or given parts, in the place of labels."""
ONE_CLASS = Role("one class", "label", lambda batch, place, look: np.zeros(len(batch), np.int64))
"""All rows of one class, as those with numbers to predict are."""
FACTOR = Role(
    "factor", "weight", lambda batch, place, look: look[1][encode(batch.label, look[0], place.where)],
    combine=_product, keeps=WEIGHT.keeps, why_left_out=WEIGHT.why_left_out, reads=("label",),
)  # fmt: skip
"""Factors on the weights of rows by their labels."""
ONLY = Role(
    "only", "only", lambda batch, place, keep: keep(batch), keeps=KNOWN.keeps, why_left_out="none is chosen",
    reads=("label",),
)  # fmt: skip
"""Rows that a function of batches chooses."""
KEY = Role("key", "label", lambda batch, place, key: key(batch), reads=("label",))
"""Keys in the place of labels, such as those of part and class, which a function makes of batches."""
CELL = replace(KEY, name="cell", reads=("label", "axes"))
"""The same, of class and groups."""
ROLES = (KNOWN, LABEL, WEIGHT, BALANCE, COVARIATE, AXIS, TARGET, SLICES)
"""In the order in which they are looked at."""
