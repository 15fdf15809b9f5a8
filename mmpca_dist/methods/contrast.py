"""Contrasts of two scatters, each a named sum of what class moments hold, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.eigen.dense import symmetric_eigenpairs
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError, NoComponentsError
from mmpca_dist.methods.base.named_scatters import WORDS, position_of, scatter_of, terms_of
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.shrinkage import chosen_shrinkage
from mmpca_dist.methods.base.solution import Solution, class_limit
from mmpca_dist.methods.base.traits import Option, Traits, check_choice
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.working_statistics import Statistics

LOST = 0.01
"""Share of A in directions without scatter B from which on a caution tells that they are left out."""


class ScatterContrast(MomentReducer):
    """Directions in which a scatter A is large and a scatter B small: A v = l B v, or (A - a B) v = l v.

    Both are sums of covariances with coefficients: ``total``, ``within`` classes, ``between`` class means (total =
    within + between), and ``class``, of single classes whatever their size: whitening, common spatial patterns,
    contrastive PCA, minimum noise fraction. Others are as in ``MarginPCA``, but there is no solver in passes.

    Parameters
    ----------
    n_components : int or float, optional
        By default all whose eigenvalue is not zero.
    A, B : str, dict or None
        ``"total"``, ``"within"``, ``"between"``, or a mapping such as ``{"total": 1, "class": {"noise": -0.5}}``;
        ``{"class": "noise"}`` is one class with coefficient 1. Without A rows are whitened by B; without B components
        are eigenvectors of A.
    a : float, optional
        Take eigenvectors of A - a B, as contrastive PCA does.
    shrinkage : float or "auto"
        g, from 0 to 1: B becomes (1 - g) B + g tr(B) / d I. With 0, directions in which B is zero up to rounding are
        left out. ``"auto"`` is as in ``FisherDiscriminant``, for B that is total, within or one class.
    order : {"largest", "magnitude"}
        Whether components come by decreasing eigenvalue, or by its magnitude: from both ends.
    square : bool
        Without A, keep all columns, whatever ``n_components`` is.
    rotation : {"pca", "zca"}
        With ``square``, whether coordinates are along the principal axes of B, or its B^(-1/2), which moves rows least.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        v with v^T B v = 1, not orthonormal; orthonormal with ``a``, or without B.
    eigenvalues_ : array of shape (K,)
        l; without A those of B, and NaN for ``zca``. ``total_`` is the sum of all; NaN where some are negative.
    residuals_ : array of shape (K,)
        ||L^-1 (A v - l B v)|| with B = L L^T, or ||(A - a B) v - l v||; without A those of unit vectors.

    References
    ----------
    Kessy, Lewin & Strimmer 2018, "Optimal whitening and decorrelation"; Ramoser et al. 2000, "Optimal spatial filtering
    of single trial EEG"; Abid et al. 2018, Nature Communications 9 (contrastive PCA); Green et al. 1988 (noise).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import ScatterContrast
    >>> X, y = load_iris(return_X_y=True)
    >>> patterns = ScatterContrast(2, A={"class": {0: 1, 1: -1}}, B={"class": {0: 1, 1: 1}}, order="magnitude")
    >>> patterns.fit(X, y).eigenvalues_.round(2)
    array([-0.78, -0.49])
    """

    traits = Traits({
        "A": Option(values=WORDS, example={"class": {"left": 1, "right": -1}},
                    description="Scatter that components are to have; null: none, and rows are whitened by B"),
        "B": Option(values=WORDS, example={"class": "control"},
                    description="Scatter that components lack, or that becomes the identity; null: eigenvectors of A"),
        "a": Option(ge=0, example=1.0, description="Take eigenvectors of A - a B, as contrastive PCA does"),
        "shrinkage": Option(words=("auto",), ge=0, le=1, example=0.01,
                            description="Share of the identity in B; auto: by rows held out"),
        "order": Option(example="magnitude", description="Whether by decreasing eigenvalue, or by its magnitude"),
        "rotation": Option(example="zca", description="Principal axes of B, or B^(-1/2), which moves rows least"),
    })  # fmt: skip

    def __init__(
        self, n_components: float | None = None, *, A: str | dict[str, Any] | None = "between",
        B: str | dict[str, Any] | None = "within", a: float | None = None, shrinkage: float | Literal["auto"] = 0.0,
        order: Literal["largest", "magnitude"] = "largest", square: bool = False,
        rotation: Literal["pca", "zca"] = "pca",
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing,
        )  # fmt: skip
        self.A, self.B, self.a, self.shrinkage, self.order = A, B, a, shrinkage, order
        self.square, self.rotation = square, rotation

    def needs(self) -> Needs:
        terms = terms_of("B", self.B) if self.shrinkage == "auto" else {}
        if len(terms) > 1 or ("between", "") in terms or min(terms.values(), default=1) <= 0:
            raise InputError("shrinkage='auto' takes for B the total, within or a single class: give it as a number.")
        chosen = tuple((*name, self.standardize) for name in terms)
        return Needs(full_scatter=("whitening" if self.square else "contrast",), shrinkages=chosen)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice("order", self.order, ("largest", "magnitude"))
        check_choice("rotation", self.rotation, ("pca", "zca"))
        if len([terms_of(*each) for each in self._named().items()]) < 1 + (self.a is not None):
            raise InputError("A or B is missing: A - a B needs both, and without a there must be one of them.")
        if self.shrinkage and (self.B is None or self.a is not None):
            raise InputError("shrinkage has no effect where nothing is divided by B: leave it out.")
        if (self.square and self.A is not None) or (self.rotation == "zca" and not self.square):
            raise InputError("square is for whitening, without A, and rotation='zca' is for square.")

    def check_classes(self, classes: NDArray, counts: NDArray, pooled: bool) -> None:
        for name, value in self._named().items():
            for label in (label for kind, label in terms_of(name, value) if kind == "class"):
                position_of(label, classes, counts, pooled)

    def _named(self) -> dict[str, Any]:
        return {name: value for name, value in (("A", self.A), ("B", self.B)) if value is not None}

    @property
    def needs_no_labels(self) -> bool:
        return all(set(terms_of(name, value)) == {("total", "")} for name, value in self._named().items())

    serves_targets = needs_no_labels

    def _solve(self, statistics: Statistics) -> Solution:
        known = {name: scatter_of(name, value, statistics) for name, value in self._named().items()}
        rank, by_magnitude, self._cautions = min(each[2] for each in known.values()), self.order == "magnitude", []
        (A, error, _), (B, off, _) = (known.get(name, (np.empty(0), 0.0, 0)) for name in "AB")
        if self.B is None or self.a is not None:
            if self.a is not None:
                A, error, rank = A - self.a * B, error + self.a * off, len(A)
            pairs = symmetric_eigenpairs(A, error, by_magnitude)
        else:
            g = chosen_shrinkage(self.shrinkage, statistics, self.needs().shrinkages)
            ridge = g * float(np.trace(B)) / statistics.n_features
            pairs = symmetric_eigenpairs((1 - g) * B + ridge * np.eye(len(B)), off, by_magnitude=True)
            if pairs.values.min(initial=0) < 0 or not len(pairs.values):
                raise NoComponentsError("B divides, and must not be zero, or negative in a direction, up to rounding.")
            axes, whitener = pairs.vectors, pairs.vectors / np.sqrt(pairs.values)
            if self.rotation == "zca":
                if statistics.basis is not None:
                    raise InputError("rotation='zca' maps all columns to all, and rows are fewer: choose 'pca'.")
                components, nan = statistics.loadings(whitener).T @ statistics.loadings(axes), np.full(len(B), np.nan)
                return Solution(components, nan, nan, np.zeros(len(B)), np.nan, f"the columns, {len(B)}")
            if self.A is None:
                pairs = replace(pairs, vectors=whitener, total=float(pairs.values.sum()))
                rank = min(rank, int(np.sum(pairs.values > ridge + off)))
            else:
                lost = 1 - float(np.sum(axes * (A @ axes)) / np.trace(A)) if np.trace(A) > 0 else 0.0
                caution = f"{lost:.0%} of A lies where B is zero up to rounding, and is left out: raise shrinkage."
                self._cautions = [caution] * (lost > LOST)
                rank = known["A"][2] if ridge else rank
                pairs = symmetric_eigenpairs(whitener.T @ A @ whitener, error, by_magnitude, back=whitener, off=off)
        pairs, limit = pairs.leading(rank), f"the rank of its scatters, at most {rank}"
        if self.A == "between" and self.a is None:
            limit = class_limit(int(np.count_nonzero(statistics.moments.counts)))
        elif self.A is not None and len(pairs.values) < rank:
            limit = f"the number of directions in which the contrast is not zero, {len(pairs.values)}"
        return Solution.of_pairs(statistics, pairs if self.square else pairs.leading(self._at_most(rank)), limit)

    @property
    def keeps_all(self) -> bool:  # type: ignore[override]
        return self.square


METHODS = (
    Method(
        "contrast", "Contrast of scatters", "classes", "a scatter A over a scatter B, or less a B, as they are named",
        "ranks of A and B", ScatterContrast, settable=("A", "B", "a", "shrinkage", "order"), orthonormal=False,
        residuals="in units of B where A is divided by it",
    ),
    Method(
        "whitening", "Whitening", "baselines", "all columns, of which a named scatter is the identity",
        "d", ScatterContrast, {"A": None, "square": True}, settable=("B", "shrinkage", "rotation"), orthonormal=False,
        ordered=False, blocks=lambda n_components, n_classes, n_features: -(-n_features // n_components),
        reduces=False, sections=("choice",),
    ),
)  # fmt: skip
