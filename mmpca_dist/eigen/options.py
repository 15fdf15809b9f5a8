"""Options of solvers, and the choice of a solver by the shape of the table."""

from __future__ import annotations

from dataclasses import dataclass

from mmpca_dist.eigen.block_solver import BLOCK_SOLVERS
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.limits import LIMITS

FROM_SCATTERS = ("auto", "dense", "dual")
"""Solvers that form scatters, and ``auto``, which chooses by the shape; all others are `BLOCK_SOLVERS`."""

LARGEST_DUAL = 1 << 30
"""Bytes, as doubles, up to which ``auto`` keeps rows in memory that are fewer than their columns: it solves in their
span."""


def solver_names() -> tuple[str, ...]:
    """Return the names of all solvers, including those of installed packages."""
    return (*FROM_SCATTERS, *BLOCK_SOLVERS)


def check_solver(kind: str) -> str:
    """Return the name of a solver.

    Raises InputError for a name that is none.
    """
    names = solver_names()
    if kind not in names:
        raise InputError(f"Unknown solver {kind!r}; there are {', '.join(names)}.{did_you_mean(str(kind), names)}")
    return kind


@dataclass(frozen=True)
class SolverOptions:
    """How leading eigenvectors are found."""

    kind: str = "auto"  # one of `solver_names`
    oversampling: int = 10  # vectors of a block beyond the components asked for
    passes: int = 4  # over the rows, at most, and at least two: the second takes in what lies between the classes
    tolerance: float = 1e-4  # residual over eigenvalue of every component at which passes end before that

    def __post_init__(self) -> None:
        check_solver(self.kind)
        for name, least in (("oversampling", 0), ("passes", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name}={value!r} must be a whole number from {least}.")
        if not 0 <= self.tolerance < 1:
            raise InputError(f"tolerance={self.tolerance!r} must be a number from 0 to 1.")


@dataclass(frozen=True)
class SolverSelection:
    """A solver, and the reason in words."""

    kind: str
    reason: str
    full_scatter: tuple[str, ...] = ()
    """The methods that need the full scatter, so that no solver in passes could serve."""

    @property
    def in_passes(self) -> bool:
        return self.kind in BLOCK_SOLVERS


def choose_solver(
    options: SolverOptions, n_rows: int, n_features: int, needs: Needs, held: bool = False
) -> SolverSelection:
    """Choose a solver by the shape of the rows and the needs of methods alone: results must not depend on memory.

    ``held`` is that of `Dataset`, whatever the machine. Raises InputError if the solver asked for does not fit them.
    """
    wide = n_rows < n_features
    size = f"{n_rows:,} rows of {n_features:,} features"
    n_components = needs.n_components
    if options.kind in BLOCK_SOLVERS:
        if needs.full_scatter:
            names = some_names(needs.full_scatter)
            raise InputError(
                f"solver={options.kind!r} never forms a scatter, and {names} needs it as a whole. Use solver 'auto', "
                "'dense' (no fewer rows than columns) or 'dual' (fewer), or leave such methods out."
            )
        if options.kind == "arpack" and not held:
            raise InputError("solver='arpack' serves sparse rows in memory without covariates or targets: use 'auto'.")
        if n_components is None and not needs.only_numbers:
            raise InputError(f"solver={options.kind!r} needs n_components as a number: it finds so many, not all.")
        return SolverSelection(options.kind, "asked for")
    if options.kind in ("dual", "dense"):
        if wide != (options.kind == "dual"):
            other, order = ("dual", "fewer") if wide else ("dense", "no fewer")
            raise InputError(
                f"solver={options.kind!r} does not serve {size}: with {order} rows than columns use {other!r}."
            )
        return SolverSelection(options.kind, "asked for", needs.full_scatter)
    if needs.full_scatter:
        how = "the problem is solved in the span of the rows" if wide else "the whole scatter is formed"
        reason = f"{size}: for {some_names(needs.full_scatter)} {how}"
        return SolverSelection("dual" if wide else "dense", reason, needs.full_scatter)
    if needs.only_numbers and n_features > LIMITS.dense_columns:
        what = "means and variances" if needs.columns else "means"
        return SolverSelection("krylov", f"class {what} suffice: one pass takes them, and no scatter is formed")
    few = n_components is not None and 4 * (n_components + options.oversampling) <= min(n_rows, n_features)
    if held and few and n_features > LIMITS.dense_columns and needs.own and needs.scatters:
        return SolverSelection("arpack", f"{size} are sparse and in memory: ARPACK needs no passes to converge")
    if wide:
        if not few or n_rows * n_features * 8 <= LARGEST_DUAL:
            return SolverSelection("dual", f"{size}: the problem is solved in the span of the rows")
        return SolverSelection("krylov", f"{size}: too many to be kept, as doubles, and solved in their span")
    if not few or n_features <= LIMITS.dense_columns:
        return SolverSelection("dense", f"a {n_features:,} x {n_features:,} scatter is small and quickly solved")
    return SolverSelection(
        "krylov", f"a {n_features:,} x {n_features:,} scatter would take LAPACK longer than passes over the rows"
    )
