"""How leading eigenvectors are to be found."""

from __future__ import annotations

from dataclasses import dataclass

from mmpca_dist.errors import InputError, did_you_mean

SOLVERS = ("auto", "dense", "dual", "krylov", "subspace", "nystroem")
IN_PASSES = ("krylov", "subspace", "nystroem")
"""Solvers that never form a d x d matrix: each pass over the rows applies the scatter to a block of vectors."""

LARGEST_DENSE = 3072
"""Columns up to which ``auto`` forms the scatter: LAPACK then takes seconds."""

LARGEST_DUAL = 1 << 30
"""Bytes of the rows, as doubles, up to which ``auto`` keeps fewer rows than columns in memory and solves in their
span."""


@dataclass(frozen=True)
class SolverOptions:
    """How leading eigenvectors are found.

    Attributes
    ----------
    kind : {"auto", "dense", "dual", "krylov", "subspace", "nystroem"}
    oversampling : int
        Vectors of a block beyond the components asked for.
    passes : int
        Over the rows, at most, and at least two: the second takes in what lies between the classes. ``nystroem``
        makes one.
    tolerance : float
        Residual over eigenvalue of every component at which passes end before that.
    """

    kind: str = "auto"
    oversampling: int = 10
    passes: int = 4
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if self.kind not in SOLVERS:
            raise InputError(
                f"Unknown solver {self.kind!r}; there are {', '.join(SOLVERS)}.{did_you_mean(str(self.kind), SOLVERS)}"
            )
        for name, least in (("oversampling", 0), ("passes", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name}={value!r} must be a whole number from {least}.")
        if not 0 <= self.tolerance < 1:
            raise InputError(f"tolerance={self.tolerance!r} must be a number from 0 to 1.")


@dataclass(frozen=True)
class Choice:
    """A solver, and in words why it was taken."""

    kind: str
    reason: str
    formed: bool = False
    """Whether a method needs the scatter as a whole, so that no solver in passes could serve."""

    @property
    def in_passes(self) -> bool:
        return self.kind in IN_PASSES


def choose_solver(
    options: SolverOptions,
    n_rows: int,
    n_features: int,
    n_components: int | None,
    *,
    needed: frozenset[str] = frozenset({"plain"}),
) -> Choice:
    """Choose how eigenvectors are found, from the shape of the rows alone: results must not depend on memory limits.

    Parameters
    ----------
    n_components : int or None
        The largest number asked for; None for all there are.
    needed : set of {"plain", "weighted", "pairs", "formed", "columns"}
        What scatters methods are made from, and whether some need one as a whole (formed, or in the span of the rows);
        none, or ``columns``, where means and variances of classes suffice.

    Raises
    ------
    InputError
        Where the solver asked for cannot serve.
    """
    wide = n_rows < n_features
    size = f"{n_rows:,} rows of {n_features:,} features"
    formed, few_numbers = "formed" in needed, needed <= {"columns"}
    if options.kind in IN_PASSES:
        if formed:
            raise InputError(
                f"solver={options.kind!r} never forms a scatter, and pls, ridge and lasso need it as a whole. Leave "
                "these methods out, or use auto, dense (no fewer rows than columns) or dual (fewer)."
            )
        if n_components is None and not few_numbers:
            raise InputError(f"solver={options.kind!r} needs n_components: it finds so many components, not all.")
        return Choice(options.kind, "asked for")
    if options.kind == "dual" or options.kind == "dense":
        if wide != (options.kind == "dual"):
            other, order = ("dual", "fewer") if wide else ("dense", "no fewer")
            raise InputError(
                f"solver={options.kind!r} does not serve {size}: with {order} rows than columns use {other!r}."
            )
        return Choice(options.kind, "asked for", formed)
    if formed:
        how = "is solved in the span of the rows" if wide else "needs the whole scatter"
        return Choice("dual" if wide else "dense", f"{size}: a regression {how}", formed)
    if few_numbers and n_features > LARGEST_DENSE:
        what = "means and variances" if needed else "means"
        return Choice("krylov", f"class {what} suffice: one pass takes them, and no scatter is formed")
    few = n_components is not None and 4 * (n_components + options.oversampling) <= min(n_rows, n_features)
    if wide:
        if not few or n_rows * n_features * 8 <= LARGEST_DUAL:
            return Choice("dual", f"{size}: the problem is solved in the span of the rows")
        return Choice("krylov", f"{size}: too many to be kept, as doubles, and solved in their span")
    if not few or n_features <= LARGEST_DENSE:
        return Choice("dense", f"a {n_features:,} x {n_features:,} scatter is small and quickly solved")
    return Choice(
        "krylov", f"a {n_features:,} x {n_features:,} scatter would take LAPACK longer than passes over the rows"
    )
