"""The contents of a report, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.jobs.notes import arbitrary
from mmpca_dist.methods.solution import IMPRECISE


@dataclass(frozen=True)
class MethodResult:
    """Components of one method, as a report shows them.

    Attributes
    ----------
    name, title : str
        ``"m-pca0"`` and ``"M-PCA0"``.
    components : array of shape (K, d)
    eigenvalues, residuals, relative_errors : arrays of shape (K,)
        As in ``mmpca_dist.methods.solution.Solution``; what is not finite is shown as a dash.
    total : float
        Sum of all eigenvalues of the method's scatter, found or not.
    limit : str
        What bounds the number of components, in words.
    sizes : list of int
        The requested numbers of components, cut to what there is.
    requested : list of int
        The numbers of components as requested.
    orthonormal : bool
        Whether components have length one and are perpendicular.
    ordered : bool
        Whether components are eigenvectors by decreasing eigenvalue (not so for LOL).
    history : list of dict
        ``values`` and ``residuals`` after passes from ``first_pass`` on, where a solver in passes found them.
    first_pass : int
    values : str
        What the values are where they are no eigenvalues, in words.
    """

    name: str
    title: str
    components: NDArray
    eigenvalues: NDArray
    residuals: NDArray
    relative_errors: NDArray
    total: float
    limit: str
    sizes: list[int]
    requested: list[int]
    orthonormal: bool
    ordered: bool
    history: list[dict[str, list[float]]] = field(default_factory=list)
    first_pass: int = 2
    values: str = ""

    @property
    def shares(self) -> NDArray[np.float64]:
        """Eigenvalues over their total, shape (K,); NaN where the total is not positive."""
        total = self.total if self.total > 0 else np.nan
        return np.asarray(self.eigenvalues, dtype=np.float64) / total

    @property
    def imprecise(self) -> NDArray[np.bool_]:
        """Which components are within a hundredfold of the rounding floor, shape (K,)."""
        return np.asarray(self.relative_errors) > IMPRECISE

    @property
    def arbitrary(self) -> NDArray[np.bool_]:
        """Which components have an eigenvalue that is not told apart from its neighbour's, shape (K,)."""
        return arbitrary(self.eigenvalues, self.residuals, self.relative_errors, self.ordered, self.orthonormal)

    def directions(self, first: int) -> NDArray:
        """Return the first components (as many as there are), scaled to length one, shape (<= first, d)."""
        components = self.components[:first]
        lengths = np.linalg.norm(components, axis=1, keepdims=True)
        return components / np.where(lengths > 0, lengths, 1)


@dataclass(frozen=True)
class Choice:
    """How the number of components of a method was chosen.

    Attributes
    ----------
    name, title : str
    cells : list of Cell
        Errors of the numbers that were tried, ascending, over folds.
    chosen : Cell
        The one that was chosen.
    """

    name: str
    title: str
    cells: list[Cell]
    chosen: Cell


@dataclass(frozen=True)
class Margins:
    """Distances between rows and their nearest rows of other classes, before and after projection.

    Attributes
    ----------
    edges, counts : arrays of shape (b + 1,) and (b,)
        Histogram of all distances before projection.
    before : array of shape (s,)
        Distances of pairs spread evenly over all.
    after : dict of str to array of shape (s,)
        For each method's name, the lengths of what its components see of these pairs' differences: of their
        orthogonal projections onto the space that the components span.
    standardized : bool
        Whether columns were divided by their standard deviations.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    before: NDArray[np.float64]
    after: dict[str, NDArray[np.float64]]
    standardized: bool = False

    def kept(self, name: str) -> NDArray[np.float64]:
        """Return lengths after projection over distances before, of the pairs that do not coincide."""
        apart = self.before > 0
        return self.after[name][apart] / self.before[apart]


@dataclass(frozen=True)
class Reconstructions:
    """A few rows, and what the first components of the methods rebuild of them.

    Attributes
    ----------
    rows : array of shape (m, d)
        As they were read.
    before_noise : array of shape (m, d), or None
        The same rows before noise was added, where these are known.
    labels : list of m str
    sizes : list of int
        Numbers of components, as asked for, increasing.
    rebuilt : dict of str to dict of int to array of shape (m, d)
        For each method's name and number of components, ``inverse_transform(transform(rows))``; a method that has
        fewer components than asked for stands under the number it has.
    """

    rows: NDArray[np.float64]
    before_noise: NDArray[np.float64] | None
    labels: list[str]
    sizes: list[int]
    rebuilt: dict[str, dict[int, NDArray[np.float64]]]


@dataclass(frozen=True)
class ReportContents:
    """Everything a report of a run shows.

    Attributes
    ----------
    dataset : dict
        ``uri``, ``n_rows``, ``n_features``, ``dtype``, ``classes`` (names), ``counts`` (rows per class),
        ``feature_names`` (or None) and ``image_shape`` (``[height, width]`` of a row in C order, or None).
    methods : list of MethodResult
    projected : dict of str to array of shape (m, at most K)
        Projected sample of the rows for each method's name; a method may be missing.
    codes : int array of shape (m,)
        Position of the class of each row of the sample.
    sample_note : str
        Which rows these are: ``"all 1797 rows"``.
    plan : list of (what, planned, measured)
    stages : list of (stage, seconds, note)
    config_yaml : str
    versions : dict of str to str
    notes : list of str
        Warnings, shown at the top.
    margins : Margins or None
        Where nearest rows of other classes were searched for.
    search : list of (what, found, meaning)
        The certificate of that search.
    solving : list of (method, proved, meaning)
        The certificate of a solver in passes, and its tolerance.
    tolerance : float
    reconstructions : Reconstructions or None
        Where rows are images.
    choices : list of Choice
        Where numbers of components were chosen, in ``folds`` folds under the classifier ``judge`` and by ``rule``.
    folds : int
    judge, rule : str
    """

    dataset: dict[str, Any]
    methods: list[MethodResult]
    projected: dict[str, NDArray]
    codes: NDArray
    sample_note: str
    plan: list[tuple[str, str, str]]
    stages: list[tuple[str, float, str]]
    config_yaml: str
    versions: dict[str, str]
    notes: list[str]
    margins: Margins | None = None
    search: list[tuple[str, str, str]] = field(default_factory=list)
    solving: list[tuple[str, str, str]] = field(default_factory=list)
    tolerance: float = 0.0
    reconstructions: Reconstructions | None = None
    choices: list[Choice] = field(default_factory=list)
    folds: int = 0
    judge: str = ""
    rule: str = ""

    @property
    def solved(self) -> list[MethodResult]:
        """The methods that found at least one component."""
        return [method for method in self.methods if len(method.eigenvalues)]

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width of the rows, where they are images."""
        shape = self.dataset.get("image_shape")
        if shape is None or int(np.prod(shape)) != self.dataset["n_features"]:
            return None
        return int(shape[0]), int(shape[1])
